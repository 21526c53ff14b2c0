//! What shells complete: commands, options, and names that the cluster and the kubeconfig have.
//!
//! The scripts of `pillion completions` call the program with the variable [`VARIABLE`] and the words of the command
//! line. `kubectl` calls an executable `kubectl_complete-pillion` with the words behind `kubectl pillion`. Both get the
//! same candidates. Nothing is ever printed to `stderr`, and a cluster that does not answer soon has no names.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use clap_complete::ArgValueCompleter;
use clap_complete::engine::{CompletionCandidate, complete};
use clap_complete::env::Shells;
use pillion_cluster::rollouts::inventory;
use pillion_cluster::rollouts::sets;
use pillion_cluster::{Kind, Kubeconfig, Reader};
use pillion_install::installation;
use pillion_kubernetes::json;

/// The environment variable that says which shell asks.
pub const VARIABLE: &str = "PILLION_COMPLETE";
/// The executable that `kubectl` calls to complete the arguments of `kubectl pillion`.
const FOR_KUBECTL: &str = "kubectl_complete-pillion";
/// The end of an answer to `kubectl`: the shell must not complete files. kubectl takes the number as cobra does.
const NO_FILES: &str = ":4";
/// How long the cluster may take.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The commands that look at a cluster, all of whose names are completed.
const OF_CLUSTER: [&str; 3] = ["status", "rollout", "set"];

/// Answers a shell that completes a command line. Returns whether a shell has asked. `command` is the whole command line
/// of this program.
pub fn answer(args: &[OsString], command: impl FnOnce() -> Command, out: &mut dyn Write) -> bool {
    let program = args.first().and_then(|program| Path::new(program).file_stem());
    if program == Some(OsStr::new(FOR_KUBECTL)) {
        let words: Vec<OsString> = args.to_vec();
        // A shell can do nothing about a failure.
        let _ = for_kubectl(&mut completed(command(), &words), words, out);
        return true;
    }
    let Some(shell) = std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty()) else { return false };
    let words: Vec<OsString> = args.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let builtins = Shells::builtins();
    if let Some(shell) = shell.to_str().and_then(|shell| builtins.completer(shell)) {
        let folder = std::env::current_dir().ok();
        let mut command = completed(command(), &words);
        let _ = shell.write_complete(&mut command, words, folder.as_deref(), out);
    }
    true
}

/// Writes the script that makes a shell complete the arguments of a program.
///
/// # Errors
/// If the shell is not known, or `out` takes no more.
pub fn script(shell: &str, program: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let builtins = Shells::builtins();
    let completer = builtins.completer(shell).ok_or(std::io::ErrorKind::Unsupported)?;
    completer.write_registration(VARIABLE, program, program, program, out)?;
    if shell == "zsh" {
        // The first completion runs the file as a function, which must complete then.
        let function = format!("_clap_dynamic_completer_{}", program.replace('-', "_"));
        writeln!(out, "if [ \"$funcstack[1]\" = \"_{program}\" ]; then {function} \"$@\"; fi")?;
    }
    Ok(())
}

/// Writes candidates as `kubectl` reads them: a line for each, with its description behind a tab.
fn for_kubectl(command: &mut Command, words: Vec<OsString>, out: &mut dyn Write) -> std::io::Result<()> {
    let last = words.len().saturating_sub(1);
    let folder = std::env::current_dir().ok();
    for candidate in complete(command, words, last, folder.as_deref())? {
        let value = candidate.get_value().to_string_lossy();
        match candidate.get_help().map(ToString::to_string) {
            Some(help) => writeln!(out, "{value}\t{}", help.lines().next().unwrap_or_default())?,
            None => writeln!(out, "{value}")?,
        }
    }
    writeln!(out, "{NO_FILES}")
}

/// Where names are looked up: what the words so far say.
#[derive(Clone, Debug, Default)]
struct Where {
    kubeconfig: Kubeconfig,
    system_namespace: Option<String>,
    sidecar_set: Option<String>,
}

impl Where {
    /// Reads the words, as far as they make sense.
    fn parse(command: &Command, words: &[OsString]) -> Self {
        let mut found = Self::default();
        let command = command.clone().ignore_errors(true);
        // The last word is being typed.
        let words = words.iter().take(words.len().saturating_sub(1));
        let Ok(matches) = command.try_get_matches_from(words) else { return found };
        let mut level: Option<&ArgMatches> = Some(&matches);
        while let Some(matches) = level {
            found.kubeconfig.context = text(matches, "context").or(found.kubeconfig.context);
            found.kubeconfig.kubeconfig =
                text(matches, "kubeconfig").map(PathBuf::from).or(found.kubeconfig.kubeconfig);
            found.system_namespace = text(matches, "system_namespace").or(found.system_namespace);
            found.sidecar_set = text(matches, "sidecar_set").or(found.sidecar_set);
            level = matches.subcommand().map(|(_, matches)| matches);
        }
        found
    }

