//! Checks of the node as a whole.

use serde_json::json;

use super::finds;

#[test]
fn unknown_version() {
    finds(
        json!({ "version": 2 }),
        &["version: version 2 of the format is not known; write `version: 1`"],
    );
}

#[test]
fn node_name_that_is_no_token() {
    for name in ["", "a b", "a/b", "j\u{fc}rgen"] {
        let expected = format!(
            "node: `{name}` cannot be a node's name; use letters, digits, `-`, `.` and `_`, and `{{host}}` for the machine's name"
        );
        finds(json!({ "node": name }), &[&expected]);
    }
    finds(json!({ "node": null }), &[]);
}

#[test]
fn user_that_cannot_be_a_field() {
    finds(
        json!({ "identity": { "user": "a\r\nb" }, "listeners": { "web": { "user": " " } } }),
        &[
            r#"identity.user: "a\r\nb" cannot be a user: it becomes the field `user`; write a name without control characters and without space around it"#,
            r#"listeners.web.user: " " cannot be a user: it becomes the field `user`; write a name without control characters and without space around it"#,
        ],
    );
}

#[test]
fn no_listener() {
    finds(
        json!({ "listeners": null }),
        &[
            "listeners: there is no listener: nothing can enter; add one, such as `web: { http: 127.0.0.1:8080 }`",
        ],
    );
}

#[test]
fn no_route_while_there_are_listeners() {
    finds(
        json!({ "routes": [] }),
        &[
            "routes: there is no route: every exchange would be refused; add one, such as `- to: UPSTREAM`",
        ],
    );
}

#[test]
fn overlay_field_that_covers_framing() {
    finds(
        json!({ "fields": ["service", "content-*", "Via"] }),
        &[
            "fields[1]: `content-*` covers `content-length`, which belongs to the connection or to the proxy; declare only fields of the overlay",
            "fields[2]: `via` covers `via`, which belongs to the connection or to the proxy; declare only fields of the overlay",
        ],
    );
}

#[test]
fn lists_of_revoked_certificates_come_with_their_authorities() {
    finds(
        json!({ "defaults": { "tls": { "crl_file": "a.crl" } } }),
        &[
            "defaults.tls.crl_file: revocation lists need the authorities whose certificates they revoke; \
           add `ca_file` or `client_ca_file`, or remove it",
        ],
    );
    finds(
        json!({ "defaults": { "tls": { "client_ca_file": "ca.pem", "crl_file": ["a.crl"] } } }),
        &[],
    );
}
