//! The quick starts and guides: `tools/run-page` runs their blocks, and their commands name values that exist.

use std::fs;
use std::process::{Command, Output};

use pillion_admission::settings::Settings;
use rstest::rstest;
use serde_json::{Map, Value};

use crate::support::files::{objects, text};
use pillion_samples::repository::{self, root};

/// Returns the block with these lines, in a language, behind a comment.
fn block(comment: &str, language: &str, lines: &str) -> String {
    let comment = if comment.is_empty() { String::new() } else { format!("<!-- run: {comment} -->\n") };
    format!("{comment}```{language}\n{lines}\n```\n\n")
}

/// Runs a page with these options.
fn run(page: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.md");
    fs::write(&file, page).unwrap();
    let runner = root().join("tools/run-page");
    Command::new(runner).arg("page.md").args(options).current_dir(folder.path()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn blocks_run_in_order_and_in_one_folder() {
    let page = block("", "sh", "echo first > file")
        + "Text, `code`.\n\n"
        + &block("", "yaml", "not: run")
        + &block("", "sh", "cat file\ncat <<'EOF'\n[a] *b? \\c $d\nEOF")
        + &block("output", "text", "fi…t\n[a] *b? \\c $d");
    let output = run(&page, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).ends_with("== page.md: 2 blocks ran, 0 were skipped\n"), "{}", stdout(&output));
}

#[test]
fn the_first_failure_ends_the_run() {
    let page =
        block("", "sh", "true") + &block("", "sh", "echo before\nfalse\necho after") + &block("", "sh", "touch x");
    let output = run(&page, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "run-page: page.md:5: this block failed with exit code 1\n");
    let shown = stdout(&output);
    assert!(shown.contains("== page.md:5\necho before\nfalse\necho after\n   | before\n"), "{shown}");
    assert!(!shown.contains("touch x") && !shown.contains("| after"), "{shown}");
}

/// A pipe does not hide the failure of a command.
#[rstest]
#[case::a_pipe("false | cat", 1)]
#[case::a_variable("echo \"$unset\"", 1)]
#[case::a_failure_that_is_handled("false || true", 0)]
fn failures_are_seen(#[case] lines: &str, #[case] code: i32) {
    assert_eq!(run(&block("", "sh", lines), &[]).status.code(), Some(code));
}

#[rstest]
#[case::missing("echo a", "b", "b")]
#[case::another_order("echo b; echo a", "a\nb", "b")]
#[case::more_on_the_line("echo a b", "a", "a")]
#[case::once("echo a", "a\na", "a")]
fn output_that_a_page_shows_must_be_there(#[case] lines: &str, #[case] shown: &str, #[case] missing: &str) {
    let output = run(&(block("", "sh", lines) + &block("output", "text", shown)), &[]);
    assert_eq!(output.status.code(), Some(1));
    let wanted = format!("run-page: page.md:1: the page shows a line that the output does not have there: {missing}\n");
    assert_eq!(stderr(&output), wanted);
}

#[test]
fn a_block_that_should_fail_must_fail_with_its_message() {
    let refusal = block("fails", "sh", "echo refused >&2; exit 3") + &block("output", "text", "refused");
    let output = run(&refusal, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(&block("fails", "sh", "true"), &[]);
    assert_eq!(stderr(&output), "run-page: page.md:2: the page says that this block fails, but it succeeded\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_block_is_skipped_if_it_needs_something_that_is_not_there() {
    let page = block("needs=kubelet,network", "sh", "false") + &block("needs=kind", "sh", "echo ran");
    for absent in ["kubelet", "network"] {
        let output = run(&page, &["--without", absent]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(&format!("== page.md:2 skipped: it needs {absent}\n")), "{}", stdout(&output));
        assert!(stdout(&output).contains("   | ran\n"), "{}", stdout(&output));
    }
    assert_eq!(run(&page, &["--without", "kind"]).status.code(), Some(1));
}

#[test]
fn texts_are_replaced_and_a_text_that_no_block_has_is_a_mistake() {
    let page = block("", "sh", "echo oci://registry.example.com/chart --wait");
    let output = run(&page, &["--replace", "oci://registry.example.com/chart", "charts/a --set b={c}"]);
    assert!(stdout(&output).contains("   | charts/a --set b={c} --wait\n"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(0));
    let output = run(&page, &["--replace", "--wait", "a && echo b"]);
    assert!(stdout(&output).contains("   | oci://registry.example.com/chart a\n   | b\n"), "{}", stdout(&output));
    let output = run(&page, &["--replace", "gone", "x"]);
    assert_eq!(stderr(&output), "run-page: no block has the text of --replace: gone\n");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn parts_of_a_page_run_alone() {
    let part = |number: u8| format!("## {number}. Part\n\n") + &block("", "sh", &format!("# Part\necho {number}"));
    let page = part(1) + &part(2) + &part(3);
    let ran = |options: &[&str]| {
        let output = run(&page, options);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let shown = stdout(&output);
        ["1", "2", "3"].into_iter().filter(|number| shown.contains(&format!("   | {number}\n"))).collect::<String>()
    };
    assert_eq!(ran(&["--until", "2. Part"]), "1");
    assert_eq!(ran(&["--from", "2. Part"]), "23");
    assert_eq!(ran(&["--from", "2. Part", "--until", "3. Part"]), "2");
    for (heading, says) in [("4. Part", "has no heading with the text 4. Part"), ("Part", "has more than one heading")]
    {
        let output = run(&page, &["--from", heading]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

#[rstest]
#[case::no_block("Text.\n", "there is no block in the language sh")]
#[case::an_unknown_word(&block("need=kind", "sh", "true"), "unknown word need=kind")]
#[case::output_of_nothing(&block("output", "text", "a"), "there is no block before this output")]
#[case::a_comment_without_a_block("<!-- run: fails -->\nText.\n", "a block must follow the comment at once")]
#[case::needs_of_another_language(&block("needs=kind", "yaml", "a: b"), "the comment needs a block in the language sh")]
#[case::a_block_without_end("```sh\ntrue\n", "the last block does not end")]
fn mistakes_in_a_page_exit_with_2(#[case] page: &str, #[case] says: &str) {
    let output = run(page, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("run-page: page.md:") && stderr(&output).contains(says), "{}", stderr(&output));
}

/// The words that a page may use behind `needs=`: what the workflow and the test on the cluster know. Pages that run here
/// say `cluster` where they need one.
const NEEDS: [&str; 14] = [
    "kind",
    "k3d",
    "kubelet",
    "network",
    "cluster",
    "helm",
    "manifests",
    "kustomize",
    "kubewarden",
    "kubewarden-chart",
    "registry",
    "cert-manager",
    "argocd",
    "flux",
];

/// These pages do not need a cluster for all of their blocks. The other blocks run here, with this build's `pillion`.
#[rstest]
#[case("try", 6)]
#[case("guides/own-identity", 7)]
#[case("guides/refused", 2)]
#[case("guides/opt-out", 3)]
#[case("guides/overrides", 4)]
fn a_guide_shows_what_the_command_line_says(#[case] name: &str, #[case] blocks: usize) {
    let program = assert_cmd::cargo::cargo_bin!("pillion");
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = Command::new(root().join("tools/run-page"))
        .args([&format!("docs/{name}.md"), "--without", "cluster", "--without", "network"])
        .env("PATH", path.unwrap())
        .current_dir(root())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains(&format!(": {blocks} blocks ran, ")), "{}", stdout(&output));
}

/// The pages with commands that a reader follows. A test on the cluster runs what ships by them.
const FOLLOWED: [&str; 15] = [
    "README.md",
    "docs/quickstart.md",
    "docs/quickstart-standalone.md",
    "docs/try.md",
    "docs/from-source.md",
    "docs/deploying.md",
    "docs/rollouts.md",
    "docs/guides/ci.md",
    "docs/guides/cloud-identities.md",
    "docs/guides/opt-out.md",
    "docs/guides/overrides.md",
    "docs/guides/own-identity.md",
    "docs/guides/refused.md",
    "docs/guides/roll-out.md",
    "docs/guides/uninstall.md",
];

/// A block in the language `sh` runs on the cluster, unless the comment before it names what a test cluster lacks. In a
/// block in the language `console`, `pillion` runs in the tests of the documents; other commands need a reason.
#[test]
fn commands_that_do_not_run_say_why() {
    let mut silent = Vec::new();
    for page in FOLLOWED {
        let text = text(page);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate().filter(|(_, line)| **line == "```console") {
            let block = lines[number + 1..].iter().take_while(|line| **line != "```");
            let runs = |line: &&str| line.trim_start_matches("$ ").starts_with("pillion ");
            let says_why = number > 0 && lines[number - 1].starts_with("<!-- not run: ");
            if !says_why && !block.clone().all(runs) {
                silent.push(format!("{page}:{}: {line}", number + 1));
            }
        }
    }
    assert_eq!(silent, [""; 0]);
}

#[test]
fn a_test_on_the_cluster_follows_each_page() {
    let journeys = repository::files(&root().join("crates/testenv/tests/cluster/pages"), "rs");
    let journeys: String = journeys.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let lonely: Vec<_> = FOLLOWED.iter().filter(|page| !journeys.contains(&format!("\"{page}\""))).collect();
    assert_eq!(lonely, [&""; 0]);
}

#[rstest]
fn the_pages_can_be_run(
    #[values(
        "quickstart",
        "quickstart-standalone",
        "from-source",
        "try",
        "guides/own-identity",
        "guides/refused",
        "guides/opt-out",
        "guides/overrides",
        "guides/roll-out",
        "guides/ci",
        "guides/cloud-identities",
        "deploying",
        "rollouts",
        "guides/uninstall"
    )]
    name: &str,
) {
    let page = format!("docs/{name}.md");
    let listed =
        Command::new(root().join("tools/run-page")).args([&page, "--list"]).current_dir(root()).output().unwrap();
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let listed = stdout(&listed);
    let heads = listed.lines().filter(|line| !line.starts_with(' '));
    let needs = heads.filter_map(|line| line.split_once(" needs ")).flat_map(|(_, needs)| needs.split(' '));
    let unknown: Vec<_> = needs.filter(|need| !NEEDS.contains(need)).collect();
    assert_eq!(unknown, [""; 0]);
    // Waiting without a limit would hang the runner, and sleeping is a guess.
    for line in listed.lines().filter(|line| line.contains("wait ") || line.contains("rollout status")) {
        let is_limited = line.contains("--timeout") || line.ends_with('\\') || line.contains("--wait 5m");
        assert!(is_limited, "{page}: no --timeout: {line}");
    }
    assert!(!listed.contains("sleep"), "{page}: wait for a condition instead of sleeping");
}

/// Returns the commands of the `sh` blocks of a text, each on one line.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let blocks = joined.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    blocks.flat_map(str::lines).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the keys and values of `--set` in a command.
fn assignments(command: &str) -> Vec<(&str, &str)> {
    let arguments = command.split(" --set ").skip(1);
    arguments
        .map(|rest| {
            let argument = rest.split(if rest.starts_with('\'') { '\'' } else { ' ' }).find(|part| !part.is_empty());
            argument.and_then(|argument| argument.split_once('=')).expect("--set KEY=VALUE")
        })
        .collect()
}

/// Checks that a dotted key exists in the values of the chart, or is a setting of the policy.
fn assert_is_value(values: &Value, key: &str, value: &str) {
    if let Some(setting) = key.strip_prefix("settings.") {
        let parsed = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        let settings =
            setting.rsplit('.').fold(parsed, |inner, part| Value::Object(Map::from_iter([(part.into(), inner)])));
        if let Err(error) = Settings::decode(settings) {
            panic!("--set {key}={value}: {error:?}");
        }
        return;
    }
    let pointer = format!("/{}", key.replace('.', "/"));
    assert!(values.pointer(&pointer).is_some(), "charts/pillion/values.yaml has no {key}");
}

#[test]
fn values_that_a_document_sets_exist_in_the_chart() {
    let [values] = <[Value; 1]>::try_from(objects("values.yaml", &text("charts/pillion/values.yaml"))).unwrap();
    let mut documents = repository::files(&root().join("docs"), "md");
    documents.extend(["README.md", "charts/pillion/README.md"].map(|document| root().join(document)));
    let mut seen = 0;
    for document in documents {
        for command in commands(&fs::read_to_string(&document).unwrap()) {
            if command.starts_with("helm ") && command.contains("/charts/pillion") {
                for (key, value) in assignments(&command) {
                    seen += 1;
                    assert_is_value(&values, key, value);
                }
            }
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[rstest]
#[case::a_value("kubewarden.gone", "true", "charts/pillion/values.yaml has no kubewarden.gone")]
#[case::a_setting("settings.featureGates.Gone", "true", "Gone")]
fn a_value_that_is_not_there_is_found(#[case] key: &str, #[case] value: &str, #[case] says: &str) {
    let values = serde_json::json!({"kubewarden": {"enabled": false}, "settings": {}});
    assert_is_value(&values, "kubewarden.enabled", "true");
    let error = std::panic::catch_unwind(|| assert_is_value(&values, key, value)).unwrap_err();
    let message = error.downcast_ref::<String>().unwrap();
    assert!(message.contains(says), "{message}");
}

/// The quick starts install what the release publishes.
#[rstest]
fn the_quick_starts_install_the_released_chart(#[values("quickstart", "quickstart-standalone")] name: &str) {
    let commands = commands(&text(&format!("docs/{name}.md")));
    let installs: Vec<_> = commands.iter().filter(|command| command.starts_with("helm install pillion ")).collect();
    assert_eq!(installs.len(), 1, "{commands:?}");
    let start =
        "helm install pillion oci://ghcr.io/pillion/charts/pillion --namespace pillion-system --create-namespace ";
    assert!(installs[0].starts_with(start), "{}", installs[0]);
}

/// From a clone, the commands of a quick start install Pillion, with the chart of the clone and further values.
#[rstest]
#[case("quickstart", "\n## 4. ", "Quick start with Kubewarden\n", "quickstart.md#4-")]
#[case("quickstart-standalone", "\n## 3. ", "Quick start without Kubewarden\n", "quickstart-standalone.md#3-")]
fn a_clone_is_installed_as_a_release_is(
    #[case] name: &str,
    #[case] next: &str,
    #[case] heading: &str,
    #[case] goes_on: &str,
) {
    let page = text(&format!("docs/{name}.md"));
    let from_source = text("docs/from-source.md");
    let section = from_source.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    assert!(section.contains(&format!("]({goes_on}")), "the section does not say where to go on");
    let done = commands(section);
    let (installs, _) = page.split_once(next).unwrap();
    let wanted: Vec<_> = commands(installs).into_iter().filter(|command| !command.starts_with("k3d ")).collect();
    assert!(wanted.len() > 2, "{wanted:?}");
    for command in wanted {
        let command = command.replace("oci://ghcr.io/pillion/charts/pillion", "./charts/pillion");
        let has = |other: &String| {
            let words: Vec<_> = other.split(' ').collect();
            command.split(' ').all(|word| words.contains(&word))
        };
        assert!(done.iter().any(has), "docs/from-source.md, {}: {command}", heading.trim());
    }
}

/// The chart of the clone uses the image that the page builds.
#[test]
fn the_image_of_a_clone_has_the_tag_of_its_chart() {
    let page = text("docs/from-source.md");
    let wanted = concat!("v", env!("CARGO_PKG_VERSION"));
    let tags = page.split("ghcr.io/pillion/pillion:").skip(1);
    let tags: Vec<_> = tags.map(|rest| rest.split([' ', '\n', '`']).next().unwrap()).collect();
    assert!(tags.len() > 4 && tags.iter().all(|tag| *tag == wanted), "{tags:?}");
}
