//! The role that a server gives decides the route; no exchange comes back through a second listener.

use hermes_tests::curl;
use hermes_tests::origins::deciding;

use super::{by_token, node};

#[test]
fn the_role_that_a_token_has_decides_the_route() {
    let server = deciding(by_token);
    let node = node(&server, "send: [token], allow_fields: [x-secure]");
    let url = node.url("web");
    for role in ["admin", "user"] {
        let got = curl(&[
            "-x",
            &url,
            "-H",
            &format!("token: {role}"),
            "http://video/a?b",
        ]);
        assert_eq!((got.status, got.text().as_str()), (200, role));
    }
    let record = node.record(|record| record["route"] == "routes[1]");
    assert_eq!(record["filters"], serde_json::json!(["check allowed: 200"]));
    let asked = server.last().request;
    assert_eq!(
        (
            asked.method.as_str(),
            asked.path.as_str(),
            asked.host().as_deref()
        ),
        ("GET", "/a?b", Some("video:80"))
    );
    assert_eq!(asked.field("x-forwarded-user").as_deref(), Some("alice"));
    assert_eq!(asked.field("x-forwarded-host").as_deref(), Some("video:80"));
}

#[test]
fn a_role_that_the_client_claims_is_removed() {
    let server = deciding(|question| match question.request.field("token") {
        Some(token) if token == "none" => hermes_tests::origins::Answer::new(200, &[]),
        _ => by_token(question),
    });
    let node = node(&server, "send: [token, x-secure], allow_fields: [x-secure]");
    let url = node.url("web");
    let claim = |token: &str| {
        curl(&[
            "-x",
            &url,
            "-H",
            token,
            "-H",
            "x-secure: admin",
            "http://video/",
        ])
        .text()
    };
    assert_eq!(claim("token: user"), "user");
    assert_eq!(claim("token: none"), "stranger");
    assert!(
        server
            .seen()
            .iter()
            .all(|question| question.request.field("x-secure").is_none())
    );
    // An overlay field is no one's word where the filter does not look, either.
    let side = curl(&[
        "-x",
        &node.url("side"),
        "-H",
        "x-secure: admin",
        "http://video/",
    ]);
    assert_eq!(side.text(), "stranger");
}

#[test]
fn a_server_may_say_whose_an_exchange_is_only_if_the_file_says_so() {
    let server = deciding(|_| {
        hermes_tests::origins::Answer::new(200, &[("user", "carol"), ("x-other", "1")])
    });
    let believing = node(&server, "allow_fields: [user]");
    assert_eq!(
        curl(&["-x", &believing.url("web"), "http://video/"]).text(),
        "carol"
    );
    believing.record(|record| record["user"] == "carol");
    let strict = node(&server, "allow_fields: [x-secure]");
    assert_eq!(
        curl(&["-x", &strict.url("web"), "http://video/"]).text(),
        "stranger"
    );
    strict.record(|record| record["user"] == "alice");
}
