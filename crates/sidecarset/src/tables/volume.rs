//! Tables of a volume and of its current sources.

use super::Kind::{Bool, Int32, Int64, Object, Objects, Quantity, Text, TextMap};
use super::meta::LABEL_SELECTOR;
use super::reference::{KEY_TO_PATH, LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use super::volume_claim::EPHEMERAL_VOLUME_SOURCE;
use super::volume_legacy::{
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, AZURE_DISK_VOLUME_SOURCE, AZURE_FILE_VOLUME_SOURCE, CEPH_FS_VOLUME_SOURCE,
    CINDER_VOLUME_SOURCE, FC_VOLUME_SOURCE, FLEX_VOLUME_SOURCE, FLOCKER_VOLUME_SOURCE,
    GCE_PERSISTENT_DISK_VOLUME_SOURCE, GIT_REPO_VOLUME_SOURCE, GLUSTERFS_VOLUME_SOURCE, ISCSI_VOLUME_SOURCE,
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE, PORTWORX_VOLUME_SOURCE, QUOBYTE_VOLUME_SOURCE, RBD_VOLUME_SOURCE,
    SCALE_IO_VOLUME_SOURCE, STORAGE_OS_VOLUME_SOURCE, VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
};
use super::{Table, always, optional, pointer};

/// A core/v1 Volume, with its sources inlined.
pub static VOLUME: Table = Table::new(
    "Volume",
    &[
        always("name", Text),
        pointer("hostPath", Object(&HOST_PATH_VOLUME_SOURCE)),
        pointer("emptyDir", Object(&EMPTY_DIR_VOLUME_SOURCE)),
        pointer("gcePersistentDisk", Object(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
        pointer("awsElasticBlockStore", Object(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
        pointer("gitRepo", Object(&GIT_REPO_VOLUME_SOURCE)),
        pointer("secret", Object(&SECRET_VOLUME_SOURCE)),
        pointer("nfs", Object(&NFS_VOLUME_SOURCE)),
        pointer("iscsi", Object(&ISCSI_VOLUME_SOURCE)),
        pointer("glusterfs", Object(&GLUSTERFS_VOLUME_SOURCE)),
        pointer("persistentVolumeClaim", Object(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        pointer("rbd", Object(&RBD_VOLUME_SOURCE)),
        pointer("flexVolume", Object(&FLEX_VOLUME_SOURCE)),
        pointer("cinder", Object(&CINDER_VOLUME_SOURCE)),
        pointer("cephfs", Object(&CEPH_FS_VOLUME_SOURCE)),
        pointer("flocker", Object(&FLOCKER_VOLUME_SOURCE)),
        pointer("downwardAPI", Object(&DOWNWARD_API_VOLUME_SOURCE)),
        pointer("fc", Object(&FC_VOLUME_SOURCE)),
        pointer("azureFile", Object(&AZURE_FILE_VOLUME_SOURCE)),
        pointer("configMap", Object(&CONFIG_MAP_VOLUME_SOURCE)),
        pointer("vsphereVolume", Object(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        pointer("quobyte", Object(&QUOBYTE_VOLUME_SOURCE)),
        pointer("azureDisk", Object(&AZURE_DISK_VOLUME_SOURCE)),
        pointer("photonPersistentDisk", Object(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
        pointer("projected", Object(&PROJECTED_VOLUME_SOURCE)),
        pointer("portworxVolume", Object(&PORTWORX_VOLUME_SOURCE)),
        pointer("scaleIO", Object(&SCALE_IO_VOLUME_SOURCE)),
        pointer("storageos", Object(&STORAGE_OS_VOLUME_SOURCE)),
        pointer("csi", Object(&CSI_VOLUME_SOURCE)),
        pointer("ephemeral", Object(&EPHEMERAL_VOLUME_SOURCE)),
        pointer("image", Object(&IMAGE_VOLUME_SOURCE)),
    ],
);

static HOST_PATH_VOLUME_SOURCE: Table =
    Table::new("HostPathVolumeSource", &[always("path", Text), pointer("type", Text)]);

static EMPTY_DIR_VOLUME_SOURCE: Table =
    Table::new("EmptyDirVolumeSource", &[optional("medium", Text), pointer("sizeLimit", Quantity)]);

static SECRET_VOLUME_SOURCE: Table = Table::new(
    "SecretVolumeSource",
    &[
        optional("secretName", Text),
        optional("items", Objects(&KEY_TO_PATH)),
        pointer("defaultMode", Int32),
        pointer("optional", Bool),
    ],
);

static NFS_VOLUME_SOURCE: Table =
    Table::new("NFSVolumeSource", &[always("server", Text), always("path", Text), optional("readOnly", Bool)]);

static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Table =
    Table::new("PersistentVolumeClaimVolumeSource", &[always("claimName", Text), optional("readOnly", Bool)]);

static DOWNWARD_API_VOLUME_SOURCE: Table = Table::new(
    "DownwardAPIVolumeSource",
    &[optional("items", Objects(&DOWNWARD_API_VOLUME_FILE)), pointer("defaultMode", Int32)],
);

static DOWNWARD_API_VOLUME_FILE: Table = Table::new(
    "DownwardAPIVolumeFile",
    &[
        always("path", Text),
        pointer("fieldRef", Object(&OBJECT_FIELD_SELECTOR)),
        pointer("resourceFieldRef", Object(&RESOURCE_FIELD_SELECTOR)),
        pointer("mode", Int32),
    ],
);

static CONFIG_MAP_VOLUME_SOURCE: Table = Table::new(
    "ConfigMapVolumeSource",
    &[
        optional("name", Text),
        optional("items", Objects(&KEY_TO_PATH)),
        pointer("defaultMode", Int32),
        pointer("optional", Bool),
    ],
);

static PROJECTED_VOLUME_SOURCE: Table = Table::new(
    "ProjectedVolumeSource",
    &[always("sources", Objects(&VOLUME_PROJECTION)), pointer("defaultMode", Int32)],
);

static VOLUME_PROJECTION: Table = Table::new(
    "VolumeProjection",
    &[
        pointer("secret", Object(&SECRET_PROJECTION)),
        pointer("downwardAPI", Object(&DOWNWARD_API_PROJECTION)),
        pointer("configMap", Object(&CONFIG_MAP_PROJECTION)),
        pointer("serviceAccountToken", Object(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
        pointer("clusterTrustBundle", Object(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
    ],
);

static SECRET_PROJECTION: Table = Table::new(
    "SecretProjection",
    &[optional("name", Text), optional("items", Objects(&KEY_TO_PATH)), pointer("optional", Bool)],
);

static DOWNWARD_API_PROJECTION: Table =
    Table::new("DownwardAPIProjection", &[optional("items", Objects(&DOWNWARD_API_VOLUME_FILE))]);

static CONFIG_MAP_PROJECTION: Table = Table::new(
    "ConfigMapProjection",
    &[optional("name", Text), optional("items", Objects(&KEY_TO_PATH)), pointer("optional", Bool)],
);

static SERVICE_ACCOUNT_TOKEN_PROJECTION: Table = Table::new(
    "ServiceAccountTokenProjection",
    &[optional("audience", Text), pointer("expirationSeconds", Int64), always("path", Text)],
);

static CLUSTER_TRUST_BUNDLE_PROJECTION: Table = Table::new(
    "ClusterTrustBundleProjection",
    &[
        pointer("name", Text),
        pointer("signerName", Text),
        pointer("labelSelector", Object(&LABEL_SELECTOR)),
        pointer("optional", Bool),
        always("path", Text),
    ],
);

static CSI_VOLUME_SOURCE: Table = Table::new(
    "CSIVolumeSource",
    &[
        always("driver", Text),
        pointer("readOnly", Bool),
        pointer("fsType", Text),
        optional("volumeAttributes", TextMap),
        pointer("nodePublishSecretRef", Object(&LOCAL_OBJECT_REFERENCE)),
    ],
);

static IMAGE_VOLUME_SOURCE: Table =
    Table::new("ImageVolumeSource", &[optional("reference", Text), optional("pullPolicy", Text)]);
