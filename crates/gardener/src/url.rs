//! Parses URLs as Go's `net/url` (1.26) does, as far as the rules for issuers need (D4 to D6, D13).
//!
//! Gardener parses issuers with `url.Parse` and checks five properties of the result. That function differs from RFC
//! 3986, so this module follows its steps one by one.

/// The properties of a URL that the rules check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // The properties are independent.
pub(crate) struct Url<'a> {
    /// Whether the scheme is `https`, in any case.
    pub https: bool,
    /// Whether there is a host, or at least a port.
    pub host: bool,
    /// Whether there is an `@` before the path.
    pub user: bool,
    /// Whether there is text after a `?`.
    pub query: bool,
    /// Whether there is text after a `#`.
    pub fragment: bool,
    /// The text after the host, from the slash on, without decoding.
    pub path: &'a [u8],
}

impl<'a> Url<'a> {
    /// Parses a URL. Returns `None` if Go returns an error.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (rest, fragment) = cut(text.as_bytes(), b'#');
        if rest.iter().any(u8::is_ascii_control) || !is_escaped_well(fragment) {
            return None;
        }
        let (scheme, rest) = scheme(rest)?;
        let (path, query) = cut(rest, b'?');
        let mut url = Self {
            https: scheme.eq_ignore_ascii_case(b"https"),
            host: false,
            user: false,
            query: !query.is_empty(),
            fragment: !fragment.is_empty(),
            path,
        };
        let has_scheme = !scheme.is_empty();
        if !path.starts_with(b"/") {
            if has_scheme {
                // The rest is opaque and may be anything.
                return Some(url);
            }
            if cut(path, b'/').0.contains(&b':') {
                return None;
            }
        } else if path.starts_with(b"//") && (has_scheme || !path.starts_with(b"///")) {
            let authority = path.get(2..)?;
            let (authority, path) = authority.split_at_checked(find(authority, b'/'))?;
            url.path = path;
            let mut host = authority;
            if let Some(at) = authority.iter().rposition(|byte| *byte == b'@') {
                url.user = true;
                host = authority.get(at + 1..)?;
                if !is_made_of(authority.get(..at)?, may_be_in_user, |_| true) {
                    return None;
                }
            }
            url.host = !host.is_empty();
            // Only for these two schemes, a host must not contain a colon.
            if !is_host(host, url.https || scheme.eq_ignore_ascii_case(b"http")) {
                return None;
            }
        }
        is_escaped_well(url.path).then_some(url)
    }
}

/// Returns the position of the first `mark`, or the length of the text if there is none.
fn find(text: &[u8], mark: u8) -> usize {
    text.iter().position(|byte| *byte == mark).unwrap_or(text.len())
}

/// Splits a text at the first `mark`.
fn cut(text: &[u8], mark: u8) -> (&[u8], &[u8]) {
    let at = find(text, mark);
    (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())
}

/// Splits off the scheme, which may be absent. Returns `None` if the text begins with a colon.
fn scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = cut(text, b':');
    if name.is_empty() && !text.is_empty() {
        return None;
    }
    let is_scheme = name.len() < text.len()
        && name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    Some(if is_scheme { (name, rest) } else { (&[], text) })
}

/// Whether all unescaped bytes are `plain` and all escaped bytes are `escapable`.
fn is_made_of(text: &[u8], plain: fn(u8) -> bool, escapable: fn(u8) -> bool) -> bool {
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%' {
            let [high, low, after @ ..] = rest else { return false };
            let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16)) else {
                return false;
            };
            rest = after;
            if !u8::try_from(high * 16 + low).is_ok_and(escapable) {
                return false;
            }
        } else if !plain(*byte) {
            return false;
        }
    }
    true
}

/// Whether two hexadecimal digits follow each `%`.
fn is_escaped_well(text: &[u8]) -> bool {
    is_made_of(text, |_| true, |_| true)
}

fn may_be_in_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b':'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b'@'
        )
}

/// Whether a byte may occur unescaped in a host. All bytes above ASCII may.
fn may_be_in_host(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b'#' | b'%' | b'/' | b'?' | b'@' | b'\\' | b'^' | b'`' | b'{'..=b'}' | 0x7f)
}

/// Whether a text is a name, an IPv4 address or an IPv6 address in brackets, with or without a port. It may be empty.
fn is_host(host: &[u8], strict: bool) -> bool {
    if let Some(open) = host.iter().rposition(|byte| *byte == b'[') {
        let Some(close) = host.iter().rposition(|byte| *byte == b']') else { return false };
        let (Some(address), Some(port)) = (host.get(1..close), host.get(close + 1..)) else { return false };
        return open == 0 && is_port(port) && is_ip_literal(address);
    }
    let colon = if strict { Some(find(host, b':')) } else { host.iter().rposition(|byte| *byte == b':') };
    let port = colon.and_then(|at| host.get(at..)).unwrap_or_default();
    // Only non-ASCII bytes and the percent sign may be escaped.
    is_port(port) && is_made_of(host, may_be_in_host, |byte| byte >= 0x80 || byte == b'%')
}

/// Whether a text is empty, or a colon and any number of digits.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Whether a text is an IPv6 address, with or without a zone after `%25`.
fn is_ip_literal(text: &[u8]) -> bool {
    let Some((address, zone)) = text.split_at_checked(find(text, b'%')) else { return false };
    is_ipv6(address)
        && match zone {
            [] => true,
            [b'%', b'2', b'5', zone @ ..] => {
                // Here, ASCII bytes that a host may contain, the percent sign and spaces may be escaped.
                let escapable = |byte| byte == b' ' || byte == b'%' || (byte < 0x80 && may_be_in_host(byte));
                !zone.is_empty() && is_made_of(zone, may_be_in_host, escapable)
            }
            _ => false,
        }
}

/// Whether a text is eight groups of hexadecimal digits. `::` replaces at least one group, and an IPv4 address the last
/// two.
fn is_ipv6(address: &[u8]) -> bool {
    let mut rest = address;
    let mut gap = false;
    let mut groups = 0;
    if let [b':', b':', after @ ..] = rest {
        gap = true;
        rest = after;
    }
    if gap && rest.is_empty() {
        return true;
    }
    while groups < 8 {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let after = rest.get(digits..).unwrap_or_default();
        if !(1..=4).contains(&digits) {
            return false;
        }
        if after.starts_with(b".") {
            return groups <= 6 && (groups < 6) == gap && is_ipv4(rest);
        }
        groups += 1;
        match after {
            [] => return (groups < 8) == gap,
            [b':', b':', more @ ..] => {
                if gap {
                    return false;
                }
                gap = true;
                if more.is_empty() {
                    return groups < 8;
                }
                rest = more;
            }
            [b':', more @ ..] if !more.is_empty() => rest = more,
            _ => return false,
        }
    }
    false
}

/// Whether a text is four numbers up to 255 without leading zeros.
fn is_ipv4(address: &[u8]) -> bool {
    let mut rest = address;
    for dots_before in 0..4 {
        let (number, after) = cut(rest, b'.');
        let is_last = number.len() == rest.len();
        if !(1..=3).contains(&number.len()) || !number.iter().all(u8::is_ascii_digit) {
            return false;
        }
        let value = number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        if value > 255 || (number.len() > 1 && number.starts_with(b"0")) || is_last != (dots_before == 3) {
            return false;
        }
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests;
