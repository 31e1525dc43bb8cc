//! The form in which OPA's plugin for Envoy shows an exchange to rules, and in which rules answer it.
//!
//! A policy written for it finds what it looks for: `attributes` are those of a `CheckRequest` of Envoy's API v3, with path and
//! query taken apart beside them. A message's content is not there: filters see heads.

use std::borrow::Cow;

use hermes_config::model::FieldPattern;
use hermes_http::{AnswerFields, Kind, RequestHead};
use hermes_net::CertificateNames;
use hermes_plug::target::{Target, is_https};
use hermes_plug::{Decision, QueryChanges, Subject};
use hermes_proto::fields::Fields;
use hermes_rego::present;
use http::Version;
use serde_json::{Map, Value, json};

use super::answer::{self, Answer, Answered, Owned};
use super::facts::kind;
use super::readings::path_of;

/// The keys of a result for changes of the query, and of the answer.
const TO_SET: &str = "query_parameters_to_set";
const TO_REMOVE: &str = "query_parameters_to_remove";
const TO_ANSWER: &str = "response_headers_to_add";

/// The `input` of rules.
pub fn input(subject: &Subject<'_>) -> Value {
    input_with(subject, &subject.head.fields)
}

/// The same, with these fields only.
pub(super) fn input_with(subject: &Subject<'_>, fields: &Fields) -> Value {
    let Subject {
        head,
        target,
        source,
        ..
    } = *subject;
    let path = path_of(head);
    let scheme = if is_https(head, source.tls.is_some()) {
        "https"
    } else {
        "http"
    };
    let method = head.wire_method();
    let host = host(head, target, scheme);

    let mut headers = headers(fields);
    for (name, value) in [
        (":method", method.as_str()),
        (":path", &path),
        (":authority", &host),
        (":scheme", scheme),
    ] {
        headers.insert(name.to_owned(), value.into());
    }

    let (plain, query) = path.split_once('?').unwrap_or((&path, ""));
    // As the plugin takes it apart: an encoded slash separates segments, too.
    let plain = decoded(plain, false);
    let segments: Vec<_> = plain.trim_start_matches('/').split('/').collect();

    json!({
        "attributes": {
            "source": from(subject),
            "destination": address(subject.destination()),
            "request": {
                "time": humantime::format_rfc3339_micros(present()).to_string(),
                "http": {
                    "method": method.as_str(),
                    "headers": headers,
                    "path": &*path,
                    "host": host,
                    "scheme": scheme,
                    "protocol": protocol(head.version),
                }
            },
            "contextExtensions": context(subject),
            "metadataContext": { "filterMetadata": metadata(subject) },
        },
        "parsed_path": segments,
        "parsed_query": parsed(query),
        "version": { "ext_authz": "v3", "encoding": "protojson" },
    })
}

/// The host as Envoy would show it, in the one form in which routes compare it, too: a request without a port, and one with that of
/// its scheme, are the same.
fn host(head: &RequestHead, target: &Target, scheme: &str) -> String {
    let usual = if scheme == "https" { 443 } else { 80 };
    let is_message = matches!(head.kind(), Kind::Message | Kind::Upgrade);
    let mut host = target.to_string();
    if is_message && target.port() == Some(usual) {
        let end = host.rfind(':').unwrap_or(host.len());
        host.truncate(end);
    }
    host
}

/// Where it came from. The principal is whom the certificate names, else the user.
fn from(subject: &Subject<'_>) -> Value {
    let mut from = address(subject.source.peer.socket());
    let certified = subject.certificate().and_then(CertificateNames::primary);
    if let Some(principal) = certified.or(subject.user) {
        from["principal"] = principal.into();
    }
    from
}

/// The facts of an exchange besides the request, where a server that is asked over gRPC finds it, too. A user whom no one knows is empty.
pub(super) fn context(subject: &Subject<'_>) -> Map<String, Value> {
    let known = [
        ("kind", kind(subject.head).to_owned()),
        ("target", subject.target.to_string()),
        ("user", subject.user.unwrap_or_default().to_owned()),
        ("listener", subject.listener.to_owned()),
    ];
    known
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}

