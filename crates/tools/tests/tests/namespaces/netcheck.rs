//! `hermes netcheck` on machines that allow it all, some of it, or nothing; and paths of several kinds.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use hermes_lab::topology::{Plug, Topology};
use hermes_net::os::masquerades;
use hermes_tests::{Node, Pki, program};
use serde_json::Value;

use super::{command, within};

/// A user who owns nothing.
const STRANGER: &str = "65534";

fn one_network() -> Topology {
    let mut topology = Topology::new();
    topology.add("alice").unwrap();
    topology
}

/// The exit code and what was said.
fn finished(command: &mut Command) -> (Option<i32>, Value) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = serde_json::from_slice(&stdout).unwrap_or_else(|error| {
        let stdout = String::from_utf8_lossy(&stdout);
        panic!("{error}: {stdout}{}", String::from_utf8_lossy(&stderr))
    });
    (status.code(), said)
}

/// `hermes netcheck --json` with these arguments in `alice`.
fn netcheck(topology: &Topology, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut netcheck = command(topology, "alice", program::path().to_str().unwrap());
    finished(netcheck.args(["netcheck", "--json"]).args(arguments))
}

fn feature<'a>(said: &'a Value, name: &str) -> &'a Value {
    let mut features = said["features"].as_array().unwrap().iter();
    features
        .find(|feature| feature["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {said}"))
}

/// The first line of what would mend it.
fn remedy<'a>(said: &'a Value, name: &str) -> &'a str {
    let feature = feature(said, name);
    assert_eq!(feature["works"], false, "{feature}");
    feature["remedy"][0].as_str().unwrap()
}

#[test]
fn root_may_do_what_a_tun_needs_and_nothing_is_left_behind() {
    let topology = one_network();
    let (code, said) = netcheck(
        &topology,
        &[
            "--require",
            "tun,netlink,netlink-change,masquerade,mark,cgroups,tproxy,http3,gso,gro,capture",
        ],
    );
    assert_eq!(code, Some(0), "{said:#}");
    assert!(said["as"].as_str().unwrap().starts_with("root"));

    let left = topology.namespace("alice").unwrap();
    let left = left.run(&["ip", "-o", "link"]).unwrap();
    assert!(!left.contains("hermes"), "{left}");
    let tables = within(&topology, "alice", || masquerades().unwrap());
    assert!(tables.is_empty(), "{tables:?}");
}

#[test]
fn a_user_without_rights_is_told_how_to_get_them() {
    let topology = one_network();
    // Where the program is, this user may have no way to.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("hermes");
    program::copy(&copy);

    let mut as_stranger = command(&topology, "alice", "setpriv");
    as_stranger
        .args([
            "--reuid",
            STRANGER,
            "--regid",
            STRANGER,
            "--clear-groups",
            "--",
        ])
        .arg(&copy)
        .args(["netcheck", "--json", "--require", "tun"]);
    let (code, said) = finished(&mut as_stranger);

    assert_eq!(code, Some(1), "{said:#}");
    assert_eq!(
        said["as"].as_str().unwrap().split(',').next(),
        Some("user 65534")
    );
    let setcap = format!("sudo setcap cap_net_admin+ep {}", copy.display());
    assert_eq!(remedy(&said, "tun"), setcap);
    assert_eq!(remedy(&said, "netlink-change"), setcap);
    assert_eq!(remedy(&said, "masquerade"), setcap);
    assert!(remedy(&said, "tproxy").starts_with("sudo setcap cap_net_admin,cap_net_raw+ep"));
    for works in ["netlink", "http3", "gso", "gro"] {
        assert_eq!(feature(&said, works)["works"], true, "{said:#}");
    }
}

#[test]
fn root_whose_rights_were_taken_is_told_so() {
    let topology = one_network();
    let mut without = command(&topology, "alice", "setpriv");
    without
        .args(["--bounding-set", "-all", "--inh-caps", "-all", "--"])
        .arg(program::path())
        .args(["netcheck", "--json"]);
    let (code, said) = finished(&mut without);

    assert_eq!(code, Some(0), "nothing was required: {said:#}");
    assert_eq!(
        remedy(&said, "netlink-change"),
        "in a container: docker run --cap-add NET_ADMIN .."
    );
}

