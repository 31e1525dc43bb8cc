//! OPA's plugin for Envoy: the same files decide the same, whether this node evaluates them, the plugin does for this node, or the plugin
//! does for Envoy.

use std::fs;

use hermes_tests::curl::Output;
use hermes_tests::envoy::bootstrap;
use hermes_tests::opa::Language;
use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Envoy, Node, OpaEnvoy, curl};

/// A policy in the form in which the prototype's were written.
const PROTOTYPE: &str = include_str!("../integration/authorize/prototype.rego");

/// All that a result may say, and all that is shown.
const WHOLE: &str = r#"
package envoy.authz

import rego.v1

http := input.attributes.request.http

default allow := {
    "allowed": false,
    "http_status": 401,
    "body": "who are you?",
    "headers": {"x-why": "no token"},
}

allow := {
    "allowed": true,
    "headers": {"x-secure": "admin"},
    "request_headers_to_remove": ["token"],
    "response_headers_to_add": {"x-seen": "by the policy"},
    "query_parameters_to_set": {"by": "admin"},
    "query_parameters_to_remove": ["debug"],
} if {
    http.headers.token == "admin"
}

allow := {"allowed": true, "headers": {"x-secure": "user"}} if {
    http.headers.token == "user"
    http.method in {"GET", "HEAD"}
    input.parsed_path == ["org", "web", "a b"]
    input.parsed_query.b == ["c", "d"]
    http.path == "/org/web/a%20b?b=c&debug=1&b=d"
}

allow := {"allowed": true, "headers": {"x-secure": "host"}} if {
    http.headers.token == "host"
    http.host == "onl"
    http.headers[":authority"] == "onl"
    http.headers[":path"] == http.path
    http.headers[":method"] == http.method
    http.scheme == "http"
    http.protocol == "HTTP/1.1"
}

allow := {"allowed": true, "headers": {"x-secure": "port"}} if {
    http.headers.token == "port"
    http.host == "onl:8080"
}

allow := {"allowed": true, "headers": {"x-secure": "address"}} if {
    http.headers.token == "address"
    input.attributes.source.address.socketAddress.address == "127.0.0.1"
    input.attributes.destination.address.socketAddress.portValue > 0
    not http.headers["x-absent"]
}

allow := {"allowed": false} if http.headers.token == "plain"
"#;

/// A truth value.
const TRUTH: &str = r#"
package envoy.authz

import rego.v1

default allow := false

allow if {
    input.attributes.request.http.method == "GET"
    input.attributes.request.http.headers.token == ["user", "admin"][_]
}

allow if {
    startswith(input.attributes.request.http.path, "/org/")
    regex.match(`^[a-z]+$`, input.parsed_path[1])
    input.attributes.request.http.headers.token == "host"
}
"#;

/// One request.
#[derive(Debug, Clone, Copy)]
struct Ask {
    method: &'static str,
    url: &'static str,
    fields: &'static [&'static str],
}

const URL: &str = "http://onl/org/web/a%20b?b=c&debug=1&b=d";

const fn ask(method: &'static str, url: &'static str, fields: &'static [&'static str]) -> Ask {
    Ask {
        method,
        url,
        fields,
    }
}

const MATRIX: [Ask; 14] = [
    ask("GET", URL, &["token: admin"]),
    ask("PUT", URL, &["token: admin"]),
    ask("GET", "http://onl/", &["token: admin"]),
    ask("GET", "http://onl/?debug&x=%26", &["token: admin"]),
    ask("GET", URL, &["token: user"]),
    ask("POST", URL, &["token: user"]),
    ask("GET", "http://onl/org/web/a%20b?b=c", &["token: user"]),
    ask("GET", URL, &["token: host"]),
    ask("GET", "http://onl:8080/org/web/a", &["token: port"]),
    ask("GET", URL, &["token: address", "x-present: 1"]),
    ask("GET", URL, &["token: plain"]),
    ask("GET", URL, &["x-other: 1"]),
    ask("POST", URL, &["clientip: 192.168.252.20"]),
    ask("POST", URL, &["clientip: 192.168.252.21", "token: other"]),
];

/// What came of it: for the client, and at the origin.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    status: u16,
    /// The fields that a policy gives to answers.
    told: [Option<String>; 2],
    /// The text of a refusal, where the policy has one.
    body: Option<String>,
    /// Path, role and token at the origin.
    passed: Option<(String, Option<String>, Option<String>)>,
}

/// A path whose parameters are in the order of their names, as Envoy leaves them; those of one name stay in theirs.
fn in_order(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else {
        return path.to_owned();
    };
    let mut parameters: Vec<&str> = query.split('&').collect();
    parameters.sort_by_key(|parameter| parameter.split('=').next());
    format!("{path}?{}", parameters.join("&"))
}

/// The three that decide by one file.
struct Deciders {
    _plugin: OpaEnvoy,
    here: Node,
    asking: Node,
    envoy: Envoy,
    origin: Origin<Request>,
}