/// The facts of an exchange that Envoy's requests have no place for, and a token's claims where Envoy's own filter puts them
/// by the documentation of OPA's plugin.
fn metadata(subject: &Subject<'_>) -> Value {
    let mut metadata = json!({
        "hermes": {
            "kind": kind(subject.head),
            "user": subject.user,
            "groups": subject.groups,
            "target": subject.target.to_string(),
        }
    });
    if let Some(claims) = subject.claims {
        metadata["envoy.filters.http.jwt_authn"] = json!({ "verified_jwt": claims });
    }
    metadata
}

fn address(socket: Option<std::net::SocketAddr>) -> Value {
    socket.map_or_else(
        || json!({}),
        |socket| {
            let ip = socket.ip().to_string();
            json!({ "address": { "socketAddress": { "address": ip, "portValue": socket.port() } } })
        },
    )
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_3 => "HTTP/3",
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// Names with their lines, joined with commas.
fn headers(fields: &Fields) -> Map<String, Value> {
    let mut headers = Map::new();
    for name in fields.names() {
        let lines = fields
            .values(name)
            .map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned());
        let lines: Vec<_> = lines.collect();
        headers.insert(name.to_string(), lines.join(",").into());
    }
    headers
}

/// Each name of a query with its values.
fn parsed(query: &str) -> Map<String, Value> {
    let mut names = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let values = names
            .entry(decoded(name, true))
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = values {
            values.push(decoded(value, true).into());
        }
    }
    names
}

/// Without percent-encoding. A `%` that encodes no byte stays.
fn decoded(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        rest = after;
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = &after[2..];
            }
            (b'+', ..) if plus_is_space => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    match String::from_utf8_lossy(&bytes) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

/// Reads the result of rules: a truth value, or an object with `allowed`. An undefined one denies.
pub(super) fn result(result: Option<&Value>, owned: &Owned<'_>) -> Answered {
    let Some(Value::Object(result)) = result else {
        return answer::result(result, owned);
    };

    match result.get("allowed") {
        Some(Value::Bool(true)) => {
            let set = answer::fields(&flat(result, "headers"), "headers")?;
            let mut changes = owned.changes(set, Fields::new())?;
            changes.remove.extend(removed(result)?);
            changes.query = query(result)?;

            // Added to the fields of the answer: a cookie of the origin's stays.
            let append = answer::fields(&flat(result, TO_ANSWER), TO_ANSWER)?;
            *changes.answer = owned.answer(AnswerFields {
                append,
                ..AnswerFields::default()
            })?;
            Ok(Answer {
                decision: Decision::Allow(changes),
                reason: answer::yes(),
                lasts: None,
            })
        }
        Some(Value::Bool(false)) => denied(result),
        _ => Err("the result has no truth value `allowed`".into()),
    }
}

/// Fields may be a list of objects, for names that are there several times.
fn flat(result: &Map<String, Value>, key: &str) -> Map<String, Value> {
    let Some(Value::Array(objects)) = result.get(key) else {
        return result.clone();
    };

    let mut headers = Map::new();
    for (name, value) in objects.iter().filter_map(Value::as_object).flatten() {
        let values = headers
            .entry(name.clone())
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = values {
            values.push(value.clone());
        }
    }
    Map::from_iter([(key.to_owned(), Value::Object(headers))])
}

/// Changes to the query.
fn query(result: &Map<String, Value>) -> Result<QueryChanges, String> {
    let wrong = |key: &str| format!("`{key}` is not valid");
    let mut changes = QueryChanges::default();
    if let Some(given) = result.get(TO_SET) {
        for (name, values) in given.as_object().ok_or_else(|| wrong(TO_SET))? {
            let values = values
                .as_array()
                .map_or(std::slice::from_ref(values), Vec::as_slice);
            for value in values {
                let value = value.as_str().ok_or_else(|| wrong(TO_SET))?;
                changes.set.push((name.clone(), value.to_owned()));
            }
        }
    }

    if let Some(given) = result.get(TO_REMOVE) {
        for name in given.as_array().ok_or_else(|| wrong(TO_REMOVE))? {
            let name = name.as_str().ok_or_else(|| wrong(TO_REMOVE))?;
            changes.remove.push(name.to_owned());
        }
    }
    Ok(changes)
}

