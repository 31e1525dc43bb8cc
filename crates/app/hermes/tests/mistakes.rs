//! Mistakes in a sound document: each is reported, and nothing that only seems to follow from it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Map, Value, json};

/// A sound document in which much would seem wrong if any part of it were not there.
fn sound() -> Value {
    let tls =
        json!({ "cert_file": "node.pem", "key_file": "node.key", "client_ca_file": "node.pem" });
    json!({
        "version": 1,
        "identity": { "user": "alice", "token_file": "token" },
        "fields": ["user", "colour"],
        "admin": { "socket": "admin.sock", "metrics": "127.0.0.1:9100" },
        "listeners": {
            "web": { "http": "0.0.0.0:8443", "tls": tls, "auth": "mtls", "gateway": true, "accepts": ["colour"] },
            "ways": { "http": "0.0.0.0:8444", "tls": tls, "auth": { "mtls": true }, "insecure_trust": ["10.0.0.0/8"] },
            "open": { "http": "0.0.0.0:8080", "public": true, "set": { "service": "x" }, "remove": ["a", "b"] },
            "db": { "tcp": "127.0.0.1:5432", "target": "DB:5432", "user": "bob" },
            "dns": { "udp": "127.0.0.1:53", "target": "DNS:53", "datagrams": { "hold_time": "1s" } },
        },
        "routes": [
            { "match": { "target": ["A", "B"], "listener": ["web", "db"] }, "to": "core", "name": "first" },
            { "match": { "target": "A", "port": [80, 443] }, "to": { "core": 1, "edge": 0 }, "expose": ["colour"] },
            { "match": { "path": ["/x", "/y/*"], "method": "GET" }, "terminate": "edge", "timeouts": { "idle": "1s" } },
            { "match": { "fields": { "colour": "red", "service": true } }, "respond": { "status": 204 } },
            { "match": { "user": "bob", "source": "10.0.0.0/8" }, "redirect": { "location": "http://x/" } },
            { "match": { "protocol": "connect-udp", "authority": "C" }, "terminate": true },
            { "to": "core", "rewrite": { "path": { "prefix": "/a", "with": "/b" } } },
        ],
        "upstreams": {
            "core": {
                "endpoints": ["10.0.0.1:443", { "address": "10.0.0.2:443", "weight": 2 }],
                "http": [2, 1],
                "tls": { "ca_file": "node.pem", "cert_file": "node.pem", "key_file": "node.key", "server_name": "x" },
                "send_token": true,
            },
            "edge": { "endpoints": ["10.0.0.3:443"], "via": "core" },
        },
        "peers": { "sap": { "certificate": ["a", "b"], "speaks_for": ["*"] }, "cop": { "certificate": "c" } },
    })
}

/// The files that the document names.
fn write_files(folder: &Path) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    for (name, text) in [
        ("node.pem", cert.pem()),
        ("node.key", signing_key.serialize_pem()),
        ("token", "secret".to_owned()),
    ] {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// The problems of the document's form, and all of its problems.
fn problems(document: &Value, folder: &Path) -> (String, String) {
    let file = folder.join("node.yaml");
    fs::write(&file, document.to_string()).unwrap();
    let read = || hermes_config::read(&file, &|_| None);
    match (read(), read()) {
        (Err(form), Err(all)) => (
            form.problems().to_string(),
            all.judged(hermes_node::check_rest).to_string(),
        ),
        (Ok(loaded), _) | (_, Ok(loaded)) => {
            let found = hermes_node::check(loaded).err();
            (
                String::new(),
                found
                    .map(|problems| problems.to_string())
                    .unwrap_or_default(),
            )
        }
    }
}

/// The path of everything in the document, as JSON pointers.
fn pointers(value: &Value, pointer: &str, out: &mut Vec<String>) {
    let mut inner = |key: &str, value: &Value| {
        out.push(format!("{pointer}/{key}"));
        pointers(value, &format!("{pointer}/{key}"), out);
    };
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| inner(key, value)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| inner(&index.to_string(), item)),
        _ => {}
    }
}

/// Sections whose keys are names: another name is no mistake of form.
const NAMES: [&str; 6] = [
    "/listeners",
    "/upstreams",
    "/peers",
    "/set",
    "/to",
    "/fields",
];

/// Breaks what is at the pointer: a value of the wrong kind, none, a variable that is not set, or a mistyped key.
fn broken(document: &mut Value, pointer: &str, kind: usize) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let renamed = format!("{key}{key}x");
    match (document.pointer_mut(parent), kind) {
        (Some(Value::Object(entries)), 3) if !NAMES.iter().any(|names| parent.ends_with(names)) => {
            let mistyped: Map<String, Value> = std::mem::take(entries)
                .into_iter()
                .map(|(name, value)| {
                    if name == key {
                        (renamed.clone(), value)
                    } else {
                        (name, value)
                    }
                })
                .collect();
            *entries = mistyped;
        }
        (Some(_), kind) => {
            let wrong = [
                json!([[["wrong"]]]),
                Value::Null,
                json!("${NOT_SET}"),
                json!([[]]),
            ];
            if let Some(value) = document.pointer_mut(pointer) {
                *value = wrong[kind].clone();
            }
        }
        (None, _) => {}
    }
}

