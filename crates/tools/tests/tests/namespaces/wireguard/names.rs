//! Names of the overlay for a host without Hermes: its name server is behind WireGuard, as on a phone.

use hermes_tests::eventually::eventually;

use super::endpoint::EndpointProgram;
use super::{Keys, networks};
use crate::named::{page, resolving};
use crate::packets::start;

/// Where the first node is asked for names.
const SERVER: &str = "100.64.0.2";

#[test]
fn a_host_without_hermes_reaches_names() {
    let topology = networks();
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hello"), "hello from VIDEO").unwrap();
    let conf = folder.path().join("resolv.conf");
    std::fs::write(&conf, format!("nameserver {SERVER}\n")).unwrap();

    let _page = page(&topology, "first", folder.path());
    let yaml = keys
        .first_node("", "")
        .replace(
            "name: alice",
            "name: alice\n                  dns: { pool: 100.64.0.0/16, others: refuse }",
        )
        .replace(
            "routes: [",
            "routes: [ { match: { target: VIDEO, user: alice }, terminate: video },",
        )
        .replace(
            "upstreams: {",
            "upstreams: { video: { endpoints: [127.0.0.1:8000] },",
        );
    let first = start(&topology, "first", &yaml);
    let allowed = ["10.9.0.0/24", "100.64.0.0/16"];
    let _alice = keys.alice_to(&topology, EndpointProgram::WireguardGo, &allowed);

    let run = |words: &[&str]| {
        let mut by = resolving(&topology, &conf, words[0]);
        let done = by.args(&words[1..]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        done.status.success().then_some(said)
    };
    let curl = std::env::var("HERMES_CURL").unwrap();
    let page = eventually("the page", || {
        run(&[&curl, "-sf", "-m", "10", "http://VIDEO/hello"])
    });
    assert_eq!(page, "hello from VIDEO");
    assert!(run(&["ping", "-c", "1", "-W", "5", "VIDEO"]).is_some());
    assert_eq!(run(&["getent", "hosts", "NOPE"]), None);

    let status = first.status();
    let devices = status["devices"].as_array().unwrap();
    let device = devices.iter().find(|one| one["name"] == "alice").unwrap();
    assert_eq!(device["names"]["servers"][0], SERVER, "{device:#}");
    assert_eq!(device["names"]["names"], 1, "{device:#}");
}
