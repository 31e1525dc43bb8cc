//! How long a response is fresh, how old it is, and whether it may be used (RFC 9111, sections 4 and 4.2; RFC 5861).

use std::time::{Duration, SystemTime};

use hermes_proto::fields::Fields;
use httpdate::parse_http_date;
use serde::{Deserialize, Serialize};

use crate::control::{Directives, LONGEST_SECONDS, delta_seconds, members};

/// When a response was asked for and came, by the clock of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchanged {
    /// The time when it came.
    pub(crate) response_time: SystemTime,
    /// The time that the origin took.
    pub(crate) delay: Duration,
}

/// The freshness of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Freshness {
    /// Seconds for which it is fresh.
    pub(crate) lifetime: u64,
    /// Seconds that it was old when it came.
    pub(crate) initial_age: u64,
    /// It is validated before each use: `no-cache`.
    always_validated: bool,
    /// It may be used when it is stale: nothing forbids it.
    may_be_stale: bool,
    /// Seconds after its lifetime in which it is used while it is validated.
    while_revalidate: u64,
    /// Seconds after its lifetime in which it is used if the origin fails.
    if_error: u64,
}

/// What a request asks of stored responses (section 5.2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    validated: bool,
    max_age: Option<u64>,
    min_fresh: u64,
    /// Seconds of staleness that it takes.
    max_stale: u64,
}

/// The use of a stored response for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// As it is.
    Now,
    /// As it is, and it is validated beside.
    WhileRevalidating,
    /// Only once it is validated.
    AfterValidation,
}

impl Freshness {
    /// That of a response that has just come.
    pub(crate) fn of(fields: &Fields, control: &Directives, exchanged: Exchanged) -> Self {
        // Section 5.2.2.10: s-maxage has the meaning of proxy-revalidate.
        let forbids_stale = [
            "must-revalidate",
            "proxy-revalidate",
            "s-maxage",
            "no-cache",
        ];
        let may_be_stale = !forbids_stale.iter().any(|name| control.has(name));
        let stale_for = |name| control.seconds(name).filter(|_| may_be_stale).unwrap_or(0);
        Self {
            lifetime: lifetime(fields, control),
            initial_age: initial_age(fields, exchanged),
            always_validated: control.has("no-cache"),
            may_be_stale,
            while_revalidate: stale_for("stale-while-revalidate"),
            if_error: stale_for("stale-if-error"),
        }
    }

    /// Its age after it was stored for this time (section 4.2.3).
    pub(crate) fn age(&self, resident: Duration) -> u64 {
        (self.initial_age + resident.as_secs()).min(LONGEST_SECONDS)
    }

    /// The same of a response that came so much earlier.
    pub(crate) fn older(self, by: Duration) -> Self {
        let initial_age = self.initial_age.saturating_add(by.as_secs());
        Self {
            initial_age: initial_age.min(LONGEST_SECONDS),
            ..self
        }
    }

    /// The same of a response whose age no one knows: it is validated before it is used.
    pub(crate) fn doubtful(self) -> Self {
        Self {
            lifetime: 0,
            may_be_stale: false,
            ..self
        }
    }

    /// Its use at this age.
    pub(crate) fn reuse(&self, age: u64, wish: Wish) -> Reuse {
        let is_too_old = wish.max_age.is_some_and(|most| age > most);
        if self.always_validated || wish.validated || is_too_old {
            return Reuse::AfterValidation;
        }

        // Section 4.2: it is fresh while its lifetime is greater than its age.
        if self.lifetime > age.saturating_add(wish.min_fresh) {
            return Reuse::Now;
        }
        let stale = age.saturating_sub(self.lifetime);
        let is_enough = wish.min_fresh == 0 && self.may_be_stale;
        match (is_enough, stale) {
            (true, stale) if stale < wish.max_stale => Reuse::Now,
            (true, stale) if stale < self.while_revalidate => Reuse::WhileRevalidating,
            _ => Reuse::AfterValidation,
        }
    }