    /// Looks at the cluster, but not for long.
    fn look(
        &self,
        names: impl FnOnce(&Self, &Reader) -> Option<Vec<CompletionCandidate>> + Send + 'static,
    ) -> Vec<CompletionCandidate> {
        let place = self.clone();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let reader = place.kubeconfig.reader().ok();
            let found = reader.and_then(|reader| {
                reader.be_quiet();
                names(&place, &reader)
            });
            // Without a receiver, the time is over.
            let _ = sender.send(found);
        });
        receiver.recv_timeout(PATIENCE).ok().flatten().unwrap_or_default()
    }

    fn contexts(&self) -> Vec<CompletionCandidate> {
        let read = match &self.kubeconfig.kubeconfig {
            Some(file) => kube::config::Kubeconfig::read_from(file),
            None => kube::config::Kubeconfig::read(),
        };
        let contexts = read.map(|config| config.contexts).unwrap_or_default();
        contexts.into_iter().map(|context| CompletionCandidate::new(context.name)).collect()
    }

    fn sidecar_sets(&self) -> Vec<CompletionCandidate> {
        self.look(|_, reader| {
            let (objects, _) = sets::all(reader, None).ok()?;
            let name = |object| CompletionCandidate::new(json::text(object, &["metadata", "name"]));
            Some(objects.iter().map(name).collect())
        })
    }

    fn namespaces(&self) -> Vec<CompletionCandidate> {
        self.look(|_, reader| {
            let objects = reader.list(Kind("v1", "Namespace"), None, None).ok()??;
            let name = |object| CompletionCandidate::new(json::text(object, &["metadata", "name"]));
            Some(objects.iter().map(name).collect())
        })
    }

    fn revisions(&self) -> Vec<CompletionCandidate> {
        self.look(|place, reader| {
            let set = place.sidecar_set.as_deref()?;
            let installed = || installation::decoded(reader).ok().flatten().unwrap_or_default().system_namespace;
            let namespace = place.system_namespace.clone().unwrap_or_else(installed);
            let mut found = inventory::revisions(reader, &namespace, Some(set)).ok()?;
            found.sort_by_key(|revision| std::cmp::Reverse(revision.head.revision()));
            let candidate = |(order, revision): (usize, &pillion_rollout::history::Revision)| {
                let number = revision.head.revision().to_string();
                let help = revision.name().to_owned();
                CompletionCandidate::new(number).help(Some(help.into())).display_order(Some(order))
            };
            Some(found.iter().enumerate().map(candidate).collect())
        })
    }
}

/// Returns the value of an argument, if the command has it and it is there. Names of SidecarSets may have the kind before
/// them.
fn text(matches: &ArgMatches, id: &str) -> Option<String> {
    let mut given = matches.try_get_raw(id).ok()??;
    let text = given.next()?.to_str()?;
    Some(text.strip_prefix("sidecarset/").unwrap_or(text).to_owned())
}

/// Returns the command line with completers for names.
fn completed(command: Command, words: &[OsString]) -> Command {
    let place = Where::parse(&command, words);
    with_names(command, &place, false)
}

/// Adds completers to the arguments of a command and those below it. They are found by their ids.
fn with_names(command: Command, place: &Where, is_of_cluster: bool) -> Command {
    let is_of_cluster = is_of_cluster || OF_CLUSTER.contains(&command.get_name());
    let add = |arg: Arg| {
        let find: fn(&Where) -> Vec<CompletionCandidate> = match arg.get_id().as_str() {
            "context" => Where::contexts,
            "sidecar_set" => Where::sidecar_sets,
            "revision" | "to_revision" | "diff" if is_of_cluster => Where::revisions,
            "namespace" if is_of_cluster => Where::namespaces,
            _ => return arg,
        };
        let place = place.clone();
        arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let Some(start) = current.to_str() else { return Vec::new() };
            let found = find(&place).into_iter();
            found.filter(|candidate| candidate.get_value().to_string_lossy().starts_with(start)).collect()
        }))
    };
    command.mut_args(add).mut_subcommands(|below| with_names(below, place, is_of_cluster))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[rstest]
    #[case::nothing("pillion status ", (None, None))]
    #[case::context("pillion status --context there ", (None, Some("there")))]
    #[case::set("pillion rollout history logs --revision ", (Some("logs"), None))]
    #[case::set_with_its_kind("pillion rollout history sidecarset/logs --revision ", (Some("logs"), None))]
    #[case::both("pillion rollout history --context=there logs --diff 1 ", (Some("logs"), Some("there")))]
    #[case::nonsense("pillion rollout history logs --nonsense x ", (Some("logs"), None))]
    fn the_words_say_where_to_look(#[case] line: &str, #[case] (set, context): (Option<&str>, Option<&str>)) {
        let found = Where::parse(&crate::args::command(None), &words(line));
        assert_eq!((found.sidecar_set.as_deref(), found.kubeconfig.context.as_deref()), (set, context));
    }

    /// Names complete by the identifiers of arguments, so each verb for one SidecarSet must use the same.
    #[rstest]
    #[case("status logs")]
    #[case("rollout status logs")]
    #[case("rollout history logs")]
    #[case("rollout undo logs")]
    #[case("rollout pause logs")]
    #[case("rollout resume logs")]
    #[case("rollout restart logs")]
    #[case("set partition logs 1")]
    #[case("set max-unavailable logs 1")]
    fn each_verb_has_a_name_that_is_completed(#[case] line: &str) {
        // The space behind the name begins the word that is being typed.
        let found = Where::parse(&crate::args::command(None), &words(&format!("pillion {line} ")));
        assert_eq!(found.sidecar_set.as_deref(), Some("logs"));
    }

    #[test]
    fn kubectl_gets_commands_with_descriptions_and_no_files() {
        let mut out = Vec::new();
        let is_asked = answer(&words("kubectl_complete-pillion rollout "), || crate::args::command(None), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(is_asked && text.contains("history\tShow the stored revisions of a SidecarSet"), "{text}");
        assert!(text.ends_with("\n:4\n"), "{text}");
    }

    #[rstest]
    #[case("bash")]
    #[case("zsh")]
    #[case("fish")]
    #[case("powershell")]
    #[case("elvish")]
    fn scripts_call_the_program_with_the_variable(#[case] shell: &str) {
        let mut out = Vec::new();
        script(shell, "kubectl-pillion", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(VARIABLE) && text.contains("kubectl-pillion"), "{text}");
    }
}
