//! External authorisation: a server decides before the route is chosen.

mod again;
mod answers;
mod failures;
mod kinds;
mod rego;
mod rehearsed;
mod results;
mod roles;
mod subject;

use hermes_tests::Node;
use hermes_tests::origins::{Answer, Origin, Question};

/// A node whose exchanges an authorisation server at `server` decides about; `keys` are further keys of the filter. Routes
/// answer with their names.
fn node(server: &Origin<Question>, keys: &str) -> Node {
    let yaml = format!(
        r#"
        fields: [user, service, x-hermes-*, x-secure]
        listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }}, side: {{ http: 127.0.0.1:0 }} }}
        authorize:
          - {{ name: check, upstream: authority, timeout: 5s, match: {{ listener: web }}, {keys} }}
        routes:
          - {{ match: {{ fields: {{ x-secure: admin }} }}, respond: {{ status: 200, body: admin }} }}
          - {{ match: {{ fields: {{ x-secure: user }} }}, respond: {{ status: 200, body: user }} }}
          - {{ match: {{ user: carol }}, respond: {{ status: 200, body: carol }} }}
          - {{ match: {{ fields: {{ x-secure: true }} }}, respond: {{ status: 200, body: forged }} }}
          - {{ respond: {{ status: 200, body: stranger }} }}
        upstreams: {{ authority: {{ endpoints: ["{}"] }} }}
        "#,
        server.address()
    );
    Node::start("sap", &yaml)
}

/// What the server says to `token: admin`, `token: user` and anything else.
fn by_token(question: &Question) -> Answer {
    match question.request.field("token").as_deref() {
        Some("admin") => Answer::new(200, &[("x-secure", "admin")]),
        Some("user") => Answer::new(200, &[("x-secure", "user")]),
        _ => Answer {
            content: "who are you?\n".to_owned(),
            ..Answer::new(401, &[("www-authenticate", "Token")])
        },
    }
}
