use proptest::prelude::*;

use super::*;

/// Texts that `url.Parse` of Go 1.26 accepts, each with the properties that it finds: `s` the scheme https, `h` a host,
/// `u` a user, `q` a query, `f` a fragment.
const TAKEN: [(&str, &str); 88] = [
    ("", "-----"),
    ("foo", "-----"),
    ("foo1", "-----"),
    ("https://", "s----"),
    ("https:", "s----"),
    ("https:/", "s----"),
    ("https:///", "s----"),
    ("https://a", "sh---"),
    ("https://a/", "sh---"),
    ("https://a#", "sh---"),
    ("https://a?", "sh---"),
    ("https://a#f", "sh--f"),
    ("https://a?q", "sh-q-"),
    ("https://a??", "sh-q-"),
    ("https://a?#", "sh---"),
    ("https://a#%41", "sh--f"),
    ("https://a#\x01", "sh--f"),
    ("https://u@a", "shu--"),
    ("https://u:p@a", "shu--"),
    ("https://@a", "shu--"),
    ("https://:@a", "shu--"),
    ("https://@", "s-u--"),
    ("https://u@", "s-u--"),
    ("HTTPS://a", "sh---"),
    ("hTTps://a", "sh---"),
    ("http://a", "-h---"),
    ("//a", "-h---"),
    ("///a", "-----"),
    ("/a", "-----"),
    ("a:b", "-----"),
    ("a/b:c", "-----"),
    ("*", "-----"),
    ("https://:443", "sh---"),
    ("https://a:", "sh---"),
    ("https://a:0", "sh---"),
    ("https://a:99999", "sh---"),
    ("ftp://a:1:2", "-h---"),
    ("ftp://a:b:2", "-h---"),
    ("https://[::1]", "sh---"),
    ("https://[::1]:443", "sh---"),
    ("https://[::1.2.3.4]", "sh---"),
    ("https://[::ffff:1.2.3.4]", "sh---"),
    ("https://[1:2:3:4:5:6:1.2.3.4]", "sh---"),
    ("https://[fe80::1%25en0]", "sh---"),
    ("https://[fe80::1%2525]", "sh---"),
    ("https://[fe80::1%25%41]", "sh---"),
    ("https://[fe80::1%25%20]", "sh---"),
    ("https://[::1%25a]b]", "sh---"),
    ("https://a]", "sh---"),
    ("https://a/ b", "sh---"),
    ("https://a/%41", "sh---"),
    ("https://a%25b", "sh---"),
    ("https://a%C3%A9", "sh---"),
    ("https://\u{e9}", "sh---"),
    ("https://a/\u{e9}", "sh---"),
    ("https://a?%zz", "sh-q-"),
    ("https://u%41@a", "shu--"),
    ("https://u@b@a", "shu--"),
    ("https://u/@a", "sh---"),
    ("https://a<b>", "sh---"),
    ("https://a\"b", "sh---"),
    ("https:a", "s----"),
    ("https:?q", "s--q-"),
    ("https:#f", "s---f"),
    ("https:%zz", "s----"),
    ("mailto:a@b", "-----"),
    ("https+x://a", "-h---"),
    ("https://a//b", "sh---"),
    ("https://a/../b", "sh---"),
    ("https://a?a/b@c", "sh-q-"),
    ("https://a#a@b", "sh--f"),
    ("https://1.2.3.4", "sh---"),
    ("https://1.2.3", "sh---"),
    ("https://0x1", "sh---"),
    ("https://a,b", "sh---"),
    ("https://*", "sh---"),
    ("https://[1::]", "sh---"),
    ("https://[1:2:3:4:5:6:7::]", "sh---"),
    ("https://[::2:3:4:5:6:7:8]", "sh---"),
    ("https://[1::3:4:5:6:7:8]", "sh---"),
    ("https://[::1]:", "sh---"),
    ("?q", "---q-"),
    ("#f", "----f"),
    ("#", "-----"),
    ("?", "-----"),
    ("//", "-----"),
    ("//?", "-----"),
    ("//u@/", "--u--"),
];

/// Texts that `url.Parse` refuses.
const REFUSED: [&str; 66] = [
    "https://a#%",
    "1a:b",
    ":",
    "://a",
    ":a",
    "https://a:b",
    "https://a:1:2",
    "ftp://a:2:b",
    "http://a:1:2",
    "https://a:-1",
    "https://[::1]x",
    "https://[::1",
    "https://::1",
    "https://[]",
    "https://[1.2.3.4]",
    "https://[1:2:3:4:5:6:7:1.2.3.4]",
    "https://[::1:2:3:4:5:6:1.2.3.4]",
    "https://[fe80::1%25]",
    "https://[fe80::1%en0]",
    "https://[fe80::1%25%C3]",
    "https://[fe80::1%25 ]",
    "https://[[::1]]",
    "https://a[::1]",
    "https://a b",
    "https://a/%",
    "https://a/%2",
    "https://a/%zz",
    "https://a%41",
    "https://a%20b",
    "https://%",
    "https://a\x7f",
    "https://a\n",
    "https://a/\x00",
    "https://a\tb",
    " https://a",
    "https ://a",
    "https://a ",
    "https://u%zz@a",
    "https://u \u{e9}@a",
    "https://u\u{e9}@a",
    "https://a|b",
    "https://a\\b",
    "https://a`",
    "https://a{",
    "https://a^",
    "1https://a",
    "-https://a",
    "https://[1::2::3]",
    "https://[:1]",
    "https://[1:]",
    "https://[::1:]",
    "https://[12345::]",
    "https://[g::]",
    "https://[1:2:3:4:5:6:7:8::]",
    "https://[::1:2:3:4:5:6:7:8]",
    "https://[::01.2.3.4]",
    "https://[::1.2.3]",
    "https://[::1.2.3.4.5]",
    "https://[::256.1.1.1]",
    "https://[::1..2.3]",
    "https://[::1.2.3.4:5]",
    "https://[::%31]",
    "https://[::1%]",
    "https://[::1%2]",
    "https://[::1]:x",
    "https://[::1]%41",
];

fn found(url: Url<'_>) -> String {
    let flags = [(url.https, 's'), (url.host, 'h'), (url.user, 'u'), (url.query, 'q'), (url.fragment, 'f')];
    flags.iter().map(|(is_there, letter)| if *is_there { *letter } else { '-' }).collect()
}

#[test]
fn d13_urls_are_taken_apart_as_go_does() {
    for (text, parts) in TAKEN {
        let url = Url::parse(text).unwrap_or_else(|| panic!("{text:?} is refused"));
        assert_eq!(found(url), parts, "{text:?}");
    }
}

#[test]
fn d13_what_go_cannot_parse_is_no_url() {
    for text in REFUSED {
        assert_eq!(Url::parse(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_apart_or_refused(text in "(https?:)?[]\\[:/?#@%.0-9a-f\\PC]{0,24}") {
        let _ = Url::parse(&text);
    }

    #[test]
    fn a_plain_issuer_is_plain(host in "[a-z0-9]{1,9}(\\.[a-z]{1,9}){0,3}", port in "(:[0-9]{0,5})?", path in "(/[a-zA-Z0-9._~-]{0,9}){0,4}") {
        let parts = Url::parse(&format!("https://{host}{port}{path}")).map(found);
        prop_assert_eq!(parts.as_deref(), Some("sh---"));
    }
}