    /// Whether it is used at this age because the origin fails (RFC 5861, section 4).
    pub(crate) fn serves_errors(&self, age: u64) -> bool {
        self.may_be_stale && age < self.lifetime.saturating_add(self.if_error)
    }

    /// Whether the origin has said for how long it is fresh, and that is not over.
    pub(crate) fn is_fresh(&self, age: u64) -> bool {
        self.lifetime > age
    }
}

impl Wish {
    /// That of a request with these directives.
    pub(crate) fn of(control: &Directives) -> Self {
        // Without an argument it takes any staleness (section 5.2.1.2).
        let max_stale = match control.has_bare("max-stale") {
            true => LONGEST_SECONDS,
            false => control.seconds("max-stale").unwrap_or(0),
        };
        Self {
            validated: control.has("no-cache"),
            max_age: control.seconds("max-age"),
            min_fresh: control.seconds("min-fresh").unwrap_or(0),
            max_stale,
        }
    }
}

/// Section 4.2.1, without heuristics: what the origin did not say is stale at once.
fn lifetime(fields: &Fields, control: &Directives) -> u64 {
    for directive in ["s-maxage", "max-age"] {
        if let Some(seconds) = control.seconds(directive) {
            return seconds;
        }
    }
    // RFC 9213, section 2.2: Expires counts no more than Cache-Control does.
    if control.is_targeted {
        return 0;
    }
    // A date that is none, or one of several, has passed (section 5.3).
    let (Some(expires), Some(date)) = (only_date(fields, "expires"), only_date(fields, "date"))
    else {
        return 0;
    };
    let lifetime = expires.duration_since(date).unwrap_or_default();
    lifetime.as_secs().min(LONGEST_SECONDS)
}

/// Section 4.2.3: the corrected initial age.
fn initial_age(fields: &Fields, exchanged: Exchanged) -> u64 {
    let date = only_date(fields, "date").unwrap_or(exchanged.response_time);
    let apparent = exchanged.response_time.duration_since(date);
    let apparent = apparent.unwrap_or_default().as_secs();

    let age = crate::control::joined(fields, "age");
    let first = members(&age).and_then(|members| members.first().copied().map(str::to_owned));
    let age = first.and_then(|age| delta_seconds(&age)).unwrap_or(0);
    let corrected = age.saturating_add(exchanged.delay.as_secs());
    apparent.max(corrected).min(LONGEST_SECONDS)
}

