//! The rules and policies, alike for all systems: an exchange of the client is allowed by the last of them.

/// Rules of the shorter list.
pub const FEW: usize = 10;

/// Rules of the longer list.
pub const MANY: usize = 10_000;

/// A host that none of the client's exchanges is for.
pub fn other_host(number: usize) -> String {
    format!("host-{number}.example")
}

/// A prefix of paths there.
pub fn other_path(number: usize) -> String {
    format!("/area/{number}/")
}

/// The policy in Rego, of the size and form of that of the paper's prototype: a role by a field of the request, and tunnels. OPA and Hermes
/// evaluate the same file.
pub const REGO: &str = r#"package envoy.authz

import rego.v1

default allow := {"allowed": false}

http := input.attributes.request.http

allow := {"allowed": true, "headers": {"x-secure": "admin"}} if {
    http.method == "GET"
    http.headers.accept == "admin"
}

allow := {"allowed": true, "headers": {"x-secure": "user"}} if {
    http.method == "GET"
    http.headers.accept != "admin"
}

allow := {"allowed": true, "headers": {"x-secure": "user"}} if {
    http.method == "CONNECT"
    http.host == "tls.lab:443"
}
"#;

/// The same policy for the questions of Hermes to OPA's data API.
pub const REGO_OF_DATA_API: &str = r#"package overlay

import rego.v1

default decision := {"allow": false}

decision := {"allow": true, "fields": {"x-secure": "admin"}} if {
    input.method == "GET"
    input.fields.accept == "admin"
}

decision := {"allow": true, "fields": {"x-secure": "user"}} if {
    input.method == "GET"
    input.fields.accept != "admin"
}

decision := {"allow": true, "fields": {"x-secure": "user"}} if {
    input.kind == "connect"
    input.host == "tls.lab"
}
"#;