/// Fields that the exchange is to lose.
fn removed(result: &Map<String, Value>) -> Result<Vec<FieldPattern>, String> {
    let Some(names) = result.get("request_headers_to_remove") else {
        return Ok(Vec::new());
    };
    let names = names
        .as_array()
        .ok_or("`request_headers_to_remove` is not a list")?;
    let names = names.iter().map(|name| {
        let name: Option<FieldPattern> = name.as_str().and_then(|name| name.parse().ok());
        name.filter(|name| !name.wildcard)
            .ok_or_else(|| "`request_headers_to_remove` has a bad name".to_owned())
    });
    names.collect()
}

fn denied(result: &Map<String, Value>) -> Answered {
    let mut plain = Map::new();
    if let Some(status) = result.get("http_status") {
        plain.insert("status".to_owned(), status.clone());
    }
    if let Some(body) = result.get("body") {
        plain.insert("body".to_owned(), body.clone());
    }
    if let Some(headers) = flat(result, "headers").remove("headers") {
        plain.insert("fields".to_owned(), headers);
    }
    answer::denied(&plain, "false")
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::filter::answer::Others;
    use hermes_plug::Denial;

    fn says(value: Value) -> Answered {
        decide(Some(&value))
    }

    fn decide(value: Option<&Value>) -> Answered {
        let patterns = ["x-secure".parse().unwrap()];
        let owned = Owned {
            patterns: &patterns,
            others: Others::Refused,
        };
        result(value, &owned)
    }

    #[test]
    fn a_query_is_taken_apart() {
        let parsed = Value::Object(parsed("a=1&b=x%20y&a=2+3&c&%zz=%2"));
        assert_eq!(
            parsed,
            json!({ "a": ["1", "2 3"], "b": ["x y"], "c": [""], "%zz": ["%2"] })
        );
        assert_eq!(decoded("a+b%2f", false), "a+b/");
    }

    #[test]
    fn a_result_allows_with_fields_or_denies_with_an_answer() {
        let allowed = says(json!({
            "allowed": true, "headers": { "x-secure": "admin" }, "request_headers_to_remove": ["token"],
        }));
        let Decision::Allow(changes) = allowed.unwrap().decision else {
            panic!()
        };
        assert_eq!(changes.set.get("x-secure").unwrap(), "admin");
        assert_eq!(changes.remove.len(), 2);

        let denied = says(json!({
            "allowed": false, "http_status": 401, "body": "no", "headers": [{ "x-a": "1" }, { "x-a": "2" }],
        }));
        let Decision::Deny(Denial {
            status,
            fields,
            content,
        }) = denied.unwrap().decision
        else {
            panic!()
        };
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert_eq!(fields.values("x-a").count(), 2);
        assert_eq!(content.unwrap(), "no");
    }

    #[test]
    fn a_result_changes_the_query_and_the_answer_to_come() {
        let allowed = says(json!({
            "allowed": true,
            "query_parameters_to_set": { "a": "1", "b": ["2", "3"] },
            "query_parameters_to_remove": ["c"],
            "response_headers_to_add": [{ "x-seen": "1" }, { "x-seen": "2" }],
        }));
        let Decision::Allow(changes) = allowed.unwrap().decision else {
            panic!()
        };
        let set = [("a", "1"), ("b", "2"), ("b", "3")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(changes.query.set, set);
        assert_eq!(changes.query.remove, ["c"]);
        assert_eq!(changes.answer.append.values("x-seen").count(), 2);
    }

    #[test]
    fn what_nothing_obeys_decides_nothing() {
        for bad in [
            json!({}),
            json!({ "allowed": "yes" }),
            json!({ "allowed": true, "headers": "x" }),
            json!({ "allowed": true, "headers": { "x-secure": 1 } }),
            json!({ "allowed": true, "headers": { "x-other": "1" } }),
            json!({ "allowed": true, "request_headers_to_remove": ["*"] }),
            json!({ "allowed": true, "query_parameters_to_set": { "a": 1 } }),
            json!({ "allowed": true, "query_parameters_to_set": ["a"] }),
            json!({ "allowed": true, "query_parameters_to_remove": "a" }),
            json!({ "allowed": true, "response_headers_to_add": { "content-length": "1" } }),
            json!({ "allowed": true, "response_headers_to_add": { "x-a": "1\r\nx-b: 2" } }),
            json!(1),
        ] {
            assert!(says(bad.clone()).is_err(), "{bad}");
        }
        assert!(matches!(decide(None).unwrap().decision, Decision::Deny(_)));
    }
}
