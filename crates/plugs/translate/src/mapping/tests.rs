//! Requests and answers by small mappings.

use std::path::Path;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderName, HeaderValue, Version};

use super::*;
use crate::run_trials;

fn mapping(text: &str) -> Mapping {
    let text = format!("version: 1\n{text}");
    Mapping::read(Path::new("m.yaml"), &text).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn problems(text: &str) -> Vec<String> {
    let wrong = Mapping::read(Path::new("m.yaml"), text).err();
    let wrong = wrong.unwrap_or_else(|| panic!("it is right: {text}"));
    wrong.0.iter().map(ToString::to_string).collect()
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        fields.append(&name, HeaderValue::from_str(value).unwrap());
    }
    fields
}

fn request(ask: &str, pairs: &[(&str, &str)]) -> RequestHead {
    let (method, path) = ask.split_once(' ').unwrap();
    RequestHead {
        method: method.parse().unwrap(),
        scheme: None,
        authority: Some(Authority::from_static("a.example")),
        path: Some(PathAndQuery::try_from(path).unwrap()),
        protocol: None,
        fields: fields(pairs),
        version: Version::HTTP_11,
        origin_form: true,
    }
}

/// The request that goes on; `None` if it passes as it is.
fn sent(mapping: &Mapping, ask: &str, pairs: &[(&str, &str)]) -> Result<Option<String>, String> {
    let translation = mapping.request(&request(ask, pairs));
    let translation = translation.map_err(|unfit| format!("{}: {}", unfit.status, unfit.reason))?;
    Ok(translation.map(|translation| {
        let head = translation.head;
        format!("{} {}", head.method, head.path.unwrap())
    }))
}

fn answer(mapping: &Mapping, ask: &str, status: u16, pairs: &[(&str, &str)]) -> ResponseHead {
    let translation = mapping.request(&request(ask, &[])).unwrap().unwrap();
    let mut head = ResponseHead::new(StatusCode::from_u16(status).unwrap());
    head.fields = fields(pairs);
    mapping.answer(&translation, &mut head).unwrap();
    head
}

const USERS: &str = "\
operations:
  user:
    from: GET /v1/users/{id}
    to: GET /v2/people/{id}?full=true
    query: { move: { lang: language }, remove: [debug] }
    answers: { 200: { content: { move: { a: b } } } }
  found:
    from: GET /v1/find
    to: GET /v2/people/{query.id}
    fields: { move: { x-old: x-new }, set: { x-id: 'old {query.id}' } }
  files:
    from: GET /v1/files/{path*}
    to: GET /v2/store/{path}
";

#[test]
fn a_request_gets_the_path_and_the_query_of_the_new_interface() {
    let users = mapping(USERS);
    let sent = |ask: &str| sent(&users, ask, &[]).unwrap().unwrap();
    assert_eq!(
        sent("GET /v1/users/a%20b%2fc?lang=de&debug&x=1"),
        "GET /v2/people/a%20b%2Fc?full=true&x=1&language=de"
    );
    assert_eq!(sent("HEAD /v1/users/7"), "HEAD /v2/people/7?full=true");
    assert_eq!(sent("GET /v1/find?id=7"), "GET /v2/people/7?id=7");
    assert_eq!(sent("GET /v1/files/a/b.txt"), "GET /v2/store/a/b.txt");
}

#[test]
fn no_value_of_a_client_leads_elsewhere() {
    let users = mapping(USERS);
    let refused = |ask: &str| sent(&users, ask, &[]).unwrap_err();
    for id in ["..", "%2e%2e", ".", ""] {
        let wrong = refused(&format!("GET /v1/find?id={id}"));
        assert!(wrong.starts_with("400"), "{id}: {wrong}");
    }
    assert!(refused("GET /v1/find").contains("has no value"));
    let slash = sent(&users, "GET /v1/find?id=..%2f..%2fadmin", &[]);
    assert!(slash.is_err(), "{slash:?}");
    assert!(refused("GET /v1/files/a/%2e%2e/b").starts_with("400"));
    assert!(refused("GET /v1/find?id=%zz").contains("its query: a percent sign"));
    assert!(refused("PUT /v1/users/7").starts_with("404"));
    let translated = users.request(&request("GET /v1/find?id=7%0d%0aa:b", &[]));
    assert!(translated.is_err(), "no line break becomes a field");
}

