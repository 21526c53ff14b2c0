//! Parsing of image references, as far as defaulting needs it.
//!
//! The grammar is that of the distribution project's `reference` package, which the API server uses:
//! `[domain[:port]/]path[:tag][@digest]`, with Docker Hub's short names.

/// The maximum length of the path of a repository, in bytes. For the short names of Docker Hub, `library/` counts too.
const PATH_MAX: usize = 255;
/// The path that a short name of Docker Hub implies.
const LIBRARY: &str = "library/";
const HUB: &str = "docker.io";
const HUB_INDEX: &str = "index.docker.io";
const TAG_MAX: usize = 128;

/// Returns the tag from which the API server derives the `imagePullPolicy`: `latest` if the reference has neither a tag
/// nor a digest, `""` if it has only a digest, `None` if it is not an image reference.
pub fn tag(image: &str) -> Option<&str> {
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return None;
    }
    let (domain, rest) = split_domain(image);
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) if is_digest(digest) => (rest, true),
        Some(_) => return None,
        None => (rest, false),
    };
    // A path has no colon. A port precedes the first slash, so it is already split off.
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) if is_tag(tag) => (path, tag),
        Some(_) => return None,
        None if digest => (rest, ""),
        None => (rest, "latest"),
    };
    let implied = if domain.is_none_or(|domain| domain == HUB) && !path.contains('/') { LIBRARY.len() } else { 0 };
    let domain_is_path = match domain {
        None => false,
        Some(domain) if is_domain(domain) => false,
        // Not a domain after all: then it must be the first component of the path.
        Some(domain) if is_path_component(domain) => true,
        Some(_) => return None,
    };
    let length = path.len() + implied + if domain_is_path { domain.map_or(0, str::len) + 1 } else { 0 };
    (path.split('/').all(is_path_component) && length <= PATH_MAX).then_some(tag)
}

/// Whether the API server defaults to pulling this image every time: its tag is `latest`, explicit or implied (DEF-5).
pub fn is_latest(image: &str) -> bool {
    tag(image) == Some("latest")
}

/// Returns the repository and the digest of a reference; `None` if it has no digest or is not an image reference.
pub fn digest(image: &str) -> Option<(&str, &str)> {
    let (name, (_, digest)) = repository(image)?;
    (!digest.is_empty()).then_some((name, digest))
}

/// Whether two references name the same image: `x` is `docker.io/library/x:latest`, and a tag beside a digest counts for
/// nothing.
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || Name::parse(one).is_some_and(|one| Name::parse(other).is_some_and(|other| one.is_same(&other)))
}

/// Returns the registries, with or without a path, under which `image` has the repository, tag and digest of `of`:
/// `mirror.example/hub` for `mirror.example/hub/library/x:1` and `x:1`. Several readings are possible, since the path may
/// begin with the registry of `of`. Returns none if one of the texts is not an image reference.
pub fn registries_of<'a>(image: &'a str, of: &str) -> Vec<&'a str> {
    let (Some((name, versions)), Some(of)) = (repository(image), Name::parse(of)) else { return Vec::new() };
    if versions != of.versions {
        return Vec::new();
    }
    let Name { domain, implied, path, .. } = of;
    let whole = format!("{domain}/{implied}{path}");
    let repositories = [Some(whole), (!implied.is_empty()).then(|| format!("{implied}{path}")), Some(path.to_owned())];
    let registry = |repository: String| name.strip_suffix(&repository)?.strip_suffix('/');
    repositories.into_iter().flatten().filter_map(registry).collect()
}

/// Whether the text is a registry, with or without a path, that the name of an image can begin with. A first component
/// without dot and port would be a user of Docker Hub.
pub fn is_registry(text: &str) -> bool {
    let (domain, path) = split_domain(text);
    let host = domain.unwrap_or(path);
    let is_host = host == "localhost" || (host.contains(['.', ':']) && is_domain(host));
    let is_whole = domain.is_some() || !path.contains('/');
    is_host && is_whole && text != HUB_INDEX && tag(&format!("{text}/x")) == Some("latest")
}

