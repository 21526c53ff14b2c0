//! URLs as Go's `net/url` (1.26) takes them apart, as far as the rules for issuers ask (D4 to D6, D13).
//!
//! Gardener parses issuers with `url.Parse` and looks at five things of the result. What that function takes and what
//! it refuses is not what RFC 3986 says, so its steps are followed one by one.

/// What the rules ask of a URL that can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Five questions that have nothing to do with each other.
pub struct Url {
    /// The scheme is `https`, in any case.
    pub https: bool,
    /// There is a host, or at least a port.
    pub host: bool,
    /// There is an `@` before the path.
    pub user: bool,
    /// Something stands behind a `?`.
    pub query: bool,
    /// Something stands behind a `#`.
    pub fragment: bool,
}

impl Url {
    /// Takes a URL apart; `None` where Go finds an error.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, fragment) = cut(text.as_bytes(), b'#');
        if rest.iter().any(u8::is_ascii_control) || !escapes_are_whole(fragment) {
            return None;
        }
        let (scheme, rest) = scheme(rest)?;
        let (rest, query) = cut(rest, b'?');
        let mut url = Self {
            https: scheme.eq_ignore_ascii_case(b"https"),
            host: false,
            user: false,
            query: !query.is_empty(),
            fragment: !fragment.is_empty(),
        };
        let mut path = rest;
        if !rest.starts_with(b"/") {
            // With a scheme, the rest is opaque and may be anything; without one, `a:b` would look like a scheme.
            if scheme.is_empty() && cut(rest, b'/').0.contains(&b':') {
                return None;
            }
            if !scheme.is_empty() {
                return Some(url);
            }
        } else if rest.starts_with(b"//") && !(scheme.is_empty() && rest.starts_with(b"///")) {
            let authority = rest.get(2..).unwrap_or_default();
            let end = authority.iter().position(|byte| *byte == b'/').unwrap_or(authority.len());
            let (authority, below) = authority.split_at_checked(end)?;
            path = below;
            let mut host = authority;
            if let Some(at) = authority.iter().rposition(|byte| *byte == b'@') {
                let user = authority.get(..at)?;
                host = authority.get(at + 1..)?;
                url.user = true;
                if !user.iter().copied().all(may_be_in_user) || !escapes_are_whole(user) {
                    return None;
                }
            }
            url.host = !host.is_empty();
            // Only of these two schemes, a host may not hold a colon.
            let strict = url.https || scheme.eq_ignore_ascii_case(b"http");
            if !is_host(host, strict) {
                return None;
            }
        }
        escapes_are_whole(path).then_some(url)
    }
}

/// What stands before and behind the first `mark`.
fn cut(text: &[u8], mark: u8) -> (&[u8], &[u8]) {
    let at = text.iter().position(|byte| *byte == mark).unwrap_or(text.len());
    (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())
}

/// The scheme, or nothing, and what follows. `None` where a colon has nothing before it.
fn scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = cut(text, b':');
    let is_scheme = name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        && name.first().is_some_and(u8::is_ascii_alphabetic);
    if name.len() == text.len() || (!is_scheme && !name.is_empty()) {
        return Some((&[], text));
    }
    is_scheme.then_some((name, rest))
}

/// Whether two hexadecimal digits follow each `%`.
fn escapes_are_whole(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'%').skip(1).all(|after| escaped(after).is_some())
}

/// The byte that the two hexadecimal digits behind a `%` stand for.
fn escaped(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    let high = char::from(*high).to_digit(16)?;
    let low = char::from(*low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

fn may_be_in_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

/// Whether a byte may stand unescaped in a host: everything above ASCII may.
fn may_be_in_host(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f && !b"#%/?@\\^`{|}".contains(&byte)
}

/// A name, an IPv4 address or an IPv6 address in brackets, with or without a port; empty, too.
fn is_host(host: &[u8], strict: bool) -> bool {
    if let Some(open) = host.iter().rposition(|byte| *byte == b'[') {
        let Some(close) = host.iter().rposition(|byte| *byte == b']') else { return false };
        let (Some(address), Some(port)) = (host.get(1..close), host.get(close + 1..)) else { return false };
        return open == 0 && is_port(port) && is_ip_literal(address);
    }
    let colon = |byte: &u8| *byte == b':';
    let port = if strict { host.iter().position(colon) } else { host.iter().rposition(colon) };
    let port = port.and_then(|at| host.get(at..)).unwrap_or_default();
    // Escapes are for what is not ASCII, and for the percent sign itself.
    is_port(port) && is_host_text(host, |byte| byte >= 0x80 || byte == b'%')
}

/// Whether all that is not escaped may be in a host, and `may_be_escaped` all that is.
fn is_host_text(text: &[u8], may_be_escaped: fn(u8) -> bool) -> bool {
    let mut first = true;
    text.split(|byte| *byte == b'%').all(|part| {
        let behind_percent = !std::mem::take(&mut first);
        part.iter().copied().all(may_be_in_host) && (!behind_percent || escaped(part).is_some_and(may_be_escaped))
    })
}

/// Nothing, or a colon and any number of digits.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// An IPv6 address, with or without a zone behind `%25`.
fn is_ip_literal(text: &[u8]) -> bool {
    let end = text.iter().position(|byte| *byte == b'%').unwrap_or(text.len());
    let (address, zone) = text.split_at_checked(end).unwrap_or((text, &[]));
    is_ipv6(address)
        && match zone {
            [] => true,
            [b'%', b'2', b'5', zone @ ..] => {
                // What a host may hold may be escaped here, and so may a space.
                let may_be_escaped = |byte| byte == b' ' || byte == b'%' || (byte < 0x80 && may_be_in_host(byte));
                !zone.is_empty() && is_host_text(zone, may_be_escaped)
            }
            _ => false,
        }
}

/// Eight groups of hexadecimal digits, of which `::` stands for at least one and an IPv4 address for the last two.
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

/// Four numbers up to 255 without leading zeros.
fn is_ipv4(address: &[u8]) -> bool {
    let mut numbers = 0;
    for part in address.split(|byte| *byte == b'.') {
        let value = match part {
            [b'0'] => Some(0),
            [b'1'..=b'9', ..] if part.len() <= 3 => {
                part.iter().try_fold(0, |value, byte| Some(value * 10 + char::from(*byte).to_digit(10)?))
            }
            _ => None,
        };
        if value.is_none_or(|value| value > 255) {
            return false;
        }
        numbers += 1;
    }
    numbers == 4
}

#[cfg(test)]
mod tests;
