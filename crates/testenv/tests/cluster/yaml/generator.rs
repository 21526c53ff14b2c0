//! Generates texts of YAML: scalars, keys, structures, comments in every place, anchors, aliases, merge keys, tags, block and
//! quoted styles, encodings and line ends. A part of them has a mistake.

use super::pools::{COMMENTS, ESCAPES, KEYS, TAGS, WORDS};

/// Returns the text of a seed.
pub fn document(seed: u64) -> String {
    Generator::document(seed)
}

/// A source of random choices.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap_or_default()
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }
}

struct Generator {
    random: Random,
    anchors: usize,
    out: String,
    wild: bool,
}

impl Generator {
    fn document(seed: u64) -> String {
        let mut random = Random::new(seed);
        for _ in 0..4 {
            random.next();
        }
        let wild = random.one_in(4);
        let mut g = Self { random, anchors: 0, out: String::new(), wild };
        if g.random.one_in(30) {
            g.out.push('\u{feff}');
        }
        if g.random.one_in(12) {
            g.out.push_str("---\n");
        }
        g.comment_lines(0);
        let depth = 1 + g.random.below(4);
        match g.random.below(10) {
            0 => g.list(depth, 0),
            1 => g.flow(depth),
            2 => {
                g.scalar(0, false);
                g.out.push('\n');
            }
            _ => g.map(depth, 0),
        }
        g.comment_lines(0);
        let mut text = std::mem::take(&mut g.out);
        if g.random.one_in(12) {
            text = text.replace('\n', "\r\n");
        }
        if g.random.one_in(60) {
            text = text.replace('\n', "\r");
        }
        if g.random.one_in(6) {
            text.truncate(text.trim_end().len());
        }
        if g.wild {
            for _ in 0..=g.random.below(3) {
                text = g.mutated(text);
            }
        }
        text
    }

