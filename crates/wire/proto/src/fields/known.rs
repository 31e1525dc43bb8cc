//! Names that are frequent, or that a proxy must know: each has a number, and kinds that are asked for at every hop.

/// The number of a known name; 0 stands for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameId(u8);

/// How many numbers there are.
pub(crate) const KNOWN: usize = NAMES.len();

/// The classes of a field name, as bits of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    /// No class.
    pub(crate) const NONE: Self = Self(0);
    /// The field ends at this hop (RFC 9110, 7.6.1).
    pub(crate) const HOP: Self = Self(1);
    /// The field must reach the other end, even if `Connection` lists it.
    pub(crate) const END: Self = Self(2);
    /// The field frames a message of HTTP/1.1, or is `Host`: codecs write it themselves.
    pub(crate) const FRAMING: Self = Self(4);
    /// The field belongs to a connection of HTTP/1.1 (RFC 9113, 8.2.2; RFC 9114, 4.2).
    pub(crate) const CONNECTION: Self = Self(8);
    /// An attacker must not be able to guess the value byte by byte (RFC 7541, 7.1.3; RFC 9204,
    /// 7.1.3).
    pub(crate) const SECRET: Self = Self(16);
    /// The field is `TE`, of which only `trailers` goes on.
    pub(crate) const TE: Self = Self(32);

    /// The union of two classes.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl NameId {
    /// The number that stands for every name that is not known.
    pub(crate) const OTHER: Self = Self(0);

    /// `host`
    pub(crate) const HOST: Self = Self::known("host");

    /// The number of a name in lower case.
    pub(crate) fn of(name: &[u8]) -> Self {
        if name.is_empty() {
            return Self::OTHER;
        }
        let mut slot = hash(name);
        loop {
            let id = SLOTS[slot];
            if id == 0 || NAMES[usize::from(id)].0.as_bytes() == name {
                return Self(id);
            }
            slot = (slot + 1) % SLOTS.len();
        }
    }

    /// The number of a name that is among the known ones, while the program is built.
    pub(super) const fn known(name: &str) -> Self {
        let mut id = 1;
        while !is_same(NAMES[id].0.as_bytes(), name.as_bytes()) {
            id += 1;
        }
        Self(id as u8)
    }

    /// Its name; empty for [`Self::OTHER`].
    pub(crate) fn as_str(self) -> &'static str {
        NAMES[self.index()].0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether its name is of this class. No name that is not known is of any.
    pub(crate) fn is(self, class: Class) -> bool {
        NAMES[usize::from(self.0)].1.has(class)
    }
}

const HOP_AND_CONNECTION: Class = Class::HOP.and(Class::CONNECTION);
const END_AND_SECRET: Class = Class::END.and(Class::SECRET);
const END_AND_FRAMING: Class = Class::END.and(Class::FRAMING);

