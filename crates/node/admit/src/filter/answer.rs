//! The answer of an authorisation server: bytes to a decision, without input or output.

use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::FieldPattern;
use hermes_http::{AnswerFields, ResponseHead};
use hermes_plug::{Changes, Decision, Denial, Outcome, Verdict};
use hermes_proto::fields::names::CACHE_CONTROL;
use hermes_proto::fields::{FieldValue, Fields};
use hermes_proto::hop;
use hermes_rules::fields::{USER, is_reserved};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::undecided::Undecided;

/// Characters of a reason that a server gave: it goes into records and `Proxy-Status`.
#[doc(alias = "bound")]
const REASON: usize = 200;

/// Bytes of a user that a server named, as for users who authenticate.
#[doc(alias = "bound")]
const USER_LIMIT: usize = 256;

/// The decision of a server.
#[derive(Debug, Clone)]
pub struct Answer {
    pub decision: Decision,
    /// Why, in words.
    pub reason: String,
    /// How long that counts; `None` where the server does not say.
    pub(super) lasts: Option<Duration>,
}

impl Answer {
    /// The verdict, for which the filter took so long. It lasts as long as the answer says, or until the filter asks anew.
    pub(super) fn verdict(self, took: Option<Duration>, recheck: Option<Duration>) -> Verdict {
        let outcome = match &self.decision {
            Decision::Allow(_) => Outcome::Allowed,
            Decision::Deny(_) => Outcome::Denied,
        };

        Verdict {
            decision: self.decision,
            reason: self.reason,
            outcome,
            took,
            lasts: self.lasts.or(recheck),
            // Grace is for tunnels without a decision: this is one.
            grace: Duration::ZERO,
        }
    }
}

/// An answer; an error is one that decides nothing.
pub(super) type Answered = Result<Answer, Undecided>;

/// Seconds for which a server can let its answer count: a year, for times are added to it.
#[doc(alias = "bound")]
const LONGEST: u64 = 365 * 24 * 3600;

/// Reads the answer of an HTTP server: 200 allows, 5xx decides nothing, anything else is the client's answer.
pub fn http(head: ResponseHead, content: Bytes, owned: &[FieldPattern]) -> Answered {
    let status = head.status;
    if status == StatusCode::OK {
        let taken = head.fields.iter().filter(|(name, _)| is_owned(name, owned));
        let set = taken.collect();
        let decision = Decision::Allow(changes(owned, set, Fields::new())?);
        return Ok(Answer {
            decision,
            reason: "200".to_owned(),
            lasts: lasts(&head.fields),
        });
    }

    if status.is_server_error() {
        return Err(Undecided::status(status, "the server"));
    }
    let mut fields = head.fields;
    let lasts = None;

    // A connection field that cannot be read names nothing that could be kept.
    let _ = hop::strip(&mut fields);
    let kept = fields
        .iter()
        .filter(|(name, _)| !is_reserved(name.as_str()) || *name == "proxy-authenticate");
    let fields = kept.collect();
    let denial = Denial {
        status: denying(status),
        fields,
        content: Some(content),
    };

    Ok(Answer {
        decision: Decision::Deny(denial),
        reason: status.as_u16().to_string(),
        lasts,
    })
}

/// How long an answer counts (RFC 9111, 5.2.2): `max-age`, and no time at all where it must not be stored or used unasked.
fn lasts(fields: &Fields) -> Option<Duration> {
    let lines = fields
        .values(CACHE_CONTROL)
        .filter_map(|line| line.to_str().ok());
    let directives = lines
        .flat_map(|line| line.split(','))
        .map(|directive| directive.trim().to_ascii_lowercase());
    let mut lasts = None;

    for directive in directives {
        let seconds = directive
            .strip_prefix("max-age=")
            .and_then(|age| age.trim_matches('"').parse::<u64>().ok());
        let seconds = if directive == "no-store" || directive == "no-cache" {
            Some(0)
        } else {
            seconds
        };

        lasts = seconds
            .map(|seconds| lasts.map_or(seconds, |known: u64| known.min(seconds)))
            .or(lasts);
    }

    lasts.map(|seconds| Duration::from_secs(seconds.min(LONGEST)))
}

