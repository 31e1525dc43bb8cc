//! The words of an answer about the bounds of its origin.
//!
//! `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10), the three fields of its drafts before 07, the usual
//! `X-RateLimit-*`, and `Retry-After` (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use hermes_proto::fields::Fields;
use sfv::{BareItem, Item, List, ListEntry, Parser};

/// The longest time that an origin is believed: an answer must not end its own use for ever.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Numbers above this are seconds since 1970, and not from now on.
const EPOCH: u64 = 1_000_000_000;

/// Three fields that tell the same.
struct OlderNames {
    left: &'static str,
    resets: &'static str,
    quota: &'static str,
}

const OLDER: [OlderNames; 3] = [
    OlderNames {
        left: "ratelimit-remaining",
        resets: "ratelimit-reset",
        quota: "ratelimit-limit",
    },
    OlderNames {
        left: "x-ratelimit-remaining",
        resets: "x-ratelimit-reset",
        quota: "x-ratelimit-limit",
    },
    OlderNames {
        left: "x-rate-limit-remaining",
        resets: "x-rate-limit-reset",
        quota: "x-rate-limit-limit",
    },
];

/// The bounds that an answer tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// No request is wanted for so long.
    pub(crate) retry_after: Option<Duration>,
    /// Requests that are left.
    pub(crate) left: Option<u64>,
    /// When there are more again.
    pub(crate) resets_in: Option<Duration>,
    /// Requests of a whole window.
    pub(crate) quota: Option<u64>,
    /// The window.
    pub(crate) window: Option<Duration>,
}

impl Told {
    /// The words of an answer, which came at this time.
    pub(crate) fn of(fields: &Fields, now: SystemTime) -> Self {
        let told = Self {
            retry_after: retry_after(fields, now),
            ..Self::default()
        };
        let policies = items(fields, "ratelimit-policy");
        let limits = items(fields, "ratelimit");
        // Of several limits, the one that is used up first.
        let tightest = limits.iter().min_by_key(|limit| number(limit, "r"));
        if let Some(limit) = tightest {
            let policy = policies
                .iter()
                .find(|policy| policy.bare_item == limit.bare_item);
            return Self {
                left: number(limit, "r"),
                resets_in: number(limit, "t").map(seconds),
                quota: policy.and_then(|policy| number(policy, "q")),
                window: policy.and_then(|policy| number(policy, "w")).map(seconds),
                ..told
            };
        }
        for names in OLDER {
            if let Some(left) = first_number(fields, names.left) {
                let reset = first_number(fields, names.resets);
                return Self {
                    left: Some(left),
                    resets_in: reset.map(|reset| until(reset, now)),
                    quota: first_number(fields, names.quota),
                    ..told
                };
            }
        }
        told
    }

    /// With times that are believed.
    pub(crate) fn bounded(self) -> Self {
        let believed = |time: Option<Duration>| time.map(|time| time.min(LONGEST));
        Self {
            retry_after: believed(self.retry_after),
            resets_in: believed(self.resets_in),
            window: believed(self.window),
            ..self
        }
    }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number).min(LONGEST)
}

/// A time of reset: in seconds from now on, or since 1970.
fn until(reset: u64, now: SystemTime) -> Duration {
    if reset < EPOCH {
        return seconds(reset);
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(reset.min(u64::from(u32::MAX)));
    at.duration_since(now).unwrap_or_default().min(LONGEST)
}

fn retry_after(fields: &Fields, now: SystemTime) -> Option<Duration> {
    let text = fields.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(number) = text.parse() {
        return Some(seconds(number));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default().min(LONGEST))
}

/// The members of a list about requests: policies about bytes, or other units, say nothing here.
fn items(fields: &Fields, name: &'static str) -> Vec<Item> {
    let mut lines = fields.values(name);
    let Some(first) = lines.next() else {
        return Vec::new();
    };
    let joined = lines.fold(first.as_bytes().to_vec(), |mut joined, line| {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line.as_bytes());
        joined
    });
    let Ok(list) = Parser::new(&joined).parse::<List>() else {
        return Vec::new();
    };
    let items = list.into_iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    });
    let is_of_requests = |item: &Item| match item.params.get("qu") {
        Some(BareItem::String(unit)) => unit.as_str() == "requests",
        Some(_) => false,
        None => true,
    };
    items.filter(is_of_requests).collect()
}

fn number(item: &Item, parameter: &str) -> Option<u64> {
    match item.params.get(parameter)? {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    }
}

/// The number at the beginning of a field, as in `40, 40;w=60`.
fn first_number(fields: &Fields, name: &'static str) -> Option<u64> {
    let text = fields.get(name)?.to_str().ok()?;
    let digits = text.trim().split(|byte: char| !byte.is_ascii_digit());
    digits.into_iter().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn told(lines: &[(&'static str, &str)]) -> Told {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(
                HeaderName::from_static(name),
                HeaderValue::try_from(*value).unwrap(),
            );
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Told::of(&fields, now)
    }

    #[test]
    fn the_limit_that_is_used_up_first_counts_with_its_own_policy() {
        let told = told(&[
            (
                "ratelimit-policy",
                "\"hour\";q=1000;w=3600, \"minute\";q=40;w=60",
            ),
            ("ratelimit", "\"hour\";r=700;t=1800"),
            ("ratelimit", "\"minute\";r=3;t=17"),
        ]);
        assert_eq!(told.left, Some(3));
        assert_eq!(told.resets_in, Some(Duration::from_secs(17)));
        assert_eq!(told.quota, Some(40));
        assert_eq!(told.window, Some(Duration::from_secs(60)));
    }

    #[test]
    fn limits_of_other_units_are_no_limits_of_requests() {
        let told = told(&[("ratelimit", "\"bytes\";r=0;t=9;qu=\"content-bytes\"")]);
        assert_eq!(told, Told::default());
    }

    #[test]
    fn older_fields_are_read_with_resets_from_now_on_and_since_1970() {
        let of_draft = told(&[
            ("ratelimit-limit", "40, 40;w=60"),
            ("ratelimit-remaining", "12"),
            ("ratelimit-reset", "30"),
        ]);
        assert_eq!((of_draft.left, of_draft.quota), (Some(12), Some(40)));
        assert_eq!(of_draft.resets_in, Some(Duration::from_secs(30)));
        let usual = told(&[
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1800000042"),
        ]);
        assert_eq!(usual.resets_in, Some(Duration::from_secs(42)));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_never_longer_than_a_day() {
        let of = |text: &str| told(&[("retry-after", text)]).retry_after;
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("99999999999"), Some(LONGEST));
        assert_eq!(
            of("Fri, 15 Jan 2027 08:00:30 GMT"),
            Some(Duration::from_secs(30))
        );
        assert_eq!(of("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(of("soon"), None);
    }

    #[test]
    fn fields_that_are_no_lists_say_nothing() {
        for wrong in ["", ";;;", "\"a\";r=-4", "\"a\";r=\"5\"", "(1 2);r=4"] {
            let told = told(&[("ratelimit", wrong)]);
            assert_eq!(told.left, None, "{wrong}");
        }
    }
}
