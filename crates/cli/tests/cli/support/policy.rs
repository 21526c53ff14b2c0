//! A folder with the module, and `pillion run` in it.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_host::metadata::Metadata;
use serde_json::Value;

use super::Run;

/// Returns a folder with the module, as it is built (`policy.wasm`) and with metadata (`annotated.wasm`).
pub fn folder(metadata: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.wasm"), pillion_preview::module::BYTES).unwrap();
    write_annotated(folder.path(), metadata);
    folder
}

/// Writes `annotated.wasm` with other metadata.
pub fn write_annotated(folder: &Path, metadata: &str) {
    let (metadata, _) = Metadata::from_yaml(metadata).unwrap();
    fs::write(folder.join("annotated.wasm"), metadata.write_into(pillion_preview::module::BYTES).unwrap()).unwrap();
}

/// Runs `pillion run` in a folder, without a cluster unless the kubeconfig in it names one.
pub fn run(folder: &Path, kubeconfig: &str, args: &[&str], stdin: &str) -> Run {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"));
    command.env("KUBECONFIG", kubeconfig).env_remove("KUBERNETES_SERVICE_HOST");
    super::finish(command.current_dir(folder).arg("run").args(args), stdin)
}

impl Run {
    /// Returns the response, which is the one line of output.
    pub fn response(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{}\n{}", self.out, self.err);
        self.json()
    }

    /// Returns the decoded patch of the response.
    pub fn patch(&self) -> Value {
        let patch = STANDARD.decode(self.response()["patch"].as_str().unwrap());
        serde_json::from_slice(&patch.unwrap()).unwrap()
    }

    /// Returns the code and the message of a refusal.
    pub fn refusal(&self) -> (u64, String) {
        let status = self.response()["status"].clone();
        (status["code"].as_u64().unwrap_or_default(), status["message"].as_str().unwrap_or_default().to_owned())
    }
}
