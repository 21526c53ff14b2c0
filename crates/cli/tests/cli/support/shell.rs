//! The commands in the shell blocks of Markdown.

/// Returns the commands in the `sh` and `console` blocks of a text, each as its words. In a block with prompts, other
/// lines are output.
pub fn commands(markdown: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let block: Vec<&str> =
            lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).map(str::trim_start).collect();
        if ["sh", "console"].contains(&language) {
            commands.extend(script(&block).iter().flat_map(|line| simple(line)));
        }
    }
    commands
}

/// Returns the lines of a script with commands, continued lines joined, without comments and here-documents.
fn script(block: &[&str]) -> Vec<String> {
    let has_prompts = block.iter().any(|line| line.starts_with("$ "));
    let mut script = Vec::new();
    let mut lines = block.iter();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ");
        if line.is_empty() || line.starts_with('#') || has_prompts && command.is_none() {
            continue;
        }
        let mut whole = command.unwrap_or(line).to_owned();
        while let Some(start) = whole.strip_suffix('\\') {
            whole = start.to_owned() + lines.next().unwrap_or(&"");
        }
        if let Some((_, rest)) = whole.split_once("<<") {
            let end: String =
                rest.chars().filter(|one| *one != '\'' && *one != '-').take_while(char::is_ascii_uppercase).collect();
            lines.by_ref().take_while(|line| **line != end).for_each(drop);
        }
        script.push(whole);
    }
    script
}

/// Splits a line into its commands: at pipes and lists, in groups and substitutions. Quotes and redirections go.
fn simple(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars().peekable();
    while let Some(one) = characters.next() {
        if let Some(open) = quote {
            if one == open {
                quote = None;
            } else {
                word.get_or_insert_default().push(one);
            }
            continue;
        }
        let begins = one == '$' && characters.peek() == Some(&'(');
        match one {
            '\'' | '"' => {
                quote = Some(one);
                word.get_or_insert_default();
            }
            '#' if word.is_none() => break,
            ' ' => commands.last_mut().unwrap().extend(word.take()),
            '|' | '&' | ';' | ')' | '(' => {
                commands.last_mut().unwrap().extend(word.take());
                commands.push(Vec::new());
            }
            // The assignment before it is a command of its own; the parenthesis is next.
            '$' if begins => {}
            _ => word.get_or_insert_default().push(one),
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands.into_iter().map(call).filter(|words| !words.is_empty()).collect()
}

/// Returns the words that a command is called with: no assignments before it, no redirections, no braces.
fn call(words: Vec<String>) -> Vec<String> {
    let is_assignment = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_'))
    };
    let mut called = Vec::new();
    let mut words = words.into_iter().skip_while(|word| is_assignment(word) || word == "{");
    while let Some(word) = words.next() {
        match word.trim_start_matches(|one: char| one.is_ascii_digit()).strip_prefix(['<', '>']) {
            Some(file) if file.trim_start_matches(['<', '>']).is_empty() => drop(words.next()),
            Some(_) => {}
            None if word == "}" => {}
            None => called.push(word),
        }
    }
    called
}
