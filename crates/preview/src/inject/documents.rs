//! Documents together with their original text, so that unchanged documents can be printed verbatim.

use std::sync::Arc;

use pillion_documents::manifest::{self, Manifest, Source};
use pillion_yaml::{Part, Tree, is_marker};

use crate::prepared::Parsed;

/// A part of a text: one document with its marker and comments, or text without a document.
#[derive(Debug)]
pub struct Chunk {
    /// The text; ends with a line feed.
    pub text: String,
    /// The first byte of the text in its file.
    start: usize,
    /// The document in the text, if any.
    pub documents: Vec<Document>,
    /// Whether the text is JSON. YAML output cannot include it verbatim: kubectl reads a stream either as YAML or as
    /// JSON.
    pub is_json: bool,
}

/// A document and its objects: the document itself, or the items of a list.
#[derive(Debug)]
pub struct Document {
    /// The document.
    pub whole: Manifest,
    /// Its objects.
    pub objects: Vec<Manifest>,
}

impl Parsed for Chunk {
    fn parse(source: &Arc<Source>) -> Result<Vec<Self>, manifest::Error> {
        let documents = manifest::documents(source)?;
        let mut chunks: Vec<Self> =
            pillion_yaml::parts(&source.text).iter().map(|part| Self::new(&source.text, part)).collect();
        for document in documents {
            let start = document.value_at("").map_or(0, |range| range.start);
            let before = chunks.partition_point(|chunk| chunk.start <= start);
            if let Some(chunk) = before.checked_sub(1).and_then(|last| chunks.get_mut(last)) {
                let document = document.requested();
                // Of a request, print only the object.
                if !document.pointer().is_empty() {
                    chunk.text = format!("{:#}\n", document.value);
                    chunk.is_json = true;
                }
                chunk.documents.push(Document { objects: document.objects()?, whole: document });
            }
        }
        Ok(chunks.into_iter().filter(Self::says_something).collect())
    }

    fn objects(&self) -> impl Iterator<Item = &Manifest> {
        self.documents.iter().flat_map(|document| &document.objects)
    }
}

impl Chunk {
    fn new(file: &str, part: &Part) -> Self {
        let range = part.whole.clone();
        let mut text = file.get(range.clone()).unwrap_or_default().to_owned();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Self { text, start: range.start, documents: Vec::new(), is_json: part.is_json }
    }

    /// Returns the text with its document changed, if it can be changed in place. The comments stay.
    pub fn changed(&self, tree: &Tree) -> Option<String> {
        let [Document { whole, .. }] = self.documents.as_slice() else { return None };
        whole.changed(tree)
    }

    /// Whether the chunk is worth printing: empty lines and YAML directives alone are not.
    fn says_something(&self) -> bool {
        let is_directive = |line: &str| line.starts_with('%') || line.trim().is_empty();
        !self.documents.is_empty() || !self.text.lines().all(is_directive)
    }

    /// Whether the chunk starts with a document marker.
    pub fn has_marker(&self) -> bool {
        is_marker(&self.text, "---")
    }

