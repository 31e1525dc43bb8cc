//! Fields by which an origin could be told that a request comes from someone else.

use hermes_tests::attacks::late_fields::{trailed_h1, trailed_h2};
use hermes_tests::origins;

use crate::versions::Versions;

/// As origins of different makes believe them; the last ones are what CGI and its heirs make the same.
const FORGED: [(&str, &str); 14] = [
    ("x-forwarded-for", "203.0.113.9"),
    ("x-forwarded-host", "admin.example"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-client-cert", "Subject=\"CN=root\""),
    ("x-real-ip", "203.0.113.9"),
    ("x-client-ip", "203.0.113.9"),
    ("true-client-ip", "203.0.113.9"),
    ("cf-connecting-ip", "203.0.113.9"),
    ("client-cert", ":AAAA:"),
    ("client-cert-chain", ":AAAA:"),
    ("x-ssl-client-dn", "CN=root"),
    ("x-original-url", "/admin"),
    ("x_forwarded_for", "203.0.113.9"),
    ("client_cert", ":AAAA:"),
];

fn node(keys: &str, more: &str, origin: &str) -> Versions {
    let rest = format!(
        r#"
        {more}
        routes: [ {{ terminate: video, expose: [forwarded] }} ]
        upstreams: {{ video: {{ endpoints: ["{origin}"] }} }}
        "#
    );
    Versions::start(keys, &rest)
}

#[test]
fn what_a_client_says_of_its_origin_reaches_no_one() {
    let origin = origins::http();
    let node = node("", "", &origin.address().to_string());
    let fields = [
        &FORGED[..],
        &[("forwarded", "for=203.0.113.9"), ("accept", "text/plain")],
    ]
    .concat();
    for came in node.get("VIDEO", "/", &fields) {
        assert_eq!(came.status, 200, "{came:?}");
        let seen = origin.last();
        for (name, _) in FORGED {
            assert_eq!(seen.field(name), None, "{name}: {came:?}");
        }
        assert_eq!(seen.field("accept").as_deref(), Some("text/plain"));
        // What the node itself knows stays true.
        assert!(
            seen.field("forwarded")
                .unwrap()
                .starts_with("for=127.0.0.1"),
            "{seen:?}"
        );
    }
}

#[test]
fn a_listener_accepts_what_its_clients_may_say() {
    let origin = origins::http();
    let node = node(
        ", accepts: [x-forwarded-for]",
        "",
        &origin.address().to_string(),
    );
    for _ in node.get("VIDEO", "/", &FORGED) {
        assert_eq!(
            origin.last().field("x-forwarded-for").as_deref(),
            Some("203.0.113.9")
        );
        assert_eq!(origin.last().field("x-real-ip"), None);
    }
}

#[test]
fn the_list_is_the_operators() {
    let origin = origins::http();
    let node = node(
        "",
        "provenance: [x-my-proxy]",
        &origin.address().to_string(),
    );
    for _ in node.get(
        "VIDEO",
        "/",
        &[("x-my-proxy", "1"), ("x-real-ip", "203.0.113.9")],
    ) {
        assert_eq!(origin.last().field("x-my-proxy"), None);
        assert_eq!(
            origin.last().field("x-real-ip").as_deref(),
            Some("203.0.113.9")
        );
    }
}

#[test]
fn a_peer_is_believed() {
    let origin = origins::http();
    let node = node(
        ", insecure_trust: [127.0.0.0/8]",
        "",
        &origin.address().to_string(),
    );
    let came = node.h1("GET", "VIDEO", "/", &FORGED);
    assert_eq!(came.status, 200, "{came:?}");
    assert_eq!(
        origin.last().field("x-forwarded-for").as_deref(),
        Some("203.0.113.9")
    );
}

/// What else routes or decides, and what stands in no list.
const LATE: [(&str, &str); 4] = [
    ("forwarded", "for=203.0.113.9"),
    ("via", "1.1 forged"),
    ("user", "forged-user"),
    ("x-http-method-override", "DELETE"),
];

/// What the codec of HTTP/1.1 takes in no trailer.
const REFUSED: [(&str, &str); 4] = [
    ("authorization", "Basic cm9vdDo="),
    ("cookie", "session=forged"),
    ("max-forwards", "forged-count"),
    ("content-type", "forged/type"),
];

/// What comes behind the content comes after everything was decided.
#[test]
fn no_trailer_says_so_either() {
    let origin = origins::http();
    let node = node(
        ", accepts: [x-real-ip, x-forwarded-for]",
        "",
        &origin.address().to_string(),
    );
    let mut lines = FORGED.to_vec();
    lines.extend(LATE);
    let web = node.node.address("web");
    let over_h1 = trailed_h1(web, &lines);
    lines.extend(REFUSED);
    for said in [over_h1, trailed_h2(web, &lines)] {
        assert!(said.contains("x-checksum-md5"), "{said}");
        for (name, value) in &lines {
            assert!(
                !said.contains(name) && !said.contains(value),
                "{name}: {said}"
            );
        }
    }
}

/// Names that an origin could take for `x-tenant`, `x-api-key` and `x-auth-user`.
const ALIKE: [(&str, &str); 4] = [
    ("x_tenant", "evil"),
    ("x_api-key", "evil"),
    ("x_api_key", "evil"),
    ("x_auth_user", "evil"),
];

/// Fields that the operator sets for an origin are not written beside them by a client, nor behind the content.
#[test]
fn no_name_that_looks_like_the_operators_reaches_an_origin() {
    let origin = origins::http();
    let rest = format!(
        r#"
        authorize: [ {{ name: asked, url: "http://{0}/", match: {{ path: /asked }}, allow_fields: [x-auth-user] }} ]
        routes: [ {{ terminate: video }} ]
        upstreams: {{ video: {{ endpoints: ["{0}"], fields: {{ X-Api-Key: own }} }} }}
        "#,
        origin.address()
    );
    let node = Versions::start(", set: { x-tenant: north }", &rest);
    for came in node.get("VIDEO", "/", &ALIKE) {
        assert_eq!(came.status, 200, "{came:?}");
        let seen = origin.last();
        for (name, _) in ALIKE {
            assert_eq!(seen.field(name), None, "{name}: {came:?}");
        }
        assert_eq!(seen.field("x-tenant").as_deref(), Some("north"));
        assert_eq!(seen.field("x-api-key").as_deref(), Some("own"));
    }

    let web = node.node.address("web");
    let mut lines = ALIKE.to_vec();
    lines.push(("x-auth-user", "evil"));
    for said in [trailed_h1(web, &lines), trailed_h2(web, &lines)] {
        assert!(said.contains("x-checksum-md5"), "{said}");
        assert!(!said.contains("evil"), "{said}");
    }
}
