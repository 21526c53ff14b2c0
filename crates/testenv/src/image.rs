//! Images of containers, written without a registry or a builder: an archive in the image layout of OCI
//! (github.com/opencontainers/image-spec, image-layout.md), which containerd imports.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::Error;
use crate::binaries::installed;

/// The image that holds the namespaces of a Pod, as the settings of containerd name it.
pub(crate) const PAUSE: &str = "pillion.test/pause:1";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const BUSYBOX: &str = "bin/busybox";
const SHELL: [&str; 3] = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"];

/// An image for containers of real nodes.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    files: BTreeMap<String, Content>,
    has_busybox: bool,
    entrypoint: Vec<String>,
    command: Vec<String>,
    user: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Text(String),
    /// An executable file of this machine.
    Program(PathBuf),
}

impl Image {
    /// An image with the commands of busybox, and under this name, which includes a tag. Unless told otherwise, a
    /// container of it does nothing until it is told to end, and then ends at once.
    pub fn busybox(name: impl Into<String>) -> Self {
        let command = SHELL.map(str::to_owned).to_vec();
        Self { has_busybox: true, command, ..Self::empty(name) }
    }

    /// An image without any file.
    pub fn empty(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            files: BTreeMap::new(),
            has_busybox: false,
            entrypoint: Vec::new(),
            command: Vec::new(),
            user: String::new(),
        }
    }

    /// Adds a file with this text.
    #[must_use]
    pub fn file(mut self, path: &str, text: impl Into<String>) -> Self {
        self.files.insert(path.trim_start_matches('/').to_owned(), Content::Text(text.into()));
        self
    }

    /// Adds an executable file of this machine, or a library. A program also needs the libraries that it was linked with.
    #[must_use]
    pub fn program(mut self, path: &str, program: impl Into<PathBuf>) -> Self {
        self.files.insert(path.trim_start_matches('/').to_owned(), Content::Program(program.into()));
        self
    }

    /// Sets the program that a container runs with the arguments of its Pod.
    #[must_use]
    pub fn entrypoint(mut self, program: &str) -> Self {
        self.entrypoint = vec![program.to_owned()];
        self
    }

    /// Sets what a container runs unless its Pod says otherwise.
    #[must_use]
    pub fn command<const N: usize>(mut self, command: [&str; N]) -> Self {
        self.command = command.map(str::to_owned).to_vec();
        self
    }

    /// Sets the user of a container unless its Pod says otherwise: the number of a user, and of a group.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// Returns the same image under the name of its digest: without its tag, and with `@sha256:…`.
    ///
    /// # Errors
    ///
    /// If a program cannot be read, or busybox is missing.
    pub fn by_digest(self) -> Result<Self, Error> {
        let mut archive = Archive::new(io::sink());
        let digest = archive.image(&self).map_err(Error::file(&self.name))?.digest;
        let repository = self.name.rsplit_once(':').map_or(self.name.as_str(), |(repository, _)| repository);
        Ok(Self { name: format!("{repository}@{digest}"), ..self })
    }

    /// Returns the image's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Writes these images into one archive.
///
/// # Errors
///
/// If a program cannot be read, busybox is missing, or the archive cannot be written.
pub(crate) fn write_archive(images: &[Image], path: &Path) -> Result<(), Error> {
    let mut archive = Archive::new(File::create(path).map_err(Error::file(path))?);
    archive.write(images, path).map_err(Error::file(path))
}

/// The type, the digest and the size of a blob, by which others refer to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<&'static str, String>>,
}

/// What a layer consists of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Busybox,
    /// One file with its path: several images have the same programs.
    File(String, Content),
}

struct Archive<W: Write> {
    builder: Builder<W>,
    /// The layers so far. A program has some tens of megabytes, so it is read and hashed once.
    layers: BTreeMap<Layer, Descriptor>,
    /// The digests of the blobs so far: images may be the same but for their names.
    written: Vec<String>,
}

impl<W: Write> Archive<W> {
    fn new(output: W) -> Self {
        Self { builder: Builder::new(output), layers: BTreeMap::new(), written: Vec::new() }
    }
}

