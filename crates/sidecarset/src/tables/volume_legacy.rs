//! Tables of the volume sources for single storage products.

use super::Kind::{Bool, Int32, Object, Text, TextMap, Texts};
use super::reference::LOCAL_OBJECT_REFERENCE;
use super::{Table, always, nullable, optional, pointer};

pub(super) static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Table = Table::new(
    "GCEPersistentDiskVolumeSource",
    &[always("pdName", Text), optional("fsType", Text), optional("partition", Int32), optional("readOnly", Bool)],
);

pub(super) static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Table = Table::new(
    "AWSElasticBlockStoreVolumeSource",
    &[always("volumeID", Text), optional("fsType", Text), optional("partition", Int32), optional("readOnly", Bool)],
);

pub(super) static GIT_REPO_VOLUME_SOURCE: Table = Table::new(
    "GitRepoVolumeSource",
    &[always("repository", Text), optional("revision", Text), optional("directory", Text)],
);

pub(super) static ISCSI_VOLUME_SOURCE: Table = Table::new(
    "ISCSIVolumeSource",
    &[
        always("targetPortal", Text),
        always("iqn", Text),
        always("lun", Int32),
        optional("iscsiInterface", Text),
        optional("fsType", Text),
        optional("readOnly", Bool),
        optional("portals", Texts),
        optional("chapAuthDiscovery", Bool),
        optional("chapAuthSession", Bool),
        pointer("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        pointer("initiatorName", Text),
    ],
);

pub(super) static GLUSTERFS_VOLUME_SOURCE: Table =
    Table::new("GlusterfsVolumeSource", &[always("endpoints", Text), always("path", Text), optional("readOnly", Bool)]);

pub(super) static RBD_VOLUME_SOURCE: Table = Table::new(
    "RBDVolumeSource",
    &[
        always("monitors", Texts),
        always("image", Text),
        optional("fsType", Text),
        optional("pool", Text),
        optional("user", Text),
        optional("keyring", Text),
        pointer("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        optional("readOnly", Bool),
    ],
);

pub(super) static FLEX_VOLUME_SOURCE: Table = Table::new(
    "FlexVolumeSource",
    &[
        always("driver", Text),
        optional("fsType", Text),
        pointer("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        optional("readOnly", Bool),
        optional("options", TextMap),
    ],
);

pub(super) static CINDER_VOLUME_SOURCE: Table = Table::new(
    "CinderVolumeSource",
    &[
        always("volumeID", Text),
        optional("fsType", Text),
        optional("readOnly", Bool),
        pointer("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    ],
);

pub(super) static CEPH_FS_VOLUME_SOURCE: Table = Table::new(
    "CephFSVolumeSource",
    &[
        always("monitors", Texts),
        optional("path", Text),
        optional("user", Text),
        optional("secretFile", Text),
        pointer("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        optional("readOnly", Bool),
    ],
);

pub(super) static FLOCKER_VOLUME_SOURCE: Table =
    Table::new("FlockerVolumeSource", &[optional("datasetName", Text), optional("datasetUUID", Text)]);

pub(super) static FC_VOLUME_SOURCE: Table = Table::new(
    "FCVolumeSource",
    &[
        optional("targetWWNs", Texts),
        pointer("lun", Int32),
        optional("fsType", Text),
        optional("readOnly", Bool),
        optional("wwids", Texts),
    ],
);

pub(super) static AZURE_FILE_VOLUME_SOURCE: Table = Table::new(
    "AzureFileVolumeSource",
    &[always("secretName", Text), always("shareName", Text), optional("readOnly", Bool)],
);

pub(super) static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Table = Table::new(
    "VsphereVirtualDiskVolumeSource",
    &[
        always("volumePath", Text),
        optional("fsType", Text),
        optional("storagePolicyName", Text),
        optional("storagePolicyID", Text),
    ],
);

pub(super) static QUOBYTE_VOLUME_SOURCE: Table = Table::new(
    "QuobyteVolumeSource",
    &[
        always("registry", Text),
        always("volume", Text),
        optional("readOnly", Bool),
        optional("user", Text),
        optional("group", Text),
        optional("tenant", Text),
    ],
);

pub(super) static AZURE_DISK_VOLUME_SOURCE: Table = Table::new(
    "AzureDiskVolumeSource",
    &[
        always("diskName", Text),
        always("diskURI", Text),
        pointer("cachingMode", Text),
        pointer("fsType", Text),
        pointer("readOnly", Bool),
        pointer("kind", Text),
    ],
);

pub(super) static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Table =
    Table::new("PhotonPersistentDiskVolumeSource", &[always("pdID", Text), optional("fsType", Text)]);

pub(super) static PORTWORX_VOLUME_SOURCE: Table = Table::new(
    "PortworxVolumeSource",
    &[always("volumeID", Text), optional("fsType", Text), optional("readOnly", Bool)],
);

pub(super) static SCALE_IO_VOLUME_SOURCE: Table = Table::new(
    "ScaleIOVolumeSource",
    &[
        always("gateway", Text),
        always("system", Text),
        nullable("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
        optional("sslEnabled", Bool),
        optional("protectionDomain", Text),
        optional("storagePool", Text),
        optional("storageMode", Text),
        optional("volumeName", Text),
        optional("fsType", Text),
        optional("readOnly", Bool),
    ],
);

pub(super) static STORAGE_OS_VOLUME_SOURCE: Table = Table::new(
    "StorageOSVolumeSource",
    &[
        optional("volumeName", Text),
        optional("volumeNamespace", Text),
        optional("fsType", Text),
        optional("readOnly", Bool),
        pointer("secretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    ],
);
