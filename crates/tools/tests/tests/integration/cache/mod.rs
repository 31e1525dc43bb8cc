//! The cache between clients and origins, by the clients that people have.

mod disk;
mod parts;
mod poisoning;
mod purge;
mod reuse;
mod signed;
mod worked_example;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hermes_tests::curl::Output;
use hermes_tests::origins::Origin;
use hermes_tests::{Node, curl};

/// A node whose cache has these settings, and two users, alice and bob, whose passwords are their names.
fn node(settings: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let line = |name: &str| format!("{name}:{}\n", bcrypt::hash(name, 4).unwrap());
    fs::write(&users, ["alice", "bob"].map(line).concat()).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let yaml = format!(
        "listeners:\n  web: {{ http: 127.0.0.1:0 }}\n  known: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: users }} }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         routes: [ {{ terminate: true, through: [ {{ cache: {{ {settings} }} }} ] }} ]\n"
    );
    Node::start_in(folder, "cache", &yaml, &[])
}

/// An answer with these fields, each with its line end, and this content.
fn answer(fields: &str, content: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{content}",
        content.len()
    )
}

/// Asks for a path of this origin.
fn get(node: &Node, origin: &Origin<String>, path: &str, arguments: &[&str]) -> Output {
    let proxy = node.url("web");
    let url = format!("http://{}{path}", origin.address());
    let mut all = vec!["-x", proxy.as_str(), "--path-as-is"];
    all.extend(arguments);
    all.push(&url);
    curl(&all)
}

/// As [`get`], as this user.
fn ask_as(user: &str, node: &Node, origin: &Origin<String>, arguments: &[&str]) -> Output {
    let proxy = node.url("known");
    let url = format!("http://{}/a", origin.address());
    let credential = format!("{user}:{user}");
    let mut all = vec!["-x", proxy.as_str(), "-U", &credential];
    all.extend(arguments);
    all.push(&url);
    curl(&all)
}

/// How the cache handled it.
fn status(got: &Output) -> String {
    got.field("cache-status")
        .unwrap_or_else(|| panic!("{got:?}"))
}

/// Whether it was answered by a stored response.
fn is_hit(got: &Output) -> bool {
    status(got).contains("hermes; hit")
}