/// Reads the answer of OPA's data API: `result` is a truth value, or an object with `allow`. A decision that is undefined
/// denies, as OPA's own default would.
pub(super) fn opa(head: &ResponseHead, content: &[u8], owned: &[FieldPattern]) -> Answered {
    if head.status != StatusCode::OK {
        return Err(Undecided::status(head.status, "OPA"));
    }
    let answer: Value =
        serde_json::from_slice(content).map_err(|_| "OPA's answer is not JSON".to_owned())?;
    if !answer.is_object() {
        return Err("OPA's answer is not an object".into());
    }
    let owned = Owned {
        patterns: owned,
        others: Others::Ignored,
    };
    result(answer.get("result"), &owned)
}

/// The fields that an exchange takes over from who decides.
pub struct Owned<'a> {
    pub patterns: &'a [FieldPattern],
    pub others: Others,
}

/// The handling of fields that are not taken over.
pub(super) enum Others {
    /// A server may say more than this node asks for.
    Ignored,
    /// A field that a policy of this node sets in vain is a mistake in one of the two.
    Refused,
}

impl Owned<'_> {
    fn take(&self, mut fields: Fields) -> Result<Fields, String> {
        if let Others::Refused = self.others {
            let mut names = fields.names();
            if let Some(name) = names.find(|name| !is_owned(name, self.patterns)) {
                return Err(format!(
                    "the policy sets `{name}`, which `allow_fields` does not name"
                ));
            }
        }

        fields.retain(|name| is_owned(&name, self.patterns));
        Ok(fields)
    }

    /// The fields of these that an answer gets. Those that belong to the connection or to the proxy are not for others to set.
    pub fn answer(&self, mut given: AnswerFields) -> Result<AnswerFields, String> {
        if let Others::Refused = self.others {
            let mut names = given.each().into_iter().flat_map(Fields::names);
            if let Some(name) = names.find(|name| is_reserved(name)) {
                return Err(format!(
                    "the policy adds `{name}` to answers, which is the proxy's own"
                ));
            }
        }

        for fields in given.each_mut() {
            without_reserved(fields);
        }
        Ok(given)
    }

    /// The fields of these that are taken over, where that depends on present ones. Whose an exchange is does not.
    pub(super) fn conditional(&self, fields: Fields) -> Result<Fields, String> {
        let mut taken = self.take(fields)?;
        taken.remove(USER);
        Ok(taken)
    }

    /// Sets and appends the fields of these that are taken over.
    pub fn changes(&self, set: Fields, append: Fields) -> Result<Changes, String> {
        changes(self.patterns, self.take(set)?, self.take(append)?)
    }
}

/// Reads a result as OPA gives it.
pub(super) fn result(result: Option<&Value>, owned: &Owned<'_>) -> Answered {
    match result {
        Some(Value::Bool(true)) => {
            let decision = Decision::Allow(owned.changes(Fields::new(), Fields::new())?);
            Ok(Answer {
                decision,
                reason: yes(),
                lasts: None,
            })
        }
        Some(Value::Bool(false)) => denied(&Map::new(), "false"),
        None => denied(&Map::new(), "the decision is undefined"),
        Some(Value::Object(result)) => object(result, owned),
        _ => Err("OPA's result is neither a truth value nor an object".into()),
    }
}

pub fn denied(result: &Map<String, Value>, reason: &str) -> Answered {
    Ok(Answer {
        decision: deny(result)?,
        reason: reason.to_owned(),
        lasts: None,
    })
}

pub fn yes() -> String {
    "true".to_owned()
}

fn object(result: &Map<String, Value>, owned: &Owned<'_>) -> Answered {
    let reason = result.get("reason").and_then(Value::as_str);
    let reason: Option<String> = reason.map(|reason| {
        reason
            .chars()
            .filter(|letter| !letter.is_control())
            .take(REASON)
            .collect()
    });

    match result.get("allow") {
        Some(Value::Bool(true)) => {
            let set = fields(result, "fields")?;
            let append = fields(result, "append")?;
            let decision = Decision::Allow(owned.changes(set, append)?);
            Ok(Answer {
                decision,
                reason: reason.unwrap_or_else(yes),
                lasts: max_age(result)?,
            })
        }
        Some(Value::Bool(false)) => denied(result, reason.as_deref().unwrap_or("false")),
        _ => Err("OPA's result has no truth value `allow`".into()),
    }
}