/// All known names; the first stands for the others.
const NAMES: [(&str, Class); 96] = [
    ("", Class::NONE),
    ("accept", Class::END),
    ("accept-charset", Class::NONE),
    ("accept-encoding", Class::END),
    ("accept-language", Class::NONE),
    ("accept-ranges", Class::NONE),
    ("access-control-allow-credentials", Class::NONE),
    ("access-control-allow-headers", Class::NONE),
    ("access-control-allow-methods", Class::NONE),
    ("access-control-allow-origin", Class::NONE),
    ("access-control-expose-headers", Class::NONE),
    ("access-control-request-headers", Class::NONE),
    ("access-control-request-method", Class::NONE),
    ("age", Class::END),
    ("allow", Class::NONE),
    ("alt-svc", Class::NONE),
    ("authorization", END_AND_SECRET),
    ("cache-control", Class::END),
    ("capsule-protocol", Class::END),
    ("client-cert", Class::END),
    ("client-cert-chain", Class::END),
    ("connection", HOP_AND_CONNECTION),
    ("content-disposition", Class::NONE),
    ("content-encoding", Class::NONE),
    ("content-language", Class::NONE),
    ("content-length", END_AND_FRAMING),
    ("content-location", Class::NONE),
    ("content-range", Class::NONE),
    ("content-security-policy", Class::NONE),
    ("content-type", Class::NONE),
    ("cookie", END_AND_SECRET),
    ("date", Class::END),
    ("dnt", Class::NONE),
    ("early-data", Class::NONE),
    ("etag", Class::END),
    ("expect", Class::END),
    ("expect-ct", Class::NONE),
    ("expires", Class::END),
    ("forwarded", Class::END),
    ("from", Class::NONE),
    ("host", END_AND_FRAMING),
    ("http2-settings", Class::HOP),
    ("if-match", Class::END),
    ("if-modified-since", Class::NONE),
    ("if-none-match", Class::END),
    ("if-range", Class::NONE),
    ("if-unmodified-since", Class::NONE),
    ("keep-alive", HOP_AND_CONNECTION),
    ("last-modified", Class::NONE),
    ("link", Class::NONE),
    ("location", Class::END),
    ("max-forwards", Class::END),
    ("origin", Class::END),
    ("pragma", Class::END),
    ("priority", Class::NONE),
    ("proxy-authenticate", Class::END),
    ("proxy-authorization", END_AND_SECRET),
    ("proxy-connection", HOP_AND_CONNECTION),
    ("proxy-status", Class::END),
    ("purpose", Class::NONE),
    ("range", Class::END),
    ("referer", Class::NONE),
    ("refresh", Class::NONE),
    ("retry-after", Class::NONE),
    ("sec-fetch-dest", Class::NONE),
    ("sec-fetch-mode", Class::NONE),
    ("sec-fetch-site", Class::NONE),
    ("sec-websocket-accept", Class::NONE),
    ("sec-websocket-extensions", Class::NONE),
    ("sec-websocket-key", Class::NONE),
    ("sec-websocket-protocol", Class::NONE),
    ("sec-websocket-version", Class::NONE),
    ("server", Class::NONE),
    ("set-cookie", END_AND_SECRET),
    ("strict-transport-security", Class::NONE),
    ("te", Class::TE),
    ("timing-allow-origin", Class::NONE),
    ("traceparent", Class::NONE),
    ("tracestate", Class::NONE),
    ("trailer", Class::NONE),
    ("transfer-encoding", HOP_AND_CONNECTION.and(Class::FRAMING)),
    ("upgrade", HOP_AND_CONNECTION),
    ("upgrade-insecure-requests", Class::NONE),
    ("user", Class::NONE),
    ("user-agent", Class::NONE),
    ("vary", Class::END),
    ("via", Class::END),
    ("warning", Class::NONE),
    ("www-authenticate", Class::NONE),
    ("x-content-type-options", Class::NONE),
    ("x-forwarded-for", Class::NONE),
    ("x-forwarded-host", Class::NONE),
    ("x-forwarded-proto", Class::NONE),
    ("x-frame-options", Class::NONE),
    ("x-request-id", Class::NONE),
    ("x-xss-protection", Class::NONE),
];

/// Where each name is found: at its hash, or in one of the places behind it. Four times as many places as names, so that few are
/// looked at.
const SLOTS: [u8; 512] = {
    let mut slots = [0; 512];
    let mut id = 1;
    while id < NAMES.len() {
        let mut slot = hash(NAMES[id].0.as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = id as u8;
        id += 1;
    }
    slots
};

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len()
}

/// A place in the table, of the length and three bytes of a name: names that share all four are few.
const fn hash(name: &[u8]) -> usize {
    let first = name[0] as usize;
    let middle = name[name.len() / 2] as usize;
    let last = name[name.len() - 1] as usize;
    (name.len() * 67 + first * 31 + middle * 151 + last * 7) % 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_and_no_other() {
        for (id, (name, _)) in NAMES.iter().enumerate() {
            assert_eq!(usize::from(NameId::of(name.as_bytes()).0), id, "{name}");
            let longer = format!("{name}x");
            assert_eq!(NameId::of(longer.as_bytes()), NameId::OTHER, "{longer}");
        }
    }

    #[test]
    fn few_places_are_looked_at() {
        let steps = |name: &str| {
            let found = NameId::of(name.as_bytes()).0;
            let home = hash(name.as_bytes());
            let away = (0..).find(|step| SLOTS[(home + step) % SLOTS.len()] == found);
            away.unwrap()
        };
        let most = NAMES[1..].iter().map(|(name, _)| steps(name)).max();
        assert!(most < Some(8), "{most:?}");
    }

    #[test]
    fn classes_are_those_of_the_names() {
        let is = |name: &str, class| NameId::of(name.as_bytes()).is(class);
        assert!(is("transfer-encoding", Class::HOP) && is("transfer-encoding", Class::FRAMING));
        assert!(is("cookie", Class::SECRET) && !is("cookie", Class::HOP));
        assert!(!is("x-unknown", Class::END));
    }
}