#[test]
fn nothing_follows_from_one_mistake() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    assert_eq!(
        problems(&sound(), folder.path()),
        (String::new(), String::new())
    );
    let mut all = Vec::new();
    pointers(&sound(), "", &mut all);
    for pointer in &all {
        for kind in 0..4 {
            let mut document = sound();
            broken(&mut document, pointer, kind);
            let (form, all) = problems(&document, folder.path());
            assert!(!form.is_empty(), "{pointer} {kind}");
            assert_eq!(all, form, "{pointer} {kind}");
        }
    }
}

#[test]
fn nothing_follows_from_several_mistakes() {
    const ROUNDS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let mut all = Vec::new();
    pointers(&sound(), "", &mut all);
    // Steps that have no divisor in common with the number of places come by every pair sooner or later.
    for round in 0..ROUNDS {
        let mut document = sound();
        for (step, kind) in [
            (7919, round % 4),
            (104_729, round / 4 % 4),
            (1_299_709, round / 16 % 4),
        ] {
            broken(&mut document, &all[round * step % all.len()], kind);
        }
        let (form, all) = problems(&document, folder.path());
        assert_eq!(all, form, "{document:#}");
    }
}

#[test]
fn what_has_nothing_to_do_with_a_mistake_is_found_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let cases = [
        (
            "/upstreams/core/tls/ca_file",
            json!("none.pem"),
            "upstreams.core.tls.ca_file: ",
            "none.pem: ",
        ),
        (
            "/upstreams/edge/via",
            json!("cor"),
            "upstreams.edge.via: ",
            "there is no upstream `cor`",
        ),
        (
            "/routes/0/to",
            json!("cor"),
            "routes[0].to: ",
            "there is no upstream `cor`",
        ),
        (
            "/routes/0/match/listener/0",
            json!("wob"),
            "routes[0].match.listener[0]: ",
            "there is no listener `wob`",
        ),
        (
            "/routes/1/match",
            json!({ "target": "A", "listener": "web" }),
            "routes[1]: ",
            "can never match: routes[0]",
        ),
        (
            "/listeners/db/tcp",
            json!("0.0.0.0:8080"),
            "listeners.db.tcp: ",
            "listeners.open.http listens on",
        ),
        (
            "/listeners/db/public",
            json!(false),
            "listeners.db.tcp: ",
            "strangers can reach",
        ),
    ];
    for (pointer, wrong, path, reason) in cases {
        let mut document = sound();
        document["listeners"]["db"]["tcp"] = json!("0.0.0.0:5432");
        document["listeners"]["db"]["public"] = json!(true);
        *document.pointer_mut(pointer).unwrap() = wrong;
        // Two mistakes of form, one of them in a route, an upstream and a listener that have something wrong besides.
        for mistake in [
            "/routes/0/zzz",
            "/upstreams/edge/zzz",
            "/listeners/web/zzz",
            "/zzz",
        ] {
            let (parent, key) = mistake.rsplit_once('/').unwrap();
            let mut document = document.clone();
            document.pointer_mut(parent).unwrap()[key] = json!(1);
            let (_, all) = problems(&document, folder.path());
            assert!(all.contains("zzz: unknown key"), "{all}");
            assert!(
                all.lines()
                    .any(|line| line.contains(path) && line.contains(reason)),
                "{pointer} {mistake}\n{all}"
            );
        }
    }
}

#[test]
fn names_that_a_file_or_a_section_would_have_given_are_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    let routes = "listeners: { web: { http: 127.0.0.1:80 } }\nroutes: [{ to: core }]\n";
    for (rest, expected) in [
        ("include: [none.yaml]", "include[0]: cannot read"),
        (
            "include: [\"${NOT_SET}\"]",
            "include[0]: the variable `NOT_SET` is not set",
        ),
        ("inclued: [none.yaml]", "inclued: unknown key"),
        (
            "upstreams: {}\nupstreams: { core: { endpoints: [\"a:1\"] } }",
            "upstreams: this was already given",
        ),
        (
            "clusters: { core: { endpoints: [\"a:1\"] } }",
            "clusters: unknown key",
        ),
        ("upstreams: [core]", "upstreams: expected a map"),
        (
            "upstreams: { core: \"a:1\" }",
            "upstreams.core: expected a map",
        ),
    ] {
        fs::write(&file, format!("version: 1\n{routes}{rest}\n")).unwrap();
        let problems = hermes_config::read(&file, &|_| None)
            .unwrap_err()
            .judged(hermes_node::check_rest)
            .to_string();
        assert!(
            problems.lines().count() == 1 && problems.contains(expected),
            "{problems}"
        );
    }
}
