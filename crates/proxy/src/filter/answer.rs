//! What an authorisation server answered: bytes to a decision, without input or output.

use bytes::Bytes;
use hermes_config::model::FieldPattern;
use hermes_http::ResponseHead;
use hermes_proto::hop;
use hermes_rules::fields::{USER, is_reserved};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::{Changes, Decision, Denial};

/// Characters of a reason that a server gave; they go into records and `Proxy-Status`.
const REASON: usize = 200;

/// Bytes of a user that a server named, as for users who authenticate.
const USER_LIMIT: usize = 256;

/// A decision and the reason for it; an error is an answer that decides nothing.
pub(super) type Answered = Result<(Decision, String), String>;

/// Reads the answer of an HTTP server: 200 allows, 5xx decides nothing, anything else is the client's answer.
pub(super) fn http(head: ResponseHead, content: Bytes, owned: &[FieldPattern]) -> Answered {
    let status = head.status;
    if status == StatusCode::OK {
        let taken = head.fields.iter().filter(|(name, _)| is_owned(name, owned));
        let set = taken.map(|(name, value)| (name.clone(), value.clone())).collect();
        return Ok((Decision::Allow(changes(owned, set, HeaderMap::new())?), "200".to_owned()));
    }
    if status.is_server_error() {
        return Err(format!("the server answered {}", status.as_u16()));
    }
    let mut fields = head.fields;
    // A connection field that cannot be read names nothing that could be kept.
    let _ = hop::strip(&mut fields);
    let kept = fields.iter().filter(|(name, _)| !is_reserved(name.as_str()) || *name == "proxy-authenticate");
    let fields = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    let denial = Denial { status: denying(status), fields, content: Some(content) };
    Ok((Decision::Deny(denial), status.as_u16().to_string()))
}

/// Reads the answer of OPA's data API: `result` is a truth value, or an object with `allow`. A decision that is undefined
/// denies, as OPA's own default would.
pub(super) fn opa(head: &ResponseHead, content: &[u8], owned: &[FieldPattern]) -> Answered {
    if head.status != StatusCode::OK {
        return Err(format!("OPA answered {}", head.status.as_u16()));
    }
    let answer: Value = serde_json::from_slice(content).map_err(|_| "OPA's answer is no JSON".to_owned())?;
    match answer.get("result") {
        Some(Value::Bool(true)) => Ok((Decision::Allow(changes(owned, HeaderMap::new(), HeaderMap::new())?), yes())),
        Some(Value::Bool(false)) => Ok((deny(&Map::new())?, "false".to_owned())),
        None if answer.is_object() => Ok((deny(&Map::new())?, "the decision is undefined".to_owned())),
        Some(Value::Object(result)) => object(result, owned),
        _ => Err("OPA's result is neither a truth value nor an object".to_owned()),
    }
}

fn yes() -> String {
    "true".to_owned()
}

fn object(result: &Map<String, Value>, owned: &[FieldPattern]) -> Answered {
    let reason = result.get("reason").and_then(Value::as_str);
    let reason = reason.map(|reason| reason.chars().filter(|letter| !letter.is_control()).take(REASON).collect());
    match result.get("allow") {
        Some(Value::Bool(true)) => {
            let taken = |key| Ok::<_, String>(only(fields(result, key)?, owned));
            let changes = changes(owned, taken("fields")?, taken("append")?)?;
            Ok((Decision::Allow(changes), reason.unwrap_or_else(yes)))
        }
        Some(Value::Bool(false)) => Ok((deny(result)?, reason.unwrap_or_else(|| "false".to_owned()))),
        _ => Err("OPA's result has no truth value `allow`".to_owned()),
    }
}

fn deny(result: &Map<String, Value>) -> Result<Decision, String> {
    let status = match result.get("status") {
        None => StatusCode::FORBIDDEN,
        Some(status) => {
            let code = status.as_u64().and_then(|code| u16::try_from(code).ok());
            denying(code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("OPA's status is no status")?)
        }
    };
    let mut fields = fields(result, "fields")?;
    let reserved: Vec<_> = fields.keys().filter(|name| is_reserved(name.as_str())).cloned().collect();
    for name in reserved {
        fields.remove(name);
    }
    let content = result.get("body").and_then(Value::as_str).map(|body| Bytes::from(body.to_owned()));
    Ok(Decision::Deny(Denial { status, fields, content }))
}

/// A denial never looks like success, and never opens a tunnel.
fn denying(status: StatusCode) -> StatusCode {
    if status.is_informational() || status.is_success() { StatusCode::FORBIDDEN } else { status }
}