/// `max_age`, in seconds.
fn max_age(result: &Map<String, Value>) -> Result<Option<Duration>, String> {
    let Some(given) = result.get("max_age") else {
        return Ok(None);
    };
    let seconds = given
        .as_f64()
        .filter(|seconds| *seconds >= 0.0)
        .ok_or("OPA's max_age is not a time in seconds")?;

    Ok(Some(Duration::from_secs_f64(seconds.min(LONGEST as f64))))
}

fn deny(result: &Map<String, Value>) -> Result<Decision, String> {
    let status = match result.get("status") {
        None => StatusCode::FORBIDDEN,
        Some(status) => {
            let code = status.as_u64().and_then(|code| u16::try_from(code).ok());
            denying(
                code.and_then(|code| StatusCode::from_u16(code).ok())
                    .ok_or("OPA's status is not valid")?,
            )
        }
    };

    let mut fields = fields(result, "fields")?;
    without_reserved(&mut fields);

    let content = result
        .get("body")
        .and_then(Value::as_str)
        .map(|body| Bytes::from(body.to_owned()));

    Ok(Decision::Deny(Denial {
        status,
        fields,
        content,
    }))
}

/// A denial never looks like success, never opens a tunnel, and has a status that there is (RFC 9110, 15).
pub(super) fn denying(status: StatusCode) -> StatusCode {
    let is_unknown = status.as_u16() >= 600;
    if status.is_informational() || status.is_success() || is_unknown {
        StatusCode::FORBIDDEN
    } else {
        status
    }
}

/// Without fields of the connection or of the proxy.
pub(super) fn without_reserved(fields: &mut Fields) {
    fields.retain(|name| !is_reserved(&name));
}

/// An object of names to a value, or to a list of values.
pub fn fields(result: &Map<String, Value>, key: &str) -> Result<Fields, String> {
    let mut fields = Fields::new();
    let Some(given) = result.get(key) else {
        return Ok(fields);
    };

    let given = given
        .as_object()
        .ok_or_else(|| format!("`{key}` is not an object"))?;
    for (name, values) in given {
        let name: HeaderName = name
            .parse()
            .map_err(|_| format!("`{key}` has a bad name"))?;
        let values = values
            .as_array()
            .map_or(std::slice::from_ref(values), Vec::as_slice);
        for value in values {
            let value = value
                .as_str()
                .and_then(|value| HeaderValue::from_str(value).ok());
            let value = value.ok_or_else(|| format!("`{key}`: {name} is not a field value"))?;
            fields.append(&name, value);
        }
    }

    Ok(fields)
}

fn is_owned(name: &str, owned: &[FieldPattern]) -> bool {
    !is_reserved(name) && owned.iter().any(|pattern| pattern.matches(name))
}

