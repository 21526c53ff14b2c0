//! How the paths of a container relate to the directory of ServiceAccount tokens (E21).

use std::borrow::Cow;

/// The number of segments of [`super::names::MOUNT_PATH`] after resolving the link `/var/run`, which points to `/run` in
/// most images: `/run/secrets/kubernetes.io/serviceaccount`.
const TOKEN: usize = 4;

/// How a path relates to the token directory. A mount at such a path can hide a token or expose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The path is the token directory.
    At,
    /// The path is an ancestor of the token directory.
    Above,
    /// The path is inside the token directory.
    Below,
}

/// Returns how a `mountPath`, a `devicePath` or a `terminationMessagePath` relates to the token directory; `None` if it
/// is elsewhere.
///
/// The spelling does not matter. `/run` equals `/var/run`, dots and repeated slashes are resolved, and a path without a
/// leading slash begins at the root, since the kubelet puts one there. Runtimes differ in whether they resolve `..`
/// before or after links, so both readings count. Backslashes, a drive letter and capitals are read as on Windows,
/// where the kubelet turns slashes into backslashes.
///
/// Returns `None` for an empty path: the API server refuses it.
pub fn relation(path: &str) -> Option<Relation> {
    if path.is_empty() || is_plainly_elsewhere(path) {
        return None;
    }
    let is_of_windows = path.bytes().any(|byte| byte == b'\\' || byte.is_ascii_uppercase());
    let path =
        if is_of_windows { Cow::Owned(path.replace('\\', "/").to_ascii_lowercase()) } else { Cow::Borrowed(path) };
    let path = match path.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => path.get(2..).unwrap_or_default(),
        _ => &path,
    };
    match readings(path) {
        [Some(Relation::At), _] | [_, Some(Relation::At)] => Some(Relation::At),
        [first, second] => first.or(second),
    }
}

/// Whether a path starts with another folder than the token directory and has no `..`. This quick check covers most
/// paths and looks at each byte once: resolving each of ten thousand mounts took longer than all other work on them
/// (E18).
fn is_plainly_elsewhere(path: &str) -> bool {
    let [b'/', rest @ ..] = path.as_bytes() else { return false };
    let mut before = b'/';
    for byte in rest {
        if *byte == b'\\' || (*byte == b'.' && before == b'.') {
            return false;
        }
        before = *byte;
    }
    match rest {
        // Further slashes or dots precede the first folder.
        [] | [b'/' | b'.', ..] => {
            let first = path.split('/').find(|segment| !matches!(*segment, "" | "."));
            first.is_some_and(|first| !is_first_folder(first.as_bytes()))
        }
        [b'v' | b'V' | b'r' | b'R', ..] => {
            let first = rest.split(|byte| *byte == b'/').next();
            first.is_some_and(|first| !is_first_folder(first))
        }
        _ => true,
    }
}

fn is_first_folder(name: &[u8]) -> bool {
    ["var", "run"].iter().any(|folder| name.eq_ignore_ascii_case(folder.as_bytes()))
}

/// A folder, as far as its relation to the token directory matters. Counting the folders instead of listing them keeps
/// paths with thousands of segments cheap (E18).
#[derive(Clone, Copy, Debug, Default)]
struct Folder {
    /// Whether the path begins with `/var`, and not yet with the folder to which the link `/var/run` points.
    is_in_var: bool,
    /// The number of segments of the token directory with which the path begins, after `var` if it begins with that.
    known: usize,
    /// The number of segments after these.
    others: usize,
}

/// What a segment of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    /// `var`.
    Var,
    /// The segment of the token directory with this index.
    OfToken(usize),
    /// Any other name.
    Other,
}

impl Segment {
    fn parse(name: &[u8]) -> Self {
        match name {
            b"var" => Self::Var,
            b"run" => Self::OfToken(0),
            b"secrets" => Self::OfToken(1),
            b"kubernetes.io" => Self::OfToken(2),
            b"serviceaccount" => Self::OfToken(3),
            _ => Self::Other,
        }
    }
}

impl Folder {
    fn enter(&mut self, segment: Segment, follows: bool) {
        if self.others > 0 {
            self.others += 1;
        } else if segment == Segment::OfToken(self.known) {
            self.known += 1;
            if follows && self.known == 1 {
                self.is_in_var = false;
            }
        } else if self.known == 0 && !self.is_in_var && segment == Segment::Var {
            self.is_in_var = true;
        } else {
            self.others += 1;
        }
    }

    fn leave(&mut self) {
        if self.others > 0 {
            self.others -= 1;
        } else if self.known > 0 {
            self.known -= 1;
        } else {
            self.is_in_var = false;
        }
    }

    fn relation(self) -> Option<Relation> {
        match (self.known == TOKEN, self.others > 0) {
            (true, true) => Some(Relation::Below),
            (true, false) => Some(Relation::At),
            (false, true) => None,
            // `/var` holds the link, or the token directory itself if there is no link.
            (false, false) => Some(Relation::Above),
        }
    }
}