/// Returns the image with another tag, behind which a digest may stand, instead of its own tag and digest. `None` if it is
/// not an image reference.
pub fn with_tag(image: &str, tag: &str) -> Option<String> {
    repository(image).map(|(name, _)| format!("{name}:{tag}"))
}

/// The tag, `latest` if it is implied and `""` beside a digest alone, and the digest, `""` if there is none.
type Versions<'a> = (&'a str, &'a str);

/// Splits a reference into the name of its repository and its versions. Returns `None` if it is not a reference.
fn repository(image: &str) -> Option<(&str, Versions<'_>)> {
    let tag = tag(image)?;
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let path = name.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    let name = match name.rfind(':').filter(|colon| *colon >= path) {
        Some(colon) => name.get(..colon)?,
        None => name,
    };
    Some((name, (tag, digest)))
}

/// A reference without short forms.
struct Name<'a> {
    domain: &'a str,
    /// The part of the path that a short name of Docker Hub implies.
    implied: &'static str,
    path: &'a str,
    versions: Versions<'a>,
}

impl<'a> Name<'a> {
    /// Returns `None` if the text is not an image reference.
    fn parse(image: &'a str) -> Option<Self> {
        let (name, versions) = repository(image)?;
        let (domain, path) = split_domain(name);
        let domain = domain.unwrap_or(HUB);
        // Docker Hub's short name and the written one are the same text in both parts.
        let (implied, path) = match path.strip_prefix(LIBRARY) {
            Some(rest) if domain == HUB => (LIBRARY, rest),
            None if domain == HUB && !path.contains('/') => (LIBRARY, path),
            _ => ("", path),
        };
        Some(Self { domain, implied, path, versions })
    }

    /// Returns what decides which image this is: the digest, or else the tag. A tag beside a digest counts for nothing.
    fn version(&self) -> &'a str {
        match self.versions {
            (tag, "") => tag,
            (_, digest) => digest,
        }
    }

    /// Whether both name the same image.
    fn is_same(&self, other: &Self) -> bool {
        (self.domain, self.implied, self.path, self.version())
            == (other.domain, other.implied, other.path, other.version())
    }
}

/// Splits off the domain, if the first component is one.
fn split_domain(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((HUB_INDEX, rest)) => (Some(HUB), rest),
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, image),
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether the text is a digest of a known algorithm, in lower-case hexadecimal of the right length.
fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", encoded)) => (encoded, 64),
        Some(("sha384", encoded)) => (encoded, 96),
        Some(("sha512", encoded)) => (encoded, 128),
        _ => return false,
    };
    length.0.len() == length.1 && length.0.bytes().all(is_lower_hex)
}

/// Whether the text is a word character, followed by at most 127 word characters, dots and dashes.
fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Whether the text is a host name, an IPv4 address or an IPv6 address in brackets, with or without a port.
fn is_domain(domain: &str) -> bool {
    let host = match domain.rsplit_once(':') {
        // A colon inside the brackets of an address does not start a port.
        Some((host, port)) if !port.ends_with(']') => {
            if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return false;
            }
            host
        }
        _ => domain,
    };
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':'),
        None => host.split('.').all(is_host_label),
    }
}