/// The date of a field that stands once.
pub(crate) fn only_date(fields: &Fields, name: &'static str) -> Option<SystemTime> {
    let mut values = fields.values(name);
    let value = values.next()?;
    let text = value.to_str().ok().filter(|_| values.next().is_none())?;
    parse_http_date(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use httpdate::fmt_http_date;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn at(seconds: i64) -> String {
        let now = SystemTime::UNIX_EPOCH + NOW;
        let moved = Duration::from_secs(seconds.unsigned_abs());
        fmt_http_date(if seconds < 0 {
            now - moved
        } else {
            now + moved
        })
    }

    fn fresh(lines: &[(&'static str, &str)]) -> Freshness {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let exchanged = Exchanged {
            response_time: SystemTime::UNIX_EPOCH + NOW,
            delay: Duration::ZERO,
        };
        Freshness::of(&fields, &Directives::of_response(&fields), exchanged)
    }

    fn wish(control: &str) -> Wish {
        let mut fields = Fields::new();
        fields.append("cache-control", HeaderValue::from_str(control).unwrap());
        Wish::of(&Directives::of_request(&fields))
    }

    #[test]
    fn section_4_2_1_s_maxage_counts_before_max_age_and_that_before_expires() {
        let all = [
            ("cache-control", "max-age=20, s-maxage=10"),
            ("date", &at(0)),
            ("expires", &at(30)),
        ];
        assert_eq!(fresh(&all).lifetime, 10);
        let two = [
            ("cache-control", "max-age=20"),
            ("date", &at(0)),
            ("expires", &at(30)),
        ];
        assert_eq!(fresh(&two).lifetime, 20);
        assert_eq!(fresh(&two[1..]).lifetime, 30);
    }

    #[test]
    fn section_5_3_an_invalid_or_repeated_expires_has_passed() {
        let date = at(0);
        for invalid in ["0", "-1", "tomorrow"] {
            assert_eq!(fresh(&[("date", &date), ("expires", invalid)]).lifetime, 0);
        }
        let later = at(60);
        assert_eq!(
            fresh(&[("date", &date), ("expires", &later), ("expires", &later)]).lifetime,
            0
        );
    }

    #[test]
    fn section_4_2_3_the_age_is_the_greatest_that_is_known() {
        assert_eq!(fresh(&[("date", &at(-7)), ("age", "3")]).initial_age, 7);
        assert_eq!(fresh(&[("date", &at(-7)), ("age", "30")]).initial_age, 30);
        assert_eq!(fresh(&[("date", &at(900))]).initial_age, 0);
        assert_eq!(fresh(&[("age", "5, 9")]).initial_age, 5);
        assert_eq!(fresh(&[("age", "young")]).initial_age, 0);
        assert_eq!(fresh(&[("age", "3")]).age(Duration::from_secs(4)), 7);
    }

    #[test]
    fn section_4_2_a_response_is_fresh_until_its_age_is_its_lifetime() {
        let response = fresh(&[("cache-control", "max-age=10")]);
        assert_eq!(response.reuse(9, Wish::default()), Reuse::Now);
        assert_eq!(response.reuse(10, Wish::default()), Reuse::AfterValidation);
    }

    #[test]
    fn section_5_2_1_a_request_asks_for_more_and_takes_less() {
        let response = fresh(&[("cache-control", "max-age=10")]);
        let cases = [
            ("max-age=3", 4, Reuse::AfterValidation),
            ("max-age=4", 4, Reuse::Now),
            ("min-fresh=6", 4, Reuse::AfterValidation),
            ("min-fresh=5", 4, Reuse::Now),
            ("no-cache", 0, Reuse::AfterValidation),
            ("max-stale=5", 14, Reuse::Now),
            ("max-stale=5", 15, Reuse::AfterValidation),
            ("max-stale", 90_000, Reuse::Now),
        ];
        for (control, age, reuse) in cases {
            assert_eq!(
                response.reuse(age, wish(control)),
                reuse,
                "{control} at {age}"
            );
        }
    }

    #[test]
    fn section_4_2_4_a_response_that_forbids_it_is_never_used_stale() {
        for control in [
            "must-revalidate",
            "proxy-revalidate",
            "no-cache",
            "s-maxage=1",
        ] {
            let control =
                format!("max-age=1, stale-if-error=99, stale-while-revalidate=99, {control}");
            let response = fresh(&[("cache-control", &control)]);
            assert_eq!(
                response.reuse(2, wish("max-stale")),
                Reuse::AfterValidation,
                "{control}"
            );
            assert!(!response.serves_errors(2), "{control}");
        }
    }

    #[test]
    fn section_5_2_2_4_no_cache_is_validated_while_it_is_fresh() {
        let response = fresh(&[("cache-control", "no-cache, max-age=10")]);
        assert_eq!(response.reuse(0, Wish::default()), Reuse::AfterValidation);
    }

    #[test]
    fn rfc_5861_a_stale_response_serves_for_the_time_that_the_origin_said() {
        let control = "max-age=10, stale-while-revalidate=5, stale-if-error=50";
        let response = fresh(&[("cache-control", control)]);
        assert_eq!(
            response.reuse(14, Wish::default()),
            Reuse::WhileRevalidating
        );
        assert_eq!(response.reuse(15, Wish::default()), Reuse::AfterValidation);
        assert!(response.serves_errors(59) && !response.serves_errors(60));
    }

    #[test]
    fn rfc_9213_expires_counts_nothing_beside_a_targeted_field() {
        let lines = [
            ("cdn-cache-control", "must-revalidate"),
            ("date", &at(0)),
            ("expires", &at(30)),
        ];
        assert_eq!(fresh(&lines).lifetime, 0);
    }
}
