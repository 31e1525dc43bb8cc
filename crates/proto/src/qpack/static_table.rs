//! The static table (RFC 9204, appendix A).

use std::sync::LazyLock;

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

/// Indexes in the order of the names, for the search.
static BY_NAME: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut indexes: Vec<u8> = (0..ENTRIES.len() as u8).collect();
    indexes.sort_by_key(|&index| place(ENTRIES[usize::from(index)].0.as_bytes()));
    indexes
});

/// Where a name stands in [`BY_NAME`]: by its length first, which tells most names apart.
fn place(name: &[u8]) -> (usize, &[u8]) {
    (name.len(), name)
}

/// What the table has of a field line.
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
pub(super) fn find(name: &[u8], value: &[u8]) -> Match {
    let first = BY_NAME
        .partition_point(|&index| place(ENTRIES[usize::from(index)].0.as_bytes()) < place(name));
    let same_name = |index: &&u8| ENTRIES[usize::from(**index)].0.as_bytes() == name;
    let mut entries = BY_NAME[first..].iter().take_while(same_name);
    let Some(&named) = entries.clone().next() else {
        return Match::Neither;
    };
    let whole = entries.find(|&&index| ENTRIES[usize::from(index)].1.as_bytes() == value);
    whole.map_or(Match::Name(u64::from(named)), |&index| {
        Match::Both(u64::from(index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
