//! One authorisation server for Envoy (`ext_authz`) and for Hermes (`authorize`): both ask it the same, and obey alike.

use hermes_tests::curl::Output;
use hermes_tests::envoy::bootstrap;
use hermes_tests::origins::{self, Answer, Origin, Question, Request};
use hermes_tests::{Envoy, Node, curl};

/// The field that the server is shown, the one it gives to the request, the one it tells a client who is refused.
const FIELDS: [&str; 3] = ["x-token", "x-role", "x-why"];

fn decide(question: &Question) -> Answer {
    match question.request.field(FIELDS[0]).as_deref() {
        Some("good") => Answer::new(
            200,
            &[(FIELDS[1], "admin"), ("x-other", "not for the origin")],
        ),
        Some("odd") => Answer {
            content: "not today\n".to_owned(),
            ..Answer::new(429, &[(FIELDS[2], "limit")])
        },
        _ => Answer {
            content: "who are you?\n".to_owned(),
            ..Answer::new(403, &[(FIELDS[2], "no token")])
        },
    }
}

fn envoy(authority: &Origin<Question>, origin: &Origin<Request>) -> Envoy {
    let listener = bootstrap::authorized(
        bootstrap::http("web", &bootstrap::forward("origin")),
        "authority",
        FIELDS,
    );
    let clusters = vec![
        bootstrap::origin("origin", origin.address()),
        bootstrap::origin("authority", authority.address()),
    ];
    Envoy::start("envoy", vec![listener], clusters)
}

fn hermes(authority: &Origin<Question>, origin: &Origin<Request>) -> Node {
    let [asks, gives, _] = FIELDS;
    Node::start(
        "hermes",
        &format!(
            r#"
            fields: [user, {gives}]
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            authorize:
              - {{ name: check, upstream: authority, path: /check, send: [{asks}], allow_fields: [{gives}], timeout: 5s }}
            routes: [ {{ terminate: origin, expose: [{gives}] }} ]
            upstreams:
              origin: {{ endpoints: ["{}"] }}
              authority: {{ endpoints: ["{}"] }}
            "#,
            origin.address(),
            authority.address()
        ),
    )
}

/// Asks through a proxy, with a role that the client made up.
fn ask(proxy: &str, method: &str, token: &str) -> Output {
    let token = format!("{}: {token}", FIELDS[0]);
    let got = curl(&[
        "-x",
        proxy,
        "-X",
        method,
        "-H",
        &token,
        "-H",
        "x-role: forged",
        "http://VIDEO/films?of=1936",
    ]);
    assert_eq!(got.exit, 0, "{got:?}");
    got
}

#[test]
fn envoy_and_hermes_ask_one_server_the_same_and_obey_alike() {
    let (authority, origin) = (origins::deciding(decide), origins::http());
    let (envoy, hermes) = (envoy(&authority, &origin), hermes(&authority, &origin));
    let proxies = [envoy.url("web"), hermes.url("web")];
    for (method, token) in [
        ("GET", "good"),
        ("PUT", "good"),
        ("GET", "odd"),
        ("GET", "bad"),
        ("DELETE", "bad"),
    ] {
        let [one, other] = proxies.each_ref().map(|proxy| {
            let before = origin.seen().len();
            let got = ask(proxy, method, token);
            let question = authority.last().request;
            // Hermes always names the port, and a host in the one form in which rules compare it.
            let host = question
                .host()
                .unwrap_or_default()
                .trim_end_matches(":80")
                .to_ascii_lowercase();
            let asked = (
                question.method.clone(),
                question.path.clone(),
                host,
                question.field(FIELDS[0]),
            );
            let passed = origin
                .seen()
                .get(before)
                .map(|request| (request.field("x-role"), request.field("x-other")));
            let told = (got.status != 200).then(|| (got.text(), got.field(FIELDS[2])));
            (asked, got.status, passed, told)
        });
        assert_eq!(one, other, "{method} {token}: Envoy, Hermes");
    }
    assert!(
        origin
            .seen()
            .iter()
            .all(|request| request.field("x-role").as_deref() == Some("admin"))
    );
}
