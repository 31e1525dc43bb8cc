//! The static table (RFC 9204, appendix A).

use crate::fields::LineName;

/// Names and values, by index.
#[rustfmt::skip]
pub(super) const ENTRIES: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// The names of the entries.
pub(super) static NAMES: [LineName<'static>; ENTRIES.len()] = LineName::of_table(&ENTRIES);

/// No entry.
const NONE: u8 = u8::MAX;

/// Which entries have the same name.
struct SameName {
    /// The first one of each name, by its number.
    first: [u8; LineName::NUMBERS],
    /// The one behind each entry.
    next: [u8; ENTRIES.len()],
}

static SAME_NAME: SameName = {
    let names = LineName::of_table(&ENTRIES);
    let mut same = SameName {
        first: [NONE; LineName::NUMBERS],
        next: [NONE; ENTRIES.len()],
    };

    let mut index = ENTRIES.len();
    while index > 0 {
        index -= 1;
        if let Some(number) = names[index].number() {
            same.next[index] = same.first[number];
            same.first[number] = index as u8;
        }
    }
    same
};

/// The match of a field line in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    /// Name and value.
    Both(u64),
    /// The name.
    Name(u64),
    /// Nothing.
    Neither,
}

/// Looks a field line up.
pub(super) fn find(name: LineName<'_>, value: &[u8]) -> Match {
    let first = name.number().map_or(NONE, |number| SAME_NAME.first[number]);
    if first == NONE {
        return Match::Neither;
    }

    let mut index = first;
    while index != NONE {
        if ENTRIES[usize::from(index)].1.as_bytes() == value {
            return Match::Both(index.into());
        }
        index = SAME_NAME.next[usize::from(index)];
    }
    Match::Name(first.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &[u8], value: &[u8]) -> Match {
        super::find(LineName::parse(name), value)
    }

    #[test]
    fn finds_every_entry_and_every_name() {
        for (index, (name, value)) in ENTRIES.iter().enumerate() {
            assert_eq!(
                find(name.as_bytes(), value.as_bytes()),
                Match::Both(index as u64)
            );
            let Match::Name(found) = find(name.as_bytes(), b"another value") else {
                panic!("{name}")
            };
            assert_eq!(ENTRIES[found as usize].0, *name);
            assert_eq!(NAMES[index].as_bytes(), name.as_bytes());
        }
        for name in ["", ":", ":protocol", "zzz", "accept-"] {
            assert_eq!(find(name.as_bytes(), b""), Match::Neither, "{name}");
        }
    }

    #[test]
    fn has_the_indexes_of_appendix_a() {
        let places = [
            (0, ":authority"),
            (15, ":method"),
            (24, ":status"),
            (63, ":status"),
            (86, "early-data"),
            (98, "x-frame-options"),
        ];
        for (index, name) in places {
            assert_eq!(ENTRIES[index].0, name);
        }
    }
}