#[test]
fn a_machine_without_tun_devices_is_told_apart_from_one_that_forbids_them() {
    let topology = one_network();
    // A folder of its own in place of /dev/net, for this command only.
    let script = format!(
        "mount -t tmpfs none /dev/net && exec {} netcheck --json --require tun",
        program::path().display()
    );
    let mut hidden = command(&topology, "alice", "unshare");
    let (code, said) = finished(hidden.args(["--mount", "--", "sh", "-c", &script]));

    assert_eq!(code, Some(1), "{said:#}");
    assert!(remedy(&said, "tun").starts_with("modprobe tun"));
    assert_eq!(feature(&said, "netlink-change")["works"], true, "{said:#}");
}

/// `alice`, a router, and a server behind a link that carries less.
fn with_a_narrow_link() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "router", "server"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("alice", "10.0.1.1/24"), plug("router", "10.0.1.2/24"))
        .unwrap();
    topology
        .cable(plug("router", "10.0.2.1/24"), plug("server", "10.0.2.2/24"))
        .unwrap();
    topology.route("alice", "10.0.2.0/24", "10.0.1.2").unwrap();
    topology.route("server", "10.0.1.0/24", "10.0.2.1").unwrap();

    let router = topology.namespace("router").unwrap();
    router
        .run(&["ip", "link", "set", "dev", "server", "mtu", "1400"])
        .unwrap();
    topology
}

#[test]
fn the_mtu_of_a_path_is_that_of_its_narrowest_link() {
    let topology = with_a_narrow_link();
    let pki = Pki::new();
    let yaml = format!(
        "
        listeners: {{ overlay: {{ http: \"10.0.2.2:8443\", public: true, tls: {{ {} }} }} }}
        routes: [ {{ match: {{ target: VIDEO }}, respond: {{ status: 204 }} }} ]
        ",
        pki.issue(&["10.0.2.2"]).yaml()
    );
    let node = program::path();
    let started = command(&topology, "server", node.to_str().unwrap());
    let _server = Node::start_by(started, "server", &yaml);

    let (code, said) = netcheck(&topology, &["10.0.2.2:8443", "--require", "path"]);
    assert_eq!(code, Some(0), "{said:#}");
    let path = &said["paths"][0];
    assert_eq!(path["quic"]["mtu"], 1400, "{path:#}");
    assert_eq!(path["route_mtu"], 1500, "{path:#}");
    assert_eq!(path["tcp"]["works"], true, "{path:#}");
    let versions = path["quic"]["versions"].as_array().unwrap();
    assert!(versions.contains(&Value::from("version 1")), "{path:#}");
    assert!(path["remedy"][0].as_str().unwrap().contains("mtu 1400"));
}

#[test]
fn a_server_without_quic_is_told_from_none_at_all() {
    let topology = with_a_narrow_link();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(
        &file,
        "version: 1\nlisteners: { web: { http: 127.0.0.1:8080 } }\nroutes: [ { to: far } ]\n\
         upstreams: { far: { endpoints: [\"10.0.2.2:8443\", \"10.0.2.2:9\"] } }\n",
    )
    .unwrap();
    let yaml = "
        listeners: { overlay: { http: 10.0.2.2:8443, public: true } }
        routes: [ { match: { target: VIDEO }, respond: { status: 204 } } ]
    ";
    let node = program::path();
    let started = command(&topology, "server", node.to_str().unwrap());
    let _server = Node::start_by(started, "server", yaml);

    let arguments = [file.to_str().unwrap(), "--require", "path"];
    let (code, said) = netcheck(&topology, &arguments);
    assert_eq!(code, Some(1), "{said:#}");
    let [web, none] = said["paths"].as_array().unwrap().as_slice() else {
        panic!("{said:#}")
    };
    assert_eq!(web["works"], true, "{web:#}");
    let remedy = web["remedy"][0].as_str().unwrap();
    assert!(remedy.contains("let UDP port 8443 through"), "{remedy}");
    assert_eq!(none["works"], false, "{none:#}");
    let remedy = none["remedy"][0].as_str().unwrap();
    assert!(remedy.contains("nothing answers at 10.0.2.2:9"), "{remedy}");
}