fn node(name: &str, authorize: &str, policy: &str, origin: &Origin<Request>) -> Node {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), policy).unwrap();
    let yaml = format!(
        r#"
        fields: [user, x-secure]
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        authorize: [ {{ name: policy, timeout: 30s, allow_fields: [x-secure], {authorize} }} ]
        routes: [ {{ terminate: origin, expose: [x-secure] }} ]
        upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
        "#,
        origin.address()
    );
    Node::start_in(folder, name, &yaml, &[])
}

impl Deciders {
    fn start(policy: &str, language: Language) -> Self {
        let origin = origins::http();
        let plugin = OpaEnvoy::start(policy, language);

        let rego = "rego: { files: policy.rego, query: data.envoy.authz.allow, input: envoy }";
        let here = node("here", rego, policy, &origin);
        let grpc = format!(
            "kind: grpc, url: \"http://{}\", send: [token, clientip, x-present, x-absent]",
            plugin.address()
        );
        let asking = node("asking", &grpc, policy, &origin);

        let listener = bootstrap::http("web", &bootstrap::forward("origin"));
        let listener = bootstrap::authorized_by_grpc(listener, "plugin");
        let clusters = vec![
            bootstrap::origin("origin", origin.address()),
            bootstrap::cluster("plugin", plugin.address(), bootstrap::Http::H2),
        ];
        let envoy = Envoy::start("envoy", vec![listener], clusters);

        Self {
            _plugin: plugin,
            here,
            asking,
            envoy,
            origin,
        }
    }

    /// What comes of a request through one of them.
    fn came(&self, proxy: &str, ask: &Ask) -> Came {
        let mut arguments = vec!["-x", proxy, "-X", ask.method];
        for field in ask.fields {
            arguments.extend(["-H", field]);
        }
        arguments.push(ask.url);

        let before = self.origin.seen().len();
        let got: Output = curl(&arguments);
        assert_eq!(got.exit, 0, "{ask:?}: {got:?}");

        let told = ["x-why", "x-seen"].map(|name| got.field(name));
        let body = told[0].is_some().then(|| got.text());
        let passed = self.origin.seen().get(before).map(|request| {
            let [role, token] = ["x-secure", "token"].map(|name| request.field(name));
            (in_order(&request.path), role, token)
        });
        Came {
            status: got.status,
            told,
            body,
            passed,
        }
    }

    /// Has all three decide about everything, and returns how often they allowed.
    fn agree(&self) -> usize {
        let proxies = [&self.here, &self.asking].map(|node| node.url("web"));
        let mut allowed = 0;
        for ask in &MATRIX {
            let expected = self.came(&self.envoy.url("web"), ask);
            for (proxy, name) in proxies.iter().zip(["here", "asking"]) {
                assert_eq!(
                    self.came(proxy, ask),
                    expected,
                    "{name}, and Envoy: {ask:?}"
                );
            }
            allowed += usize::from(expected.status == 200);
        }
        allowed
    }
}

#[test]
fn the_prototype_s_policy_decides_alike_here_and_in_opa_for_envoy() {
    assert_eq!(Deciders::start(PROTOTYPE, Language::V0).agree(), 10);
}

#[test]
fn results_of_every_form_are_obeyed_alike() {
    assert_eq!(Deciders::start(WHOLE, Language::V1).agree(), 8);
}

#[test]
fn a_truth_value_decides_alike() {
    assert_eq!(Deciders::start(TRUTH, Language::V1).agree(), 6);
}

/// Whose an exchange is, and what it is for: a policy that asks for that decides the same in the node and in the plugin that the node asks.
#[test]
fn whose_an_exchange_is_stands_in_one_place() {
    const WHOSE: &str = r#"
        package envoy.authz
        import rego.v1
        default allow := false
        about := input.attributes.contextExtensions
        allow if {
            about.user == "alice"
            about.kind == "http"
            about.target == "onl:80"
            about.listener == "alices"
        }
    "#;
    let origin = origins::http();
    let plugin = OpaEnvoy::start(WHOSE, Language::V1);
    let rego = "rego: { files: policy.rego, query: data.envoy.authz.allow, input: envoy }";
    let grpc = format!("kind: grpc, url: \"http://{}\"", plugin.address());
    for (name, authorize) in [("here", rego), ("asking", &grpc)] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("policy.rego"), WHOSE).unwrap();
        let yaml = format!(
            r#"
            listeners: {{ alices: {{ http: 127.0.0.1:0, user: alice }}, bobs: {{ http: 127.0.0.1:0, user: bob }}, others: {{ http: 127.0.0.1:0 }} }}
            authorize: [ {{ name: policy, timeout: 30s, {authorize} }} ]
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        );
        let node = Node::start_in(folder, name, &yaml, &[]);
        for (listener, status) in [("alices", 200), ("bobs", 403), ("others", 403)] {
            let got = curl(&["-x", &node.url(listener), "http://onl/"]);
            assert_eq!(got.status, status, "{name}, {listener}: {got:?}");
        }
    }
}