    /// Returns the lines before the document: the marker and comments.
    pub fn head(&self) -> String {
        let marker = self.text.lines().next().and_then(|line| line.strip_prefix("---"));
        let lines = self.text.split_inclusive('\n').skip(usize::from(marker.is_some()));
        let is_comment = |line: &&str| line.trim().is_empty() || line.starts_with('#');
        let comments = lines.take_while(is_comment).filter(|line| !line.trim().is_empty());
        let first = match marker.map(str::trim_start) {
            // Text after the marker may belong to the document.
            Some(rest) if rest.is_empty() || rest.starts_with('#') => self.text.split_inclusive('\n').next(),
            Some(_) => return "---\n".to_owned(),
            None => None,
        };
        first.into_iter().chain(comments).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn chunks(text: &str) -> Vec<Chunk> {
        Chunk::parse(&Arc::new(Source::new("t", text))).unwrap()
    }

    #[rstest]
    #[case::one("a: 1", &[("a: 1\n", 1)])]
    #[case::several("a: 1\n---\nb: 1\n", &[("a: 1\n", 1), ("---\nb: 1\n", 1)])]
    #[case::comments("# licence\n---\n# a\na: 1 # x\n", &[("# licence\n", 0), ("---\n# a\na: 1 # x\n", 1)])]
    #[case::empty_ones("---\n---\na: 1\n---\n# none\n", &[("---\n", 0), ("---\na: 1\n", 1), ("---\n# none\n", 0)])]
    #[case::end_marker("a: 1\n...\nb: 1\n", &[("a: 1\n...\n", 1), ("b: 1\n", 1)])]
    #[case::directive("%YAML 1.2\n---\na: 1\n", &[("---\na: 1\n", 1)])]
    #[case::content_behind_the_marker("--- {a: 1}\n--- # x\nb: 1\n", &[("--- {a: 1}\n", 1), ("--- # x\nb: 1\n", 1)])]
    #[case::marker_in_a_text("a: |\n  ---\n  b\nc: ----\n", &[("a: |\n  ---\n  b\nc: ----\n", 1)])]
    #[case::windows("a: 1\r\n---\r\nb: 1\r\n", &[("a: 1\r\n", 1), ("---\r\nb: 1\r\n", 1)])]
    #[case::json("{\"a\": 1}", &[("{\"a\": 1}\n", 1)])]
    #[case::json_stream("{\"a\": 1}\n{\"b\": 1}{\"c\": 1}\n", &[("{\"a\": 1}\n", 1), ("{\"b\": 1}\n", 1), ("{\"c\": 1}\n", 1)])]
    #[case::nothing("", &[])]
    #[case::blank("\n\n", &[])]
    fn a_text_is_cut_at_its_documents(#[case] text: &str, #[case] expected: &[(&str, usize)]) {
        let found = chunks(text);
        let found: Vec<(&str, usize)> =
            found.iter().map(|chunk| (chunk.text.as_str(), chunk.documents.len())).collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::review("kind: AdmissionReview\nrequest: {object: {a: 1}}\n", "/request/object")]
    #[case::request("kind: {kind: Pod}\noperation: CREATE\nobject: {a: 1}\n", "/object")]
    fn a_request_stands_for_its_object(#[case] text: &str, #[case] pointer: &str) {
        let found = chunks(text);
        let document = &found[0].documents[0];
        assert_eq!((document.whole.pointer(), document.objects.len()), (pointer, 1));
        assert_eq!((found[0].text.as_str(), found[0].is_json), ("{\n  \"a\": 1\n}\n", true));
        assert_eq!(document.objects[0].value, serde_json::json!({"a": 1}));
    }

    #[rstest]
    #[case::none("a: 1\n", "")]
    #[case::marker("---\na: 1\n", "---\n")]
    #[case::comments("---\n# Source: chart/x.yaml\n\n# y\na: 1 # z\n", "---\n# Source: chart/x.yaml\n# y\n")]
    #[case::comment_at_the_marker("--- # x\na: 1\n", "--- # x\n")]
    #[case::content_at_the_marker("--- {a: 1}\n", "---\n")]
    #[case::comments_alone("# x\na: 1\n", "# x\n")]
    fn comments_before_a_document_are_known(#[case] text: &str, #[case] head: &str) {
        assert_eq!(chunks(text)[0].head(), head);
    }

    proptest! {
        #[test]
        fn no_document_is_lost(values in proptest::collection::vec("(# c\n)?(a: [a-z]{1,3}\n|a: \\|\n  x\n   ---\n|\\{a: 1\\}\n)", 0..6)) {
            let text = values.join("---\n");
            let found = chunks(&text);
            prop_assert_eq!(found.iter().map(|chunk| chunk.documents.len()).sum::<usize>(), values.len());
            prop_assert!(found.iter().all(|chunk| chunk.documents.len() == 1));
            prop_assert_eq!(found.iter().map(|chunk| chunk.text.as_str()).collect::<String>(), text);
        }
    }
}