/// An object of names to a value, or to a list of values.
fn fields(result: &Map<String, Value>, key: &str) -> Result<HeaderMap, String> {
    let mut fields = HeaderMap::new();
    let Some(given) = result.get(key) else { return Ok(fields) };
    let given = given.as_object().ok_or_else(|| format!("`{key}` is no object"))?;
    for (name, values) in given {
        let name: HeaderName = name.parse().map_err(|_| format!("`{key}` has a bad name"))?;
        let values = values.as_array().map_or(std::slice::from_ref(values), Vec::as_slice);
        for value in values {
            let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
            let value = value.ok_or_else(|| format!("`{key}`: {name} is no field value"))?;
            let _ = fields.try_append(name.clone(), value);
        }
    }
    Ok(fields)
}

fn is_owned(name: &HeaderName, owned: &[FieldPattern]) -> bool {
    !is_reserved(name.as_str()) && owned.iter().any(|pattern| pattern.matches(name.as_str()))
}

fn only(fields: HeaderMap, owned: &[FieldPattern]) -> HeaderMap {
    let taken = fields.iter().filter(|(name, _)| is_owned(name, owned));
    taken.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Changes by a server: the fields that are its own are what it says, and nothing else.
pub(super) fn changes(owned: &[FieldPattern], set: HeaderMap, append: HeaderMap) -> Result<Changes, String> {
    let mut users = set.get_all(USER).iter().chain(append.get_all(USER));
    let is_name = |user: &HeaderValue| {
        let user = user.as_bytes();
        !user.is_empty() && user.len() <= USER_LIMIT && std::str::from_utf8(user).is_ok() && !user.contains(&b'\t')
    };
    match (users.next(), users.next()) {
        (None, _) => {}
        (Some(user), None) if is_name(user) && set.contains_key(USER) => {}
        _ => return Err("the server names no usable user".to_owned()),
    }
    Ok(Changes { remove: owned.to_vec(), set, append })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned() -> Vec<FieldPattern> {
        ["x-role", "user"].iter().map(|name| name.parse().unwrap()).collect()
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
        let fields = [("x-role", "admin"), ("x-other", "1"), ("connection", "close"), ("user", "bob")];
        let Ok((Decision::Allow(changes), _)) = http(head(200, &fields), Bytes::new(), &owned()) else { panic!() };
        assert_eq!(changes.set.len(), 2);
        assert_eq!(
            (&changes.set["x-role"], &changes.set["user"]),
            (&"admin".parse().unwrap(), &"bob".parse().unwrap())
        );
    }

    #[test]
    fn other_answers_are_for_the_client_but_never_look_like_success() {
        for (given, seen) in [(401, 401), (302, 302), (204, 403), (206, 403), (429, 429)] {
            let fields = [("location", "/login"), ("content-length", "2"), ("connection", "x-a"), ("x-a", "1")];
            let answered = http(head(given, &fields), Bytes::from_static(b"no"), &owned());
            let Ok((Decision::Deny(denial), _)) = answered else { panic!("{given}") };
            assert_eq!(denial.status.as_u16(), seen);
            assert_eq!(denial.fields.keys().collect::<Vec<_>>(), ["location"]);
            assert_eq!(denial.content.as_deref(), Some(&b"no"[..]));
        }
        assert!(http(head(500, &[]), Bytes::new(), &owned()).is_err());
    }

    #[test]
    fn opa_allows_and_denies_in_short_and_at_length() {
        assert!(matches!(opa_says(&json!({ "result": true })), Ok((Decision::Allow(_), _))));
        assert!(matches!(opa_says(&json!({ "result": false })), Ok((Decision::Deny(_), _))));
        assert!(matches!(opa_says(&json!({})), Ok((Decision::Deny(_), _))));
        let long =
            json!({ "result": { "allow": true, "fields": { "x-role": ["a", "b"], "x-no": "1" }, "reason": "so\n" } });
        let Ok((Decision::Allow(changes), reason)) = opa_says(&long) else { panic!() };
        assert_eq!((changes.set.len(), reason.as_str()), (2, "so"));
        let long = json!({ "result": { "allow": false, "status": 402, "fields": { "x-pay": "1" }, "body": "pay" } });
        let Ok((Decision::Deny(denial), _)) = opa_says(&long) else { panic!() };
        assert_eq!(
            (denial.status.as_u16(), denial.fields.len(), denial.content.as_deref()),
            (402, 1, Some(&b"pay"[..]))
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
        ] {
            assert!(opa_says(&answer).is_err(), "{answer}");
        }
        assert!(opa(&head(200, &[]), b"{", &owned()).is_err() && opa(&head(404, &[]), b"{}", &owned()).is_err());
    }
}