#[test]
fn fields_move_and_are_set_and_those_of_the_proxy_stay() {
    let users = mapping(USERS);
    let head = request("GET /v1/find?id=7", &[("x-old", "1"), ("x-old", "2")]);
    let sent = users.request(&head).unwrap().unwrap().head.fields;
    let new: Vec<_> = sent
        .values("x-new")
        .map(|value| value.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(new, ["1", "2"]);
    assert!(!sent.contains_key("x-old"));
    assert_eq!(sent.get("x-id").unwrap(), "old 7");

    for name in [
        "user",
        "host",
        "Content-Length",
        "hermes-groups",
        "x-forwarded-for",
    ] {
        let wrong = problems(&format!(
            "version: 1\noperations: {{ a: {{ from: GET /, to: GET /, fields: {{ set: {{ {name}: x }} }} }} }}\n"
        ));
        assert!(
            wrong[0].contains("belongs to the connection or to the proxy"),
            "{wrong:?}"
        );
    }
}

#[test]
fn the_old_interface_is_known_by_path_field_or_media_type() {
    let operation = "operations: { a: { from: 'GET /{p*}', to: 'GET /new/{p}' } }\n";
    let spoken = |marks: &str, ask: &str, pairs: &[(&str, &str)]| {
        let mapping = mapping(&format!("spoken: {marks}\n{operation}"));
        sent(&mapping, ask, pairs).unwrap().is_some()
    };
    assert!(spoken("[ { path: /v1/ } ]", "GET /v1/a", &[]));
    assert!(!spoken("[ { path: /v1 } ]", "GET /v10/a", &[]));
    let field = "[ { field: { api-version: '1' } }, { field: { api-version: '' } } ]";
    assert!(spoken(field, "GET /a", &[("api-version", "1")]));
    assert!(spoken(field, "GET /a", &[]));
    assert!(!spoken(field, "GET /a", &[("api-version", "2")]));
    let media = "[ { media_type: version=1 } ]";
    assert!(spoken(
        media,
        "GET /a",
        &[("accept", "text/x, application/json; Version=\"1\"")]
    ));
    assert!(!spoken(
        media,
        "GET /a",
        &[("accept", "application/json;version=10")]
    ));
    let both = "[ { path: /v1, field: { a: b } } ]";
    assert!(!spoken(both, "GET /v1/a", &[]));
    let grpc = [("content-type", "application/grpc+proto")];
    assert!(
        !spoken("[ { path: /v1 } ]", "POST /v1/a", &grpc),
        "gRPC passes"
    );
}

#[test]
fn caches_learn_by_which_fields_an_answer_was_chosen() {
    let text = "spoken: [ { field: { api-version: '1' } }, { media_type: v=1 } ]\nunfit: pass\noperations: { a: { from: GET /, to: GET /b } }\n";
    let mapping = mapping(text);
    let mut answer = fields(&[("vary", "Accept, x")]);
    mapping.vary(&mut answer);
    let all: Vec<_> = answer
        .values("vary")
        .map(|value| value.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(all, ["Accept, x", "api-version"]);
}

#[test]
fn tags_and_digests_of_another_content_are_other_ones() {
    let users = mapping(USERS);
    let digest = users.digest.clone();
    let given = [
        ("etag", "\"abc\""),
        ("repr-digest", "x"),
        ("content-length", "9"),
        ("accept-ranges", "bytes"),
    ];
    let head = answer(&users, "GET /v1/users/7", 200, &given);
    let tag = head
        .fields
        .get("etag")
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(tag, format!("\"abc~{digest}\""));
    for name in ["repr-digest", "content-length", "accept-ranges"] {
        assert!(!head.fields.contains_key(name), "{name}");
    }
    let pairs = [
        ("if-match", tag.as_str()),
        ("range", "bytes=1-"),
        ("accept-encoding", "gzip"),
    ];
    let sent = users
        .request(&request("GET /v1/users/7", &pairs))
        .unwrap()
        .unwrap()
        .head
        .fields;
    assert_eq!(sent.get("if-match").unwrap(), "\"abc\"");
    assert_eq!(sent.get("accept-encoding").unwrap(), "identity");
    assert!(!sent.contains_key("range"));
    let other = [("if-match", "\"abc~00000000\"")];
    let sent = users
        .request(&request("GET /v1/users/7", &other))
        .unwrap()
        .unwrap()
        .head
        .fields;
    assert_eq!(
        sent.get("if-match").unwrap(),
        "\"abc~00000000\"",
        "of the file before it changed"
    );
}

#[test]
fn contents_of_another_kind_are_refused_or_pass_as_declared() {
    let text = "operations: { a: { from: POST /, to: POST /b, content: { move: { a: b } }, answers: { any: { content: {} } } } }\n";
    let strict = mapping(text);
    let lenient = mapping(&format!("unfit: pass\n{text}"));
    for (name, value, reason) in [
        ("content-type", "text/plain", "its content is text/plain"),
        (
            "content-type",
            "application/json; charset=UTF-16",
            "its content is in UTF-16",
        ),
        ("content-encoding", "gzip", "its content is coded: gzip"),
    ] {
        let pairs = [(name, value)];
        let wrong = sent(&strict, "POST /", &pairs).unwrap_err();
        assert!(
            wrong.starts_with("415") && wrong.contains(reason),
            "{wrong}"
        );
        assert_eq!(sent(&lenient, "POST /", &pairs).unwrap(), None);

        let translation = strict.request(&request("POST /", &[])).unwrap().unwrap();
        let answered = |status: u16| {
            let mut head = ResponseHead::new(StatusCode::from_u16(status).unwrap());
            head.fields = fields(&pairs);
            strict
                .answer(&translation, &mut head)
                .map(|plan| plan.is_some())
        };
        assert!(answered(200).unwrap_err().reason.contains(reason));
        assert_eq!(answered(502), Ok(false), "a gateway's own");
    }
    for good in [
        "application/json",
        "application/problem+json; charset=utf-8",
    ] {
        assert!(
            sent(&strict, "POST /", &[("content-type", good)])
                .unwrap()
                .is_some()
        );
    }
    let events = answer(
        &strict,
        "POST /",
        200,
        &[("content-type", "text/event-stream")],
    );
    assert_eq!(events.status, StatusCode::OK);
}

#[test]
fn uris_of_answers_lead_back_where_their_paths_tell_the_old_ones() {
    let mapping = mapping(
        "\
operations:
  add: { from: POST /v1/users, to: POST /v2/people }
  user: { from: 'GET /v1/users/{id}', to: 'GET /v2/people/{id}' }
  file: { from: 'GET /v1/files/{rest*}', to: 'GET /v2/documents/{rest}' }
  list: { from: GET /v1/users, to: GET /v2/people, query: { move: { page: offset } } }
  full: { from: 'GET /v1/full/{id}', to: 'GET /v2/people?id={id}' }
",
    );
    let translation = mapping.request(&request("POST /v1/users", &[]));
    let translation = translation.unwrap().unwrap();
    let led = |name: &'static str, value: &'static str| {
        let mut fields = fields(&[(name, value)]);
        let left = mapping.lead_back(&translation, &mut fields);
        let text = fields.get(name).unwrap().to_str().unwrap().to_owned();
        (text, left)
    };
    let all = [
        ("/v2/people/7", "/v1/users/7", 0),
        ("/v2/people/a%2Fb?x=1#y", "/v1/users/a%2Fb?x=1#y", 0),
        ("/v2/documents/a/b", "/v1/files/a/b", 0),
        ("http://A.example/v2/people", "http://A.example/v1/users", 0),
        // A query of the new interface is none of the old one where a mapping changes it; other paths have no way back.
        ("/v2/people?offset=2", "/v2/people?offset=2", 1),
        ("/v2/orders/7", "/v2/orders/7", 1),
        ("/v2/documents/%2e%2e/x", "/v2/documents/%2e%2e/x", 1),
        // Another server, and a relative path, are left without a word.
        (
            "http://b.example/v2/people",
            "http://b.example/v2/people",
            0,
        ),
        ("//b.example/v2/people", "//b.example/v2/people", 0),
        ("7", "7", 0),
    ];
    for (new, old, left) in all {
        for name in ["location", "content-location"] {
            assert_eq!(led(name, new), (old.to_owned(), left), "{name}");
        }
    }
    let links = "</v2/people/7>; rel=next; title=\"</v2/people/8>\", <http://b.example/>; rel=x, </v2/x>; rel=y";
    let told = "</v1/users/7>; rel=next; title=\"</v2/people/8>\", <http://b.example/>; rel=x, </v2/x>; rel=y";
    assert_eq!(led("link", links), (told.to_owned(), 1));
    for odd in ["<", "<>", "\"", "</v2/people/7", "<a\">"] {
        assert_eq!(led("link", odd).0, odd);
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_with_their_lines() {
    let text = "\
version: 1
bytes: 99999999
operations:
  a:
    from: GET /v1/{id}
    to: GET /v2/{name}
    content: { move: { 'a[].b': c }, set: { x: '{nope}' } }
  b: { from: nothing, to: GET / }
answers: { 2x: {}, 200: { status: 204 } }
";
    let wrong = problems(text);
    let at = |line: u32, part: &str| {
        let place = format!("m.yaml:{line}:");
        let found = wrong
            .iter()
            .any(|told| told.contains(&place) && told.contains(part));
        assert!(found, "{line} {part}: {wrong:#?}");
    };
    at(
        2,
        "bytes: 99999999 is not possible; write a number from 1 to 4194304",
    );
    at(6, "`{name}` is no variable of `from`");
    at(7, "not in the same array");
    at(7, "`{nope}` is no variable here");
    at(8, "is no request");
    at(9, "`2x` is no status");
    at(9, "such an answer has no content");
    assert!(problems("version: 1\noperation: {}\n")[0].contains("did you mean `operations`?"));
    assert!(problems("version: 1\n")[0].contains("there are 0 operations"));
    assert!(problems("a: 1\n---\nb: 2\n")[0].contains("one document"));
}

#[test]
fn tests_in_a_file_fail_where_the_mapping_does_not_do_as_they_say() {
    let text = "\
operations: { a: { from: 'GET /v1/{id}', to: 'GET /v2/{id}', answers: { 200: { content: { move: { a: b } } } } } }
tests:
  - { name: right, request: { ask: GET /v1/7 }, sends: { ask: GET /v2/7 }, answer: { content: '{\"a\": 1}' }, gets: { content: '{\"b\":1}' } }
  - { name: another path, request: { ask: GET /v1/7 }, sends: { ask: GET /v2/8 } }
  - { name: another content, request: { ask: GET /v1/7 }, answer: { content: '{\"a\": 1}' }, gets: { content: '{\"b\": 2}' } }
  - { name: refused, request: { ask: GET /v1/7 }, answer: { content: '{' }, gets: { status: 502, reason: too early } }
  - { name: not refused, request: { ask: GET /v1/7 }, gets: { status: 400 } }
";
    let trials = run_trials(&mapping(text));
    let failed: Vec<_> = trials.iter().map(|trial| trial.failed.clone()).collect();
    assert_eq!(failed[0], None);
    assert_eq!(
        failed[1].as_deref(),
        Some("sends: it is `GET /v2/7`, not `GET /v2/8`")
    );
    assert_eq!(failed[2].as_deref(), Some("gets: the content is {\"b\":1}"));
    assert_eq!(failed[3], None);
    assert!(
        failed[4]
            .as_deref()
            .is_some_and(|told| told.contains("not refused"))
    );
    assert_eq!(trials[1].line, 5);
}
