//! Checks of certificates: files, or those that the node obtains itself.

use serde_json::{Value, json};

use super::finds;

fn web(tls: Value, more: Value) -> Value {
    let mut listener = json!({ "http": "[::1]:443", "tls": tls });
    for (key, value) in more.as_object().unwrap() {
        listener[key] = value.clone();
    }
    json!({ "listeners": { "web": listener } })
}

fn acme(more: Value) -> Value {
    let mut acme =
        json!({ "domains": ["www.example.org"], "folder": "/acme", "terms_agreed": true });
    for (key, value) in more.as_object().unwrap() {
        acme[key] = value.clone();
    }
    json!({ "acme": acme })
}

#[test]
fn a_certificate_has_one_source() {
    let none = json!({});
    finds(
        web(json!({ "cert_file": "c", "key_file": "k" }), none.clone()),
        &[],
    );
    finds(web(acme(json!({})), none.clone()), &[]);
    finds(
        web(json!({}), none.clone()),
        &["listeners.web.tls: there is no certificate; add `cert_file` and `key_file`, or `acme`"],
    );
    finds(
        web(json!({ "key_file": "k" }), none.clone()),
        &["listeners.web.tls.key_file: the key has no certificate; add `cert_file`"],
    );
    let mut both = acme(json!({}));
    both["cert_file"] = "c".into();
    finds(
        web(both, none),
        &[
            "listeners.web.tls.acme: the certificate comes from files or from an authority, not from both; remove `acme`, or `cert_file` and `key_file`",
        ],
    );
}

#[test]
fn terms_are_agreed_to_by_a_person() {
    let silent = acme(json!({ "terms_agreed": false, "directory": "https://ca.example/dir" }));
    finds(
        web(silent, json!({})),
        &[
            "listeners.web.tls.acme.terms_agreed: an authority issues certificates only to users who agree to its terms of service; read those of https://ca.example/dir, and write `terms_agreed: true`",
        ],
    );
}

#[test]
fn names_are_those_that_an_authority_can_find_by_itself() {
    let path = "listeners.web.tls.acme.domains[0]";
    let domains = |domain: &str, reason: &str, remedy: &str| {
        let tls = acme(json!({ "domains": [domain] }));
        finds(
            web(tls, json!({})),
            &[&format!("{path}: `{domain}` {reason}; {remedy}")],
        );
    };
    let list = "list the names, or use `cert_file` and `key_file`";
    domains(
        "*.example.org",
        "is a wildcard, which only DNS can prove",
        list,
    );
    domains(
        "192.0.2.1",
        "is an address",
        "write a name that DNS leads here",
    );
    domains(
        "WWW.example.org",
        "has capital letters",
        "write it in small letters",
    );
    for bad in [
        "localhost",
        "-a.example",
        "a..b",
        "a/b.example",
        "../x.y",
        "ä.example",
    ] {
        domains(
            bad,
            "is not a DNS name",
            "write it like www.example.org, names of other scripts as xn--",
        );
    }
}

#[test]
fn an_authority_is_reached_over_tls_and_reaches_the_listener() {
    finds(
        web(
            acme(json!({ "directory": "http://ca.example/dir" })),
            json!({}),
        ),
        &[
            "listeners.web.tls.acme.directory: this is not an `https` URL, which ACME requires; write it like https://acme-v02.api.letsencrypt.org/directory",
        ],
    );
    finds(
        web(acme(json!({ "email": "admin" })), json!({})),
        &[
            "listeners.web.tls.acme.email: this is not an email address; write it like admin@example.org, or remove it",
        ],
    );

    let mut tls = acme(json!({}));
    tls["client_ca_file"] = "a".into();
    finds(
        web(tls.clone(), json!({ "auth": "mtls" })),
        &[
            "listeners.web.tls.acme.challenge: the authority has no client certificate, which this listener requires; write `challenge: http-01`",
        ],
    );
    tls["acme"]["challenge"] = "http-01".into();
    finds(web(tls, json!({ "auth": "mtls" })), &[]);
}

#[test]
fn two_certificates_are_not_kept_in_one_file() {
    let other = acme(json!({ "domains": ["www.example.org", "b.example.org"] }));
    let mut document = web(acme(json!({})), json!({}));
    document["listeners"]["other"] = json!({ "http": "[::1]:8443", "tls": other });
    finds(
        document,
        &[
            "listeners.other.tls.acme: another listener keeps another certificate in the same file; write the same `acme` for both, or another `folder`",
        ],
    );
}