fn is_host_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Whether the text consists of runs of lower-case letters and digits, separated by `.`, `_`, `__` or any number of
/// dashes.
fn is_path_component(component: &str) -> bool {
    let is_atom = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(is_atom))
        && bytes.chunk_by(|left, right| is_atom(left) == is_atom(right)).all(|run| {
            run.iter().all(is_atom) || matches!(run, b"." | b"_" | b"__") || run.iter().all(|byte| *byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[rstest]
    #[case::short("nginx", Some("latest"))]
    #[case::short_with_tag("nginx:1.27", Some("1.27"))]
    #[case::latest_written("nginx:latest", Some("latest"))]
    #[case::user("library/nginx", Some("latest"))]
    #[case::registry("registry.example/a/b:v1", Some("v1"))]
    #[case::registry_with_port("registry.example:5000/a", Some("latest"))]
    #[case::registry_with_port_and_tag("localhost:5000/a:x", Some("x"))]
    #[case::localhost("localhost/a", Some("latest"))]
    #[case::upper_case_domain("Registry/a", Some("latest"))]
    #[case::ipv6("[::1]:5000/a:b", Some("b"))]
    #[case::ipv6_without_port("[2001:db8::1]/a", Some("latest"))]
    #[case::separators("a.b_c__d---e/f", Some("latest"))]
    #[case::a_first_component_that_is_no_domain("a_b.c/d", Some("latest"))]
    #[case::tag_with_dots_and_dashes("a:_v1.2-x", Some("_v1.2-x"))]
    #[case::empty("", None)]
    #[case::upper_case("Nginx", None)]
    #[case::upper_case_path("registry.example/Nginx", None)]
    #[case::space("nginx :1", None)]
    #[case::empty_tag("nginx:", None)]
    #[case::bad_tag("nginx:-a", None)]
    #[case::two_tags("nginx:a:b", None)]
    #[case::three_underscores("a___b", None)]
    #[case::two_dots("a..b", None)]
    #[case::leading_slash("/nginx", None)]
    #[case::trailing_slash("nginx/", None)]
    #[case::scheme("https://registry.example/a", None)]
    #[case::template("{{image}}", None)]
    #[case::bad_port("registry.example:x/a", None)]
    #[case::an_identifier(HEX, None)]
    #[case::short_digest("nginx@sha256:abc", None)]
    #[case::unknown_digest_algorithm("nginx@md5:0123456789abcdef0123456789abcdef", None)]
    #[case::only_a_digest("sha256:0123", Some("0123"))]
    #[case::port_and_no_path("registry.example:5000", Some("5000"))]
    fn def5_tags(#[case] image: &str, #[case] expected: Option<&str>) {
        assert_eq!(tag(image), expected);
    }

    #[test]
    fn def5_digests_stand_in_for_a_tag() {
        assert_eq!(tag(&format!("nginx@sha256:{HEX}")), Some(""));
        assert_eq!(tag(&format!("nginx:latest@sha256:{HEX}")), Some("latest"));
        assert_eq!(tag(&format!("nginx@sha512:{HEX}{HEX}")), Some(""));
        assert_eq!(tag(&format!("nginx@sha256:{}", HEX.to_uppercase())), None);
        assert!(is_latest("nginx") && !is_latest(&format!("nginx@sha256:{HEX}")) && !is_latest("no image"));
    }

    #[rstest]
    #[case::tag("registry.example:5000/a/b:v1", None)]
    #[case::digest("registry.example:5000/a/b@", Some("registry.example:5000/a/b"))]
    #[case::both("a/b:v1@", Some("a/b"))]
    #[case::short("nginx@", Some("nginx"))]
    #[case::no_reference("Nginx@", None)]
    fn roll20_digests_have_a_repository(#[case] image: &str, #[case] expected: Option<&str>) {
        let digest = format!("sha256:{HEX}");
        let image = if image.ends_with('@') { format!("{image}{digest}") } else { image.to_owned() };
        assert_eq!(super::digest(&image), expected.map(|repository| (repository, digest.as_str())));
    }

    #[rstest]
    #[case::the_same("agent:v1", "agent:v1", true)]
    #[case::as_containerd_reports_it("docker.io/library/agent:v1", "agent:v1", true)]
    #[case::of_a_user("docker.io/team/agent:v1", "team/agent:v1", true)]
    #[case::the_index_of_the_hub("index.docker.io/library/agent:v1", "agent:v1", true)]
    #[case::an_implied_tag("docker.io/library/agent:latest", "agent", true)]
    #[case::a_digest_beside_a_tag("docker.io/library/agent@DIGEST", "agent:v1@DIGEST", true)]
    #[case::another_tag("docker.io/library/agent:v2", "agent:v1", false)]
    #[case::another_registry("registry.example/library/agent:v1", "agent:v1", false)]
    #[case::another_user("docker.io/team/agent:v1", "agent:v1", false)]
    #[case::the_digest_of_a_tag("agent@DIGEST", "agent:v1", false)]
    #[case::a_port("localhost:5000/agent:v1", "localhost:5001/agent:v1", false)]
    #[case::an_identifier("sha256:DIGEST", "agent:v1", false)]
    #[case::no_reference("Agent", "Agent", true)]
    fn roll20_an_image_has_several_names(#[case] one: &str, #[case] other: &str, #[case] expected: bool) {
        let digest = format!("sha256:{HEX}");
        let [one, other] = [one, other].map(|image| image.replace("DIGEST", &digest));
        assert_eq!(is_same(&one, &other), expected);
        assert_eq!(is_same(&other, &one), expected);
    }

    #[rstest]
    #[case::another_registry("mirror.example/team/agent:v1", "ghcr.io/team/agent:v1", &["mirror.example"])]
    #[case::the_registry_as_a_path(
        "mirror.example/ghcr.io/team/agent:v1", "ghcr.io/team/agent:v1", &["mirror.example", "mirror.example/ghcr.io"]
    )]
    #[case::a_path("mirror.example:5000/a/b/team/agent", "team/agent:latest", &["mirror.example:5000/a/b"])]
    #[case::short_name("mirror.example/nginx:1", "nginx:1", &["mirror.example"])]
    #[case::short_name_in_full(
        "mirror.example/hub/library/nginx:1", "nginx:1", &["mirror.example/hub", "mirror.example/hub/library"]
    )]
    #[case::digest("mirror.example/a/b:v1@DIGEST", "quay.io/a/b:v1@DIGEST", &["mirror.example"])]
    #[case::another_tag("mirror.example/a/b:v2", "quay.io/a/b:v1", &[])]
    #[case::a_digest_for_a_tag("mirror.example/a/b@DIGEST", "quay.io/a/b:v1", &[])]
    #[case::a_digest_beside_the_tag("mirror.example/a/b:v1@DIGEST", "quay.io/a/b:v1", &[])]
    #[case::the_tag_gone_beside_a_digest("mirror.example/a/b@DIGEST", "quay.io/a/b:v1@DIGEST", &[])]
    #[case::another_repository("mirror.example/a/c:v1", "quay.io/a/b:v1", &[])]
    #[case::the_end_of_a_component("mirror.example/xa/b:v1", "quay.io/a/b:v1", &[])]
    #[case::flattened("mirror.example/b:v1", "quay.io/a/b:v1", &[])]
    #[case::no_reference("mirror.example/A/b:v1", "quay.io/a/b:v1", &[])]
    #[case::itself("a/b:v1", "a/b:v1", &[])]
    fn order9_the_registry_of_a_mirrored_image(#[case] image: &str, #[case] of: &str, #[case] expected: &[&str]) {
        let digest = format!("sha256:{HEX}");
        let [image, of] = [image, of].map(|image| image.replace("DIGEST", &digest));
        assert_eq!(registries_of(&image, &of), expected);
    }

    #[rstest]
    #[case::host("mirror.example", true)]
    #[case::port("mirror.example:5000", true)]
    #[case::path("mirror.example/hub/a", true)]
    #[case::localhost("localhost", true)]
    #[case::address("10.0.0.1:5000/x", true)]
    #[case::ipv6("[::1]:5000/x", true)]
    #[case::docker_hub("docker.io", true)]
    #[case::empty("", false)]
    #[case::a_user_of_docker_hub("team", false)]
    #[case::a_path_of_docker_hub("team/mirror", false)]
    #[case::slash("mirror.example/", false)]
    #[case::scheme("https://mirror.example", false)]
    #[case::tag("mirror.example/hub:1", false)]
    #[case::upper_case_path("mirror.example/Hub", false)]
    #[case::glob("*.example", false)]
    #[case::space("mirror.example /a", false)]
    fn order9_registries(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_registry(text), expected);
    }

    #[test]
    fn def5_lengths() {
        assert_eq!(tag(&format!("a:{}", "t".repeat(128))).map(str::len), Some(128));
        assert_eq!(tag(&format!("a:{}", "t".repeat(129))), None);
        assert!(is_latest(&"a".repeat(247)), "with library/ that is 255");
        assert!(!is_latest(&"a".repeat(248)));
        assert!(is_latest(&format!("registry.example/{}", "a".repeat(255))));
        assert!(!is_latest(&format!("registry.example/{}", "a".repeat(256))));
    }
}