    fn mutated(&mut self, text: String) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        if chars.is_empty() {
            return text;
        }
        let at = self.random.below(chars.len());
        match self.random.below(4) {
            0 => {
                chars.remove(at);
            }
            1 => {
                let with = self.random.pick(&[
                    " ", "\n", ":", "-", "?", ",", "[", "]", "{", "}", "#", "&", "*", "!", "|", ">", "'", "\"", "%",
                    "@", "\t", "\r", "a", "1", "  ", "\n\n", ": ", "- ", "\u{85}", "\u{2028}", "\u{0}", "\u{7f}",
                    "\u{feff}", "\u{e000}", "\u{fffe}",
                ]);
                for (i, c) in with.chars().enumerate() {
                    chars.insert(at + i, c);
                }
            }
            2 => {
                let to = self.random.below(chars.len());
                chars.swap(at, to);
            }
            _ => {
                let end = (at + 1 + self.random.below(8)).min(chars.len());
                let part: Vec<char> = chars[at..end].to_vec();
                for (i, c) in part.into_iter().enumerate() {
                    chars.insert(at + i, c);
                }
            }
        }
        chars.into_iter().collect()
    }

    fn indent(&mut self, n: usize) {
        for _ in 0..n {
            self.out.push(' ');
        }
    }

    fn comment_lines(&mut self, indent: usize) {
        while self.random.one_in(8) {
            let n = self.random.below(3) * 2 + if self.random.one_in(2) { indent } else { 0 };
            self.indent(n);
            let c = if self.random.one_in(4) { "" } else { self.random.pick(COMMENTS) };
            self.out.push_str(c);
            self.out.push('\n');
        }
    }

    fn trailing(&mut self) {
        if self.random.one_in(10) {
            self.out.push(' ');
            let c = self.random.pick(COMMENTS);
            self.out.push_str(c);
        } else if self.random.one_in(20) {
            self.out.push_str(" \t");
        }
        self.out.push('\n');
    }

    fn properties(&mut self) {
        if self.random.one_in(12) {
            let t = self.random.pick(TAGS);
            self.out.push_str(t);
            self.out.push(' ');
        }
        if self.random.one_in(8) {
            let n = ["x", "y", "z", "a-b", "ä"][self.random.below(5)];
            self.anchors += 1;
            self.out.push('&');
            self.out.push_str(n);
            self.out.push(' ');
        }
    }

    fn alias(&mut self) -> bool {
        if self.anchors > 0 && self.random.one_in(8) {
            let n = ["x", "y", "z", "a-b"][self.random.below(4)];
            self.out.push('*');
            self.out.push_str(n);
            return true;
        }
        false
    }

    fn key(&mut self) {
        let key = self.random.pick(KEYS);
        if self.random.one_in(8) {
            self.out.push_str(key);
        } else {
            let n = self.random.below(26);
            self.out.push(('a'..='z').nth(n).unwrap_or('a'));
            self.out.push_str(&n.to_string());
        }
    }

    fn map(&mut self, depth: usize, indent: usize) {
        let n = 1 + self.random.below(4);
        for i in 0..n {
            if i > 0 {
                self.indent(indent);
            }
            if self.random.one_in(12) && self.anchors > 0 {
                self.out.push_str("<<: ");
                match self.random.below(4) {
                    0 => self.out.push_str("[*x, *y]"),
                    1 => self.out.push_str("{a: 1, m: 2}"),
                    2 => self.out.push_str("[*x, {a: 3}]"),
                    _ => self.out.push_str("*x"),
                }
                self.trailing();
                continue;
            }
            if self.random.one_in(25) {
                self.out.push_str("? ");
            }
            self.key();
            if self.random.one_in(30) {
                self.out.push(' ');
            }
            self.out.push(':');
            self.value(depth, indent, true);
            self.comment_lines(indent);
        }
    }

    fn value(&mut self, depth: usize, indent: usize, in_map: bool) {
        if depth == 0 || self.random.one_in(2) {
            if self.random.one_in(12) {
                return self.trailing();
            }
            self.out.push(' ');
            if self.random.one_in(30) {
                self.out.push_str("  \t");
            }
            if !self.alias() {
                self.properties();
                self.scalar(indent, false);
            }
            return self.trailing();
        }
        match self.random.below(5) {
            0 => {
                self.out.push(' ');
                self.properties();
                self.flow(depth);
                self.trailing();
            }
            1 | 2 => {
                self.out.push(' ');
                if self.random.one_in(4) {
                    self.properties();
                }
                self.trailing();
                self.comment_lines(indent);
                let n = indent + 1 + self.random.below(3);
                self.indent(n);
                self.map(depth - 1, n);
            }
            _ => {
                self.out.push(' ');
                if self.random.one_in(4) {
                    self.properties();
                }
                self.trailing();
                let n = if in_map { indent + self.random.below(3) } else { indent + 2 };
                self.indent(n);
                self.list(depth - 1, n);
            }
        }
    }

    fn list(&mut self, depth: usize, indent: usize) {
        let n = 1 + self.random.below(4);
        for i in 0..n {
            if i > 0 {
                self.indent(indent);
            }
            self.out.push('-');
            match self.random.below(4) {
                0 if depth > 0 => {
                    self.out.push(' ');
                    self.map(depth - 1, indent + 2);
                }
                1 if depth > 0 => {
                    self.out.push(' ');
                    self.list(depth - 1, indent + 2);
                }
                _ => self.value(depth.saturating_sub(1), indent, false),
            }
            self.comment_lines(indent);
        }
    }

    fn flow(&mut self, depth: usize) {
        let is_map = self.random.one_in(2);
        self.out.push(if is_map { '{' } else { '[' });
        let n = self.random.below(4);
        for i in 0..n {
            if i > 0 {
                self.out.push(',');
                if !self.random.one_in(6) {
                    self.out.push(' ');
                }
            }
            if self.random.one_in(15) {
                self.out.push_str("\n  ");
                if self.random.one_in(3) {
                    self.out.push_str("# c\n  ");
                }
            }
            if is_map || self.random.one_in(12) {
                self.key();
                self.out.push(':');
                if !self.random.one_in(8) {
                    self.out.push(' ');
                }
            }
            if depth > 1 && self.random.one_in(3) {
                self.flow(depth - 1);
            } else if !self.alias() {
                self.properties();
                self.scalar(0, true);
            }
        }
        if self.random.one_in(15) {
            self.out.push(',');
        }
        self.out.push(if is_map { '}' } else { ']' });
    }

    /// Returns an escape; rarely a wrong one.
    fn escape(&mut self) -> &'static str {
        let escapes = if self.random.one_in(12) { ESCAPES } else { ESCAPES.get(..8).unwrap_or_default() };
        self.random.pick(escapes)
    }

    /// Writes a text without quotes; rarely one that needs them.
    fn unquoted(&mut self) {
        let needs_quotes = |word: &str| {
            word.starts_with(|char| "*&!|>%@`?#-:[{,'\"".contains(char))
                || word.contains([':', '#', '\u{85}', '\u{2028}'])
        };
        let mut word = self.random.pick(WORDS);
        while needs_quotes(word) && !self.random.one_in(8) {
            word = self.random.pick(WORDS);
        }
        self.out.push_str(word);
    }

    fn scalar(&mut self, indent: usize, flow: bool) {
        match self.random.below(if flow { 7 } else { 9 }) {
            0..=3 => {
                self.unquoted();
                if self.random.one_in(15) {
                    self.out.push('\n');
                    self.indent(indent + 2);
                    self.unquoted();
                }
            }
            4 => {
                let w = self.random.pick(WORDS).replace('\'', "''");
                self.out.push('\'');
                self.out.push_str(&w);
                if self.random.one_in(8) {
                    self.out.push('\n');
                    let n = self.random.below(2) * (indent + 2);
                    self.indent(n);
                    self.out.push_str("more");
                }
                self.out.push('\'');
            }
            5 | 6 => {
                self.out.push('"');
                for _ in 0..self.random.below(4) {
                    if self.random.one_in(2) {
                        let e = self.escape();
                        self.out.push_str(e);
                    } else {
                        let w = self.random.pick(WORDS).replace(['"', '\\'], "");
                        self.out.push_str(&w);
                    }
                    if self.random.one_in(12) {
                        self.out.push_str(" \n");
                        if self.random.one_in(4) {
                            self.out.push('\n');
                        }
                        let n = self.random.below(2) * (indent + 2);
                        self.indent(n);
                    }
                }
                self.out.push('"');
            }
            _ => {
                let style = self.random.pick(&["|", ">", "|-", ">-", "|+", ">+", "|2", ">1", "|2-", ">-2"]);
                self.out.push_str(style);
                if self.random.one_in(10) {
                    self.out.push_str(" # c");
                }
                let n = self.random.below(5);
                for _ in 0..n {
                    self.out.push('\n');
                    if self.random.one_in(5) {
                        continue;
                    }
                    let extra = [0, 0, 0, 1, 2][self.random.below(5)];
                    self.indent(indent + 2 + extra);
                    let w = self.random.pick(WORDS);
                    self.out.push_str(w);
                    if self.random.one_in(8) {
                        self.out.push_str("\t ");
                    }
                }
                while self.random.one_in(4) {
                    self.out.push('\n');
                }
            }
        }
    }
}