/// Returns how a path relates to the token directory, with the link `/var/run` resolved as soon as it occurs, and at the
/// end.
fn readings(path: &str) -> [Option<Relation>; 2] {
    let (mut followed, mut kept) = (Folder::default(), Folder::default());
    for segment in path.as_bytes().split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                followed.leave();
                kept.leave();
            }
            _ => {
                let segment = Segment::parse(segment);
                followed.enter(segment, true);
                kept.enter(segment, false);
            }
        }
    }
    [followed.relation(), kept.relation()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::names;

    #[rstest]
    #[case::plain("/var/run/secrets/kubernetes.io/serviceaccount", Some(Relation::At))]
    #[case::behind_the_link("/run/secrets/kubernetes.io/serviceaccount", Some(Relation::At))]
    #[case::slashes("//var//run/secrets/kubernetes.io/serviceaccount///", Some(Relation::At))]
    #[case::dots("/var/./run/x/../secrets/kubernetes.io/serviceaccount/.", Some(Relation::At))]
    #[case::over_the_root("/../../var/run/secrets/kubernetes.io/serviceaccount", Some(Relation::At))]
    #[case::without_a_slash("var/run/secrets/kubernetes.io/serviceaccount", Some(Relation::At))]
    #[case::of_windows(r"C:\var\run\secrets\kubernetes.io\serviceaccount", Some(Relation::At))]
    #[case::in_capitals("c:/VAR/run/Secrets/kubernetes.io/serviceaccount", Some(Relation::At))]
    #[case::up_from_the_link("/var/run/../run/secrets/kubernetes.io/serviceaccount", Some(Relation::At))]
    #[case::up_from_the_link_before_it_is_followed(
        "/var/run/../../run/secrets/kubernetes.io/serviceaccount",
        Some(Relation::At)
    )]
    #[case::root("/", Some(Relation::Above))]
    #[case::root_in_dots("/x/..", Some(Relation::Above))]
    #[case::var("/var", Some(Relation::Above))]
    #[case::run("/run/", Some(Relation::Above))]
    #[case::link("/var/run", Some(Relation::Above))]
    #[case::secrets("/var/run/secrets", Some(Relation::Above))]
    #[case::kubernetes("/run/secrets/kubernetes.io", Some(Relation::Above))]
    #[case::token("/var/run/secrets/kubernetes.io/serviceaccount/token", Some(Relation::Below))]
    #[case::deeper("/run/secrets/kubernetes.io/serviceaccount/a/b", Some(Relation::Below))]
    #[case::data_folder("/run/secrets/kubernetes.io/serviceaccount/..data", Some(Relation::Below))]
    #[case::out_again("/var/run/secrets/kubernetes.io/serviceaccount/../other", None)]
    #[case::longer_name("/var/run/secrets/kubernetes.io/serviceaccounts", None)]
    #[case::socket("/var/run/docker.sock", None)]
    #[case::log("/var/log", None)]
    #[case::other_secret("/run/secrets/app", None)]
    #[case::elsewhere("/data", None)]
    #[case::same_name_elsewhere("/data/var/run", None)]
    #[case::empty("", None)]
    fn e21_paths_at_above_and_below_the_place_of_tokens(#[case] path: &str, #[case] wanted: Option<Relation>) {
        assert_eq!(relation(path), wanted);
    }

    /// Returns the folders of a path, with the link `/var/run` resolved as soon as it occurs or at the end.
    fn resolved(path: &str, follows: bool) -> Vec<&str> {
        let mut segments: Vec<&str> = Vec::new();
        for segment in path.split('/') {
            match segment {
                "" | "." => {}
                ".." => drop(segments.pop()),
                _ => segments.push(segment),
            }
            if follows && segments == ["var", "run"] {
                segments = vec!["run"];
            }
        }
        if segments.starts_with(&["var", "run"]) {
            segments.remove(0);
        }
        segments
    }

    fn related(segments: &[&str]) -> Option<Relation> {
        const TOKEN: [&str; 4] = ["run", "secrets", "kubernetes.io", "serviceaccount"];
        match (TOKEN.starts_with(segments), segments.starts_with(&TOKEN)) {
            (true, true) => Some(Relation::At),
            (true, false) => Some(Relation::Above),
            (false, true) => Some(Relation::Below),
            (false, false) => (segments == ["var"]).then_some(Relation::Above),
        }
    }

    proptest! {
        #[test]
        fn e18_what_is_plainly_elsewhere_is_elsewhere(path in "/[./vV]{0,3}(ar|AR|run|x)?[/.\\\\:]{0,2}(run|secrets)?") {
            if is_plainly_elsewhere(&path) {
                prop_assert_eq!(readings(&path.to_ascii_lowercase()), [None, None], "{}", path);
            }
        }

        /// Counted folders say the same as listed ones.
        #[test]
        fn e21_a_path_is_read_as_its_list_of_folders(
            segments in prop::collection::vec(
                prop::sample::select(vec!["var", "run", "secrets", "kubernetes.io", "serviceaccount", "..", "..", ".", "", "x"]),
                0..14,
            ),
        ) {
            let path = segments.join("/");
            let listed = [true, false].map(|follows| related(&resolved(&path, follows)));
            prop_assert_eq!(readings(&path), listed, "{}", path);
        }

        /// Dots, repeated slashes and `x/..` do not change the result.
        #[test]
        fn e21_the_spelling_does_not_matter(
            cut in 0_usize..8, more in "(/[a-z]{1,3})?", noise in prop::sample::select(vec!["/", "/.", "//", "/x/..", "/."])
        ) {
            let mut plain: String = names::MOUNT_PATH.split_inclusive('/').take(cut).collect();
            plain.push_str(&more);
            prop_assume!(!plain.is_empty());
            let spelt = plain.replace('/', &format!("{noise}/"));
            prop_assert_eq!(relation(&plain), relation(&spelt), "{} {}", plain, spelt);
        }
    }
}
