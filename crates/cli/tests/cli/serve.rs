//! `pillion serve` as a process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use pillion_testkit::metrics::Catalogue;
use rstest::rstest;
use serde_json::Value;

use crate::support::pillion;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A server. The test kills it at its end.
struct Server {
    process: Child,
    events: Receiver<Value>,
    health: String,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server with these arguments. The settings are a file in its folder.
    fn start(args: &[&str], envs: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(root().join("test_data/settings-log-agent.json"), folder.path().join("settings.json")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_pillion"))
            .current_dir(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--log-format", "json"])
            .args(["--settings", "settings.json", "--certificates", "temporary", "--cluster", "none"])
            .args(args)
            .envs(envs.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, events) = channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if send.send(event).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { process, events, health: String::new(), folder };
        let serving = server.event("serving");
        serving["health_address"].as_str().unwrap().clone_into(&mut server.health);
        server
    }

    /// Waits for a line of the log.
    fn event(&self, message: &str) -> Value {
        loop {
            let event = self.events.recv_timeout(Duration::from_mins(1)).unwrap_or_else(|_| panic!("no {message:?}"));
            if event["message"] == message {
                return event;
            }
        }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.health).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn signal(&self, signal: &str) {
        let killed = Command::new("kill").args(["-s", signal, &self.process.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn it_serves_reloads_and_drains() {
    let mut server = Server::start(&["--drain-delay", "300ms", "--ca-file", "ca.crt"], &[]);
    assert_eq!(server.get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(server.get("/readyz").0, 200);
    assert!(
        fs::read_to_string(server.folder.path().join("ca.crt")).unwrap().starts_with("-----BEGIN CERTIFICATE-----")
    );

    let settings = server.folder.path().join("settings.json");
    fs::write(&settings, r#"{"sidecarSets": {}}"#).unwrap();
    let event = server.event("settings not loaded, the ones before stay in use");
    assert!(server.get("/metrics").1.contains("pillion_settings_current 0\n"));
    assert_eq!(event["level"], "ERROR");
    assert!(event["error"].as_str().unwrap().contains("sidecarSets"), "{event}");
    assert_eq!(server.get("/readyz").0, 200, "the old ones are in use");
    fs::write(&settings, "sidecarSets: []\n").unwrap();
    server.event("settings loaded");
    let metrics = server.get("/metrics").1;
    assert!(metrics.contains(r#"pillion_settings_reloads_total{result="rejected"} 1"#));
    assert!(metrics.contains("pillion_settings_current 1\n"), "{metrics}");
    // Alerts and dashboards ask for metrics that are listed.
    assert_eq!(Catalogue::of_text(&metrics).surprises(&Catalogue::listed("server")), [""; 0]);

    server.signal("TERM");
    server.event("draining");
    assert_eq!(server.get("/readyz").0, 503);
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

/// The process that compiles it has the same limits as the server, or the server would compile it again.
#[test]
fn the_module_is_compiled_once() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().to_str().unwrap();
    let server = Server::start(&["--evaluation-memory", "32Mi"], &[("XDG_CACHE_HOME", folder)]);
    let by_version = fs::read_dir(cache.path().join("wasmtime/modules")).unwrap().next().unwrap().unwrap();
    let files = fs::read_dir(by_version.path()).unwrap().map(|file| file.unwrap().path());
    assert_eq!(files.filter(|file| file.extension().is_none()).count(), 1);
    drop(server);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start(&[], &[("PILLION_DRAIN_DELAY", "10m")]);
    server.signal("INT");
    server.event("draining");
    // A signal that follows at once counts as the same one, so it takes some.
    while server.process.try_wait().unwrap().is_none() {
        server.signal("TERM");
        thread::sleep(Duration::from_millis(50));
    }
    server.event("a second signal: stopped at once");
    assert_eq!(server.process.wait().unwrap().code(), Some(1));
}

/// `timeout` signals the process, and then its group.
#[test]
fn an_echo_of_the_signal_is_no_second_one() {
    let mut server = Server::start(&[], &[("PILLION_DRAIN_DELAY", "1s")]);
    server.signal("TERM");
    server.signal("TERM");
    server.event("draining");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

/// The command line overrides the environment, which overrides the file.
#[test]
fn options_come_from_three_places() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("serve.yaml");
    let run = |content: &str, env: Option<&str>, args: &[&str]| {
        fs::write(&config, content).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pillion"));
        command.current_dir(root()).args(["serve", "--check", "--config", config.to_str().unwrap()]).args(args);
        command.env_remove("PILLION_SETTINGS");
        if let Some(settings) = env {
            command.env("PILLION_SETTINGS", settings);
        }
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (valid, invalid) = ("test_data/settings-log-agent.json", "test_data/settings-invalid.json");
    let file = format!("settings: {valid}\ncertificates: temporary\n");
    let said = |name: &str| (0, format!("{name}: valid\n"));
    assert_eq!(run(&file, None, &[]), said(valid));
    assert_eq!(run(&file, Some(invalid), &[]).0, 1, "the environment wins over the file");
    assert_eq!(run(&file, Some(invalid), &["--settings", valid]), said(valid));
    assert_eq!(run("", Some(valid), &["--certificates", "temporary"]), said(valid));
}

#[rstest]
#[case::no_settings("certificates: temporary", "no settings: give a file with --settings")]
#[case::an_unknown_key("setting: x", "unknown field `setting`")]
#[case::another_type("cores: many", "cores")]
#[case::no_size("maxBody: 3MB", "must be a number of bytes")]
#[case::nothing_at_all("settings: none.json\ncertificates: temporary\ncores: 0", "--cores: must be at least 1")]
#[case::a_missing_file("settings: none.json\ncertificates: temporary", "none.json: No such file")]
#[case::files_without_a_key(
    "settings: x\ncertificates: files\ntlsCertFile: x",
    "--tls-key-file: needed with --certificates files"
)]
#[case::a_file_for_nothing(
    "settings: x\ncertificates: temporary\ntlsCertFile: x",
    "--tls-cert-file: not used with --certificates temporary"
)]
#[case::self_signed_without_a_cluster("settings: x\ncluster: none", "keeps its certificate in the cluster")]
#[case::a_name_that_is_none(
    "settings: x\ntlsName: [a_b]",
    "--tls-name: \"a_b\" is neither a DNS name nor an IP address"
)]
#[case::a_service_that_is_none("settings: x\nserviceName: A_B", "is not a DNS label")]
fn options_that_cannot_be_are_refused(#[case] config: &str, #[case] message: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("serve.yaml"), config).unwrap();
    let run = pillion(folder.path(), &["serve", "--config", "serve.yaml"], "");
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains(message), "{}", run.err);
}

/// The server accepts the command line from the Deployment of `pillion manifest`, and the Pod's grace period is long
/// enough to finish pending work.
#[rstest]
#[case("self-signed")]
#[case("cert-manager")]
#[case("files")]
fn the_rendered_deployment_can_start_it(#[case] certificates: &str) {
    let settings = "examples/identity-isolate/settings.yaml";
    let run = pillion(
        root(),
        &["manifest", "standalone", "--settings", settings, "--certificates", certificates, "-o", "json"],
        "",
    );
    assert_eq!(run.code, 0, "{}", run.err);
    let list = run.json();
    let items = list["items"].as_array().unwrap();
    let pod = &items.iter().find(|object| object["kind"] == "Deployment").unwrap()["spec"]["template"]["spec"];
    let args = pod["containers"][0]["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().into());
    let line: Vec<std::ffi::OsString> = std::iter::once("pillion".into()).chain(args).collect();
    pillion::args::Cli::read(&line).unwrap_or_else(|error| panic!("{error}"));
    assert!(pod["terminationGracePeriodSeconds"].as_u64().is_some_and(|seconds| seconds >= 35), "{pod}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let settings = root().join("test_data/settings-log-agent.json");
    let args = ["serve", "--certificates", "temporary", "--cluster", "none", "--listen", &address, "--settings"];
    let run = pillion(root(), &[args.as_slice(), &[settings.to_str().unwrap()]].concat(), "");
    assert_eq!(run.code, 2);
    assert!(run.err.contains(&format!("--listen {address}: Address already in use")), "{}", run.err);
}
