//! The static table (RFC 7541, appendix A).

use crate::fields::LineName;

/// Names and values; the first has index 1.
#[rustfmt::skip]
pub(super) const ENTRIES: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The names of the entries.
pub(super) static NAMES: [LineName<'static>; ENTRIES.len()] = LineName::of_table(&ENTRIES);

/// The index of the first entry of each name, by its number; 0 if it has no entry.
static FIRST: [u8; LineName::NUMBERS] = {
    let names = LineName::of_table(&ENTRIES);
    let mut first = [0; LineName::NUMBERS];
    let mut index = ENTRIES.len();
    while index > 0 {
        if let Some(number) = names[index - 1].number() {
            first[number] = index as u8;
        }
        index -= 1;
    }
    first
};

/// The index of the first entry with this name.
pub(super) fn find_name(name: LineName<'_>) -> Option<usize> {
    let first = FIRST[name.number()?];
    (first != 0).then_some(first.into())
}

/// The index of the entry with this value, among those with the name of `first`.
pub(super) fn find_value(first: usize, value: &[u8]) -> Option<usize> {
    let name = ENTRIES[first - 1].0;
    let same = ENTRIES[first - 1..]
        .iter()
        .take_while(|entry| entry.0 == name);
    let found = same
        .enumerate()
        .find(|(_, entry)| entry.1.as_bytes() == value);

    found.map(|(offset, _)| first + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_entry_and_every_name() {
        for (at, (name, value)) in ENTRIES.iter().enumerate() {
            let first = find_name(LineName::parse(name.as_bytes())).unwrap();
            assert_eq!(ENTRIES[first - 1].0, *name);
            assert_eq!(find_value(first, value.as_bytes()), Some(at + 1));
            assert_eq!(find_value(first, b"another value"), None);
        }
        for name in ["", ":protocol", "zzz", "access-control-allow-origin-x"] {
            assert_eq!(find_name(LineName::parse(name.as_bytes())), None, "{name}");
        }
    }

    #[test]
    fn has_the_indexes_of_appendix_a() {
        for (index, name) in [
            (1, ":authority"),
            (8, ":status"),
            (32, "cookie"),
            (61, "www-authenticate"),
        ] {
            assert_eq!(ENTRIES[index - 1].0, name);
        }
    }
}