impl Archive<File> {
    fn write(&mut self, images: &[Image], path: &Path) -> io::Result<()> {
        let mut manifests = Vec::new();
        for image in images {
            let mut manifest = self.image(image)?;
            manifest.annotations = Some(BTreeMap::from([("io.containerd.image.name", full_name(&image.name))]));
            manifests.push(manifest);
        }
        let index = json!({"schemaVersion": 2, "manifests": manifests}).to_string();
        append(&mut self.builder, "index.json", index.as_bytes(), 0o644)?;
        append(&mut self.builder, "oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#, 0o644)?;
        self.builder.finish()?;
        File::open(path)?.sync_data()
    }
}

impl<W: Write> Archive<W> {
    /// Writes one image. Returns the descriptor of its manifest.
    fn image(&mut self, image: &Image) -> io::Result<Descriptor> {
        let base = image.has_busybox.then_some(Layer::Busybox);
        let files = image.files.iter().map(|(path, content)| Layer::File(path.clone(), content.clone()));
        let layers: Vec<Descriptor> =
            base.into_iter().chain(files).map(|layer| self.layer(layer)).collect::<io::Result<_>>()?;
        let digests: Vec<&String> = layers.iter().map(|layer| &layer.digest).collect();
        let configuration = json!({
            "architecture": architecture(), "os": "linux",
            "config": {
                "Env": ["PATH=/bin"], "Entrypoint": image.entrypoint, "Cmd": image.command, "User": image.user,
            },
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let configuration = self.blob(CONFIGURATION, configuration.to_string().as_bytes())?;
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": configuration, "layers": layers}).to_string();
        self.blob(MANIFEST, manifest.as_bytes())
    }

    /// Writes a layer once. Returns its descriptor.
    fn layer(&mut self, layer: Layer) -> io::Result<Descriptor> {
        if let Some(known) = self.layers.get(&layer) {
            return Ok(known.clone());
        }
        let content = match &layer {
            Layer::Busybox => busybox_layer()?,
            Layer::File(path, content) => file_layer(path, content)?,
        };
        let descriptor = self.blob(LAYER, &content)?;
        self.layers.insert(layer, descriptor.clone());
        Ok(descriptor)
    }

    /// Writes a blob once. Returns its descriptor.
    fn blob(&mut self, media_type: &'static str, content: &[u8]) -> io::Result<Descriptor> {
        let digest = hex::encode(Sha256::digest(content));
        if !self.written.contains(&digest) {
            append(&mut self.builder, &format!("blobs/sha256/{digest}"), content, 0o644)?;
            self.written.push(digest.clone());
        }
        Ok(Descriptor { media_type, digest: format!("sha256:{digest}"), size: content.len(), annotations: None })
    }
}

/// Returns the name with its registry, as containerd knows an image: without one, it is Docker's.
fn full_name(name: &str) -> String {
    match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    }
}

/// Returns a layer with busybox, its commands, and what most programs expect to find.
fn busybox_layer() -> io::Result<Vec<u8>> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "busybox is missing: \"tools/setup node\" installs it");
    let busybox = installed("busybox").ok_or_else(missing)?;
    let listed = Command::new(&busybox).arg("--list").output()?;
    let mut layer = Builder::new(Vec::new());
    for (folder, mode) in [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("var", 0o755), ("root", 0o755)] {
        let mut header = header(EntryType::Directory, mode);
        layer.append_data(&mut header, format!("{folder}/"), io::empty())?;
    }
    append(&mut layer, BUSYBOX, &fs::read(busybox)?, 0o755)?;
    for command in String::from_utf8_lossy(&listed.stdout).lines().filter(|command| *command != "busybox") {
        let mut header = header(EntryType::Symlink, 0o777);
        layer.append_link(&mut header, format!("bin/{command}"), "busybox")?;
    }
    append(&mut layer, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", 0o644)?;
    append(&mut layer, "etc/group", b"root:x:0:\nnobody:x:65534:\n", 0o644)?;
    layer.into_inner()
}

/// Returns a layer with one file.
fn file_layer(path: &str, content: &Content) -> io::Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    match content {
        Content::Text(text) => append(&mut layer, path, text.as_bytes(), 0o644)?,
        Content::Program(program) => append(&mut layer, path, &fs::read(program)?, 0o755)?,
    }
    layer.into_inner()
}

fn append<W: Write>(builder: &mut Builder<W>, path: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut header = header(EntryType::Regular, mode);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, path, content)
}

/// Returns a header without an owner or a time, so that the same content has the same digest.
fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// Returns the name that images have for this machine's processor.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns the names in an archive, and the text of one of its files.
    fn read(path: &Path, wanted: &str) -> (Vec<String>, String) {
        let mut archive = tar::Archive::new(File::open(path).unwrap());
        let mut text = String::new();
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            if name == wanted {
                entry.read_to_string(&mut text).unwrap();
            }
            names.push(name);
        }
        (names, text)
    }

    #[test]
    fn images_with_the_same_files_share_their_layers_and_keep_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.tar");
        let image = |name: &str| Image::empty(name).file("/version", "one").command(["/run"]);

        write_archive(&[image("a:1"), image("shop/b:1"), image("registry.test/c:1").file("/more", "two")], &path)
            .unwrap();

        let (names, index) = read(&path, "index.json");
        // Two layers, two configurations and two manifests.
        assert_eq!(names.iter().filter(|name| name.starts_with("blobs/sha256/")).count(), 6);
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        let images = index["manifests"].as_array().unwrap();
        let names = images.iter().map(|image| image["annotations"]["io.containerd.image.name"].as_str().unwrap());
        let full = ["docker.io/library/a:1", "docker.io/shop/b:1", "registry.test/c:1"];
        assert_eq!(names.collect::<Vec<_>>(), full);
        assert_eq!(images[0]["digest"], images[1]["digest"]);
        assert_ne!(images[0]["digest"], images[2]["digest"]);
    }

    #[test]
    fn the_digest_of_an_image_is_that_of_its_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.tar");
        let image = Image::empty("registry.example:5000/a:1").file("/version", "one");
        let named = image.clone().by_digest().unwrap();

        write_archive(&[image, named.clone()], &path).unwrap();

        let (_, index) = read(&path, "index.json");
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        let digest = index["manifests"][0]["digest"].as_str().unwrap();
        assert_eq!(named.name(), format!("registry.example:5000/a@{digest}"));
        assert_eq!(index["manifests"][1]["digest"], digest);
    }

    #[test]
    fn a_program_that_is_missing_is_an_error_with_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.tar");

        let error = write_archive(&[Image::empty("a:1").program("run", "/missing/program")], &path).unwrap_err();

        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}
