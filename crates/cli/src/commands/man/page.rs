//! A man page for a command.

use std::io;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// A page of section 1.
#[derive(Debug)]
pub struct Page {
    /// The file's name, as in `pillion-explain.1`.
    pub file: String,
    /// The page in roff, as `man -l` reads it.
    pub text: Vec<u8>,
}

/// Returns the pages of a command and of its subcommands.
///
/// # Errors
/// Writing to memory does not fail.
pub fn all(command: clap::Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut names = Vec::new();
    collect(&command, &mut names);
    let mut pages = Vec::new();
    render(&command, &names, &mut pages)?;
    Ok(pages)
}

fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn collect(command: &clap::Command, names: &mut Vec<String>) {
    names.push(name(command).to_owned());
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, names);
    }
}

fn render(command: &clap::Command, names: &[String], pages: &mut Vec<Page>) -> io::Result<()> {
    let source = format!("pillion {}", command.get_version().unwrap_or_default());
    let man = Man::new(command.clone()).source(source).manual("Pillion");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let mut roff = Roff::new();
    sections(&after.map(ToString::to_string).unwrap_or_default(), &mut roff);
    let others: Vec<String> =
        names.iter().filter(|other| *other != name(command)).map(|other| format!("{other}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(others.join(", "))]);
    roff.to_writer(&mut text)?;
    pages.push(Page { file: man.get_filename(), text });
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        render(below, names, pages)?;
    }
    Ok(())
}

/// Converts the help text after the options: a line that ends in a colon becomes a heading, indented lines stay
/// verbatim.
fn sections(help: &str, roff: &mut Roff) {
    let mut is_verbatim = false;
    for line in help.lines() {
        if line.starts_with(' ') != is_verbatim {
            is_verbatim = !is_verbatim;
            roff.control(if is_verbatim { "nf" } else { "fi" }, []);
        }
        match line.strip_suffix(':') {
            Some(heading) if !is_verbatim && !heading.is_empty() => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
            }
            _ if line.is_empty() => {
                roff.control("PP", []);
            }
            _ => {
                roff.text([roman(line)]);
            }
        }
    }
    if is_verbatim {
        roff.control("fi", []);
    }
}