/// Changes by a server: its own fields have the values that it gives, and no others.
pub fn changes(owned: &[FieldPattern], set: Fields, append: Fields) -> Result<Changes, String> {
    let mut users = set.values(USER).chain(append.values(USER));
    let is_name = |user: FieldValue<'_>| {
        let user = user.as_bytes();
        !user.is_empty()
            && user.len() <= USER_LIMIT
            && std::str::from_utf8(user).is_ok()
            && !user.contains(&b'\t')
    };

    match (users.next(), users.next()) {
        (None, _) => {}
        (Some(user), None) if is_name(user) && set.contains_key(USER) => {}
        _ => return Err("the server names no usable user".to_owned()),
    }

    Ok(Changes {
        remove: owned.to_vec(),
        set,
        append,
        ..Changes::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned() -> Vec<FieldPattern> {
        ["x-role", "user"]
            .iter()
            .map(|name| name.parse().unwrap())
            .collect()
    }

    fn head(status: u16, fields: &[(&'static str, &'static str)]) -> ResponseHead {
        let mut head = ResponseHead::new(StatusCode::from_u16(status).unwrap());
        for (name, value) in fields {
            head.fields.append(*name, HeaderValue::from_static(value));
        }
        head
    }

    fn opa_says(answer: &Value) -> Answered {
        opa(&head(200, &[]), answer.to_string().as_bytes(), &owned())
    }

    #[test]
    fn only_200_allows_and_only_listed_fields_are_taken() {
        let fields = [
            ("x-role", "admin"),
            ("x-other", "1"),
            ("connection", "close"),
            ("user", "bob"),
        ];
        let Decision::Allow(changes) = http(head(200, &fields), Bytes::new(), &owned())
            .unwrap()
            .decision
        else {
            panic!()
        };
        assert_eq!(changes.set.len(), 2);
        assert_eq!(changes.set.get("x-role").unwrap(), "admin");
        assert_eq!(changes.set.get("user").unwrap(), "bob");
    }

    #[test]
    fn other_answers_are_for_the_client_but_never_look_like_success() {
        for (given, seen) in [(401, 401), (302, 302), (204, 403), (206, 403), (429, 429)] {
            let fields = [
                ("location", "/login"),
                ("content-length", "2"),
                ("connection", "x-a"),
                ("x-a", "1"),
            ];
            let answered = http(head(given, &fields), Bytes::from_static(b"no"), &owned());
            let Decision::Deny(denial) = answered.unwrap().decision else {
                panic!("{given}")
            };
            assert_eq!(denial.status.as_u16(), seen);
            assert_eq!(denial.fields.names().collect::<Vec<_>>(), ["location"]);
            assert_eq!(denial.content.as_deref(), Some(&b"no"[..]));
        }
        assert!(http(head(500, &[]), Bytes::new(), &owned()).is_err());
    }

    #[test]
    fn opa_allows_and_denies_in_short_and_at_length() {
        let said = |answer: &Value| opa_says(answer).unwrap();
        assert!(matches!(
            said(&json!({ "result": true })).decision,
            Decision::Allow(_)
        ));
        assert!(matches!(
            said(&json!({ "result": false })).decision,
            Decision::Deny(_)
        ));
        assert!(matches!(said(&json!({})).decision, Decision::Deny(_)));
        let fields = json!({ "x-role": ["a", "b"], "x-no": "1" });
        let long = said(
            &json!({ "result": { "allow": true, "fields": fields, "reason": "so\n", "max_age": 2.5 } }),
        );
        let Decision::Allow(changes) = long.decision else {
            panic!()
        };
        let lasts = Some(Duration::from_millis(2500));
        assert_eq!(
            (changes.set.len(), long.reason.as_str(), long.lasts),
            (2, "so", lasts)
        );
        let long = json!({ "result": { "allow": false, "status": 402, "fields": { "x-pay": "1" }, "body": "pay" } });
        let Decision::Deny(denial) = said(&long).decision else {
            panic!()
        };
        assert_eq!(
            (
                denial.status.as_u16(),
                denial.fields.len(),
                denial.content.as_deref()
            ),
            (402, 1, Some(&b"pay"[..]))
        );
    }

    #[test]
    fn an_answer_counts_for_as_long_as_it_says() {
        let lasts = |control: &'static str| {
            http(
                head(200, &[("cache-control", control)]),
                Bytes::new(),
                &owned(),
            )
            .unwrap()
            .lasts
            .map(|lasts| lasts.as_secs())
        };
        let cases = [
            ("max-age=60", Some(60)),
            ("private, Max-Age=\"5\"", Some(5)),
            ("max-age=60, no-store", Some(0)),
            ("no-cache", Some(0)),
            ("max-age=99999999999", Some(LONGEST)),
            ("max-age=-1", None),
            ("private", None),
        ];
        for (control, seconds) in cases {
            assert_eq!(lasts(control), seconds, "{control}");
        }
        assert!(
            http(head(200, &[]), Bytes::new(), &owned())
                .unwrap()
                .lasts
                .is_none()
        );
    }

    #[test]
    fn an_answer_that_is_not_understood_decides_nothing() {
        for answer in [
            json!([]),
            json!({ "result": 1 }),
            json!({ "result": null }),
            json!({ "result": { "allow": "yes" } }),
            json!({ "result": {} }),
            json!({ "result": { "allow": true, "fields": { "x-role": 1 } } }),
            json!({ "result": { "allow": true, "fields": { "x-role": "a\r\nb: c" } } }),
            json!({ "result": { "allow": true, "fields": { "user": "" } } }),
            json!({ "result": { "allow": true, "fields": { "user": ["a", "b"] } } }),
            json!({ "result": { "allow": true, "append": { "user": "a" } } }),
            json!({ "result": { "allow": false, "status": 1 } }),
            json!({ "result": { "allow": true, "max_age": -1 } }),
            json!({ "result": { "allow": true, "max_age": "1" } }),
        ] {
            assert!(opa_says(&answer).is_err(), "{answer}");
        }
        assert!(
            opa(&head(200, &[]), b"{", &owned()).is_err()
                && opa(&head(404, &[]), b"{}", &owned()).is_err()
        );
    }
}
