//! The system's authorities, which change while a node runs: an administrator adds one, or a package does.

use std::fs;

use hermes_tests::{Node, Pki, curl, origins};

#[test]
fn a_reload_reads_the_systems_authorities_again() {
    let theirs = Pki::new();
    let other = Pki::new();
    let origin = origins::https(&theirs, &["127.0.0.1"]);
    let folder = tempfile::tempdir().unwrap();
    let system = folder.path().join("system.pem");
    fs::copy(other.ca(), &system).unwrap();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: origin }} ]\n\
         upstreams: {{ origin: {{ endpoints: [\"{}\"], tls: true, http: 1 }} }}\n",
        origin.address()
    );
    let named = system.display().to_string();
    let node = Node::start_in(folder, "edge", &yaml, &[("SSL_CERT_FILE", &named)]);
    let ask = || curl(&["-x", &node.url("web"), "http://origin/"]).status;
    assert_eq!(ask(), 502);

    // Nothing changes by itself, nor by a reload without a change.
    assert_eq!(node.ask("POST", "/reload", "").0, 200);
    assert_eq!(ask(), 502);
    fs::copy(theirs.ca(), &system).unwrap();
    assert_eq!(node.ask("POST", "/reload", "").0, 200);
    assert_eq!(ask(), 200);
    assert!(
        node.log().contains("authorities have changed"),
        "{}",
        node.log()
    );
}
