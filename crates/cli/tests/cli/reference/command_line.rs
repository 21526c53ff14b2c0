//! `docs/reference/command-line.md`, from the parser of the command line.

use clap::Arg;

use super::page::{Page, block, code};

#[test]
fn the_page_of_the_command_line_is_what_the_parser_says() {
    let mut root = pillion::args::command(None);
    root.build();
    let mut page = Page::new(
        "command-line.md",
        "Command line",
        "`pillion`, or `kubectl pillion` if it is installed as a plugin of kubectl. `pillion … --help` shows the same \
         in a terminal, and `pillion man --out-dir DIR` writes it as manual pages. Every example below is run in a test, \
         in the root of the repository.",
    );
    command(&mut page, &root);
    page.is_written();
}

/// Adds a command, then its subcommands.
fn command(page: &mut Page, command: &clap::Command) {
    let path = command.get_bin_name().unwrap_or(command.get_name());
    let depth = path.split(' ').count().min(3) + 1;
    page.add(format!("{} {path}", "#".repeat(depth)));
    let about = command.get_long_about().or(command.get_about()).unwrap().to_string();
    page.add(paragraphs(&about));
    let usage = command.clone().render_usage().to_string();
    page.add(block("text", usage.trim_start_matches("Usage:").trim()));
    let subcommands = || command.get_subcommands().filter(|command| command.get_name() != "help");
    let rows: Vec<_> = subcommands()
        .map(|below| {
            let path = below.get_bin_name().unwrap();
            let link = format!("[{}](#{})", code(below.get_name()), path.replace(' ', "-"));
            vec![link, below.get_about().unwrap().to_string()]
        })
        .collect();
    page.table(&["command", "does"], &rows);
    // Every command has the options for help, and the global ones are those of the first.
    let is_common = |argument: &Arg| ["help", "version"].contains(&argument.get_id().as_str());
    let is_first = command.get_bin_name().is_some_and(|path| !path.contains(' '));
    let rows: Vec<_> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !is_common(argument))
        .filter(|argument| is_first || !argument.is_global_set())
        .map(|argument| vec![spelling(argument), meaning(argument)])
        .collect();
    page.table(&["argument", "means"], &rows);
    if let Some(help) = command.get_after_help() {
        further(page, &help.to_string());
    }
    for below in subcommands() {
        self::command(page, below);
    }
}

/// Returns a text of several paragraphs. Markdown joins lines, as the text means it.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(str::trim).collect::<Vec<_>>().join("\n\n")
}

/// Returns how an argument is written: `-o`, `--output FORMAT`.
fn spelling(argument: &Arg) -> String {
    let names: Vec<String> = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let is_many = argument.get_num_args().is_some_and(|number| number.max_values() > 1);
    let takes_value = argument.get_action().takes_values();
    let value = match (takes_value, is_many) {
        (false, _) => String::new(),
        (true, false) => format!(" {}", names.join(" ")),
        (true, true) => format!(" {}...", names.join(" ")),
    };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let longs = argument.get_long().into_iter().chain(argument.get_visible_aliases().unwrap_or_default());
    let mut options: Vec<String> = short.into_iter().chain(longs.map(|long| format!("--{long}"))).collect();
    match options.last_mut() {
        Some(last) => {
            last.push_str(&value);
            options.iter().map(|option| code(option)).collect::<Vec<_>>().join(", ")
        }
        None => code(value.trim()),
    }
}

/// Returns what an argument means: its help, its values, its default and its variable.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
    let mut parts = vec![sentence(&help.split_whitespace().collect::<Vec<_>>().join(" "))];
    let values = argument.get_possible_values();
    let takes_value = argument.get_action().takes_values();
    let values: Vec<String> = values
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("{} ({})", code(value.get_name()), help.to_string().trim_end_matches('.')),
            None => code(value.get_name()),
        })
        .collect();
    if !values.is_empty() && !argument.is_hide_possible_values_set() {
        parts.push(format!("Values: {}.", values.join(", ")));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| code(&value.to_string_lossy())).collect();
    if takes_value && !defaults.is_empty() {
        parts.push(format!("Default: {}.", defaults.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        parts.push(format!("Variable: {}.", code(&variable.to_string_lossy())));
    }
    parts.join(" ")
}

/// Returns a text with a full stop at its end.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', ':', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Adds the parts after the options: a line with a title, then indented lines.
fn further(page: &mut Page, help: &str) {
    for part in help.trim().split("\n\n") {
        let (title, lines) = part.split_once(":\n").unwrap_or(("", part));
        let lines: Vec<&str> = lines.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        if title.is_empty() {
            page.add(lines.join("\n"));
            continue;
        }
        page.add(format!("{title}:"));
        page.add(block(if title == "Examples" { "sh" } else { "text" }, &lines.join("\n")));
    }
}
