//! `hermes ping` and `hermes trace`: the way of a user's exchanges to a name, hop by hop.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hermes_harness::free;
use hermes_harness::origins;
use hermes_harness::overlay::{Hub, Joined};
use hermes_harness::program::{self, Said};
use hermes_harness::resources::Resources;
use rustix::process::Signal;
use serde_json::Value;

/// A hub by which devices enter, a node behind it, and servers beside that one.
fn overlay(hub: SocketAddr, yard: SocketAddr, video: SocketAddr) -> String {
    Resources::new()
        .ingress("hub", hub)
        .node("yard", yard)
        .service("video", &[("yard", video)])
        .service("closed", &[("yard", free::tcp())])
        .name("VIDEO", "video")
        .name("DB:5432", "video")
        .name("CLOSED", "closed")
        .allow("of-alice", "user: alice")
        .text()
}

fn asked(device: &Joined, arguments: &[&str]) -> Said {
    let proxy = format!("http://{}", device.web);
    program::run(&[arguments, &["--proxy", &proxy, "--json"]].concat())
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn nodes(answer: &Value) -> Vec<&str> {
    let hops = answer["hops"].as_array().unwrap();
    hops.iter()
        .map(|hop| hop["node"].as_str().unwrap())
        .collect()
}

#[test]
fn ping_and_trace_tell_each_hop_to_a_name_and_where_a_way_stops() {
    let origin = origins::http();
    let controller = Hub::controller();
    let overlay = overlay(free::tcp(), free::tcp(), origin.address());
    controller.apply(&overlay, &[]);
    let _hub = controller.member("hub");
    let mut far = controller.member("yard");
    let device = controller.device("alice", "laptop");
    let other = controller.device("bob", "desk");

    pings(&device);
    assert_eq!(origin.seen().len(), 0, "a server was asked");
    traces(&device);
    let seen = origin.seen();
    assert_eq!(seen[0].field("proxy-trace"), None);

    // Who may not reach a name is told that, by the node that refuses, and what is behind is not asked.
    for command in ["ping", "trace"] {
        let said = asked(&other, &[command, "VIDEO"]);
        assert_eq!(said.code, 1, "{said:?}");
        let answer = json(&said);
        assert!(!said.stdout.contains("yard"), "{answer:#}");
        assert_eq!(answer["stopped"]["node"], "hub", "{answer:#}");
        let reason = answer["stopped"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("http_request_denied"), "{answer:#}");
        assert!(answer["stopped"]["refusal"].is_string(), "{answer:#}");
    }

    far.kill();
    let said = asked(&device, &["ping", "VIDEO", "--count", "1"]);
    assert_eq!(said.code, 1, "{said:?}");
    let answer = json(&said);
    assert_eq!(nodes(&answer), ["laptop", "hub"], "{answer:#}");
    assert_eq!(answer["stopped"]["node"], "hub", "{answer:#}");
}

fn pings(device: &Joined) {
    for name in ["VIDEO", "DB:5432", "http://VIDEO/a/b"] {
        let said = asked(device, &["ping", name, "--count", "3"]);
        assert_eq!(said.code, 0, "{said:?}");
        let answer = json(&said);
        assert_eq!(nodes(&answer), ["laptop", "hub", "yard"], "{answer:#}");
        for hop in answer["hops"].as_array().unwrap() {
            assert_eq!((&hop["sent"], &hop["received"]), (&3.into(), &3.into()));
            assert_eq!(hop["loss"], 0.0, "{answer:#}");
            let [min, median, max] =
                ["min_ms", "median_ms", "max_ms"].map(|key| hop[key].as_f64().unwrap());
            assert!(0.0 < min && min <= median && median <= max, "{answer:#}");
        }
        assert_eq!(answer["hops"][2]["end"], true, "{answer:#}");
    }
}

fn traces(device: &Joined) {
    let said = asked(device, &["trace", "VIDEO"]);
    assert_eq!(said.code, 0, "{said:?}");
    let answer = json(&said);
    assert_eq!(answer["status"], 200, "{answer:#}");
    assert_eq!(nodes(&answer), ["laptop", "hub", "yard"], "{answer:#}");
    let hub = &answer["hops"][1];
    assert_eq!(hub["rule"], "of-alice", "{answer:#}");
    assert_eq!(hub["route"], "video", "{answer:#}");
    let yard = &answer["hops"][2];
    assert_eq!(yard["next"], "service-video", "{answer:#}");
    let took = |hop: &Value| hop["took_ms"].as_f64().unwrap();
    assert!(took(&answer["hops"][0]) >= took(yard), "{answer:#}");

    let said = asked(device, &["trace", "DB:5432"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(nodes(&json(&said)), ["laptop", "hub", "yard"], "{said:?}");

    // The nodes are all there, the server is not.
    assert_eq!(asked(device, &["ping", "CLOSED", "--count", "1"]).code, 0);
    let said = asked(device, &["trace", "CLOSED"]);
    assert_eq!(said.code, 1, "{said:?}");
    let answer = json(&said);
    assert_eq!(answer["stopped"]["node"], "yard", "{answer:#}");
    let reason = answer["stopped"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("connection_refused"), "{answer:#}");
    assert_eq!(answer["hops"][2]["route"], "closed", "{answer:#}");
}

/// The longest that a user may wait who has pressed a key, with a machine that is busy with other tests.
const PRESSED: Duration = Duration::from_secs(3);

/// What bash offers for the last of these words, as one that has no controller or this one.
fn offered(controller: Option<&Path>, words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let socket = controller.map_or(folder.path().join("none"), Path::to_owned);
    let program = program::path();
    let script = format!(
        "hermes() {{ '{}' \"$@\"; }}\neval \"$(hermes completions bash)\"\n\
         COMP_WORDS=({})\nCOMP_CWORD={}\n\
         _hermes hermes \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        program.display(),
        words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" "),
        words.len() - 1,
    );
    let said = Command::new("bash")
        .args(["--norc", "-c", &script])
        .env("HERMES_CONTROLLER_SOCKET", socket)
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .unwrap();
    assert!(said.stderr.is_empty(), "{said:?}");
    let text = String::from_utf8(said.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_names_and_waits_for_no_controller() {
    let controller = Hub::controller();
    let address = free::tcp();
    controller.apply(&overlay(address, address, address), &[]);
    let token = controller.token("carol");
    let listed = controller.ask(&["token", "list"]).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    assert!(!token.is_empty());
    let socket = Path::new(&controller.state()).join("controller.sock");
    let of = |words: &[&str]| offered(Some(&socket), words);

    assert_eq!(of(&["hermes", "revoke", "ya"]), ["yard"]);
    assert_eq!(of(&["hermes", "revoke", "--user", "al"]), ["alice"]);
    assert_eq!(of(&["hermes", "forget", "h"]), ["hub"]);
    assert_eq!(of(&["hermes", "nodes", "--update", ""]), ["hub", "yard"]);
    assert_eq!(of(&["hermes", "token", "delete", &id[..2]]), [id]);
    assert_eq!(
        of(&["hermes", "token", "create", "--user", "car"]),
        ["carol"]
    );
    assert_eq!(of(&["hermes", "ping", "V"]), ["VIDEO"]);
    assert_eq!(of(&["hermes", "trace", "D"]), ["DB:5432"]);
    assert_eq!(of(&["hermes", "get", "Pol"]), ["Policy/default/of-alice"]);
    let two = ["hermes", "delete", "Name/default/db", "Name/default/v"];
    assert_eq!(of(&two), ["Name/default/video"]);

    let ask = |controller: Option<&Path>| {
        let began = Instant::now();
        let offered = offered(controller, &["hermes", "revoke", ""]);
        assert!(began.elapsed() < PRESSED, "{:?}", began.elapsed());
        offered
    };
    assert_eq!(ask(None), [""; 0]);
    controller.signal(Signal::STOP);
    let standing = ask(Some(&socket));
    controller.signal(Signal::CONT);
    assert_eq!(standing, [""; 0]);
}
