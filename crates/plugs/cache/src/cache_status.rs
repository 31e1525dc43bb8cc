//! `Cache-Status`: how the cache handled a request (RFC 9211).

use std::fmt::Write as _;

use hermes_proto::fields::Fields;
use http::{HeaderValue, StatusCode};

/// Why a request went forward (RFC 9211, section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarded {
    /// It is none that a cache answers.
    Bypass,
    /// Its method is none that a cache answers.
    Method,
    /// No response of this resource is stored, or none that fits.
    Miss,
    /// It asks for a part, and the whole is not stored; or only a part of what it asks for is.
    Partial,
    /// The stored response is stale, or has to be validated.
    Stale,
}

impl Forwarded {
    fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::Miss => "miss",
            Self::Partial => "partial",
            Self::Stale => "stale",
        }
    }
}

/// How a request was handled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheStatus {
    /// `None`: it was not, a hit.
    pub(crate) forwarded: Option<Forwarded>,
    /// The status of the next hop, where it differs from that of the answer.
    pub(crate) forwarded_status: Option<StatusCode>,
    /// Seconds for which the response is still fresh, fewer than none where it is stale.
    pub(crate) ttl: Option<i64>,
    /// The answer is being stored.
    pub(crate) stored: bool,
    /// It waited for the answer to another request.
    pub(crate) collapsed: bool,
    /// Why the answer is not stored.
    pub(crate) detail: Option<&'static str>,
}

impl CacheStatus {
    /// Adds it behind the members of caches nearer to the origin (section 2).
    pub(crate) fn append(self, fields: &mut Fields) {
        let mut text = String::from("hermes");
        match self.forwarded {
            None => text.push_str("; hit"),
            Some(forwarded) => {
                let _ = write!(text, "; fwd={}", forwarded.token());
            }
        }
        if let Some(status) = self.forwarded_status {
            let _ = write!(text, "; fwd-status={}", status.as_u16());
        }
        if let Some(ttl) = self.ttl {
            let _ = write!(text, "; ttl={ttl}");
        }
        if self.stored {
            text.push_str("; stored");
        }
        if self.collapsed {
            text.push_str("; collapsed");
        }
        if let Some(detail) = self.detail {
            let _ = write!(text, "; detail=\"{detail}\"");
        }
        if let Ok(value) = HeaderValue::try_from(text) {
            fields.append("cache-status", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::joined;

    #[test]
    fn rfc_9211_section_2_a_cache_adds_itself_behind_the_others() {
        let mut fields = Fields::new();
        fields.append("cache-status", HeaderValue::from_static("origin; hit"));
        let status = CacheStatus {
            forwarded: Some(Forwarded::Stale),
            forwarded_status: Some(StatusCode::NOT_MODIFIED),
            ttl: Some(-3),
            ..CacheStatus::default()
        };
        status.append(&mut fields);
        assert_eq!(
            joined(&fields, "cache-status"),
            "origin; hit,hermes; fwd=stale; fwd-status=304; ttl=-3"
        );
    }
}
