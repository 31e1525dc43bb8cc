//! A file that a reload reads stands still: a pipe, or a file of a machine that is gone. Nothing else does.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pki, curl};
use rustix::fs::OFlags;
use rustix::process::Signal;

#[test]
fn a_reload_whose_files_stand_still_stops_neither_administration_nor_other_reloads() {
    let pki = Pki::new();
    let issued = pki.issue(&["localhost"]);
    let yaml = |level: &str| {
        format!(
            "
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
            routes: [ {{ respond: {{ status: 404 }} }} ]
            log: {{ level: {level} }}
            ",
            issued.yaml()
        )
    };
    let node = Node::start("edge", &yaml("info"));
    node.write(&yaml("debug"));
    let (status, said) = node.ask("POST", "/reload", "600s");
    assert_eq!(status, 200, "{said}");

    let kept = issued.key.with_extension("kept");
    fs::rename(&issued.key, &kept).unwrap();
    let mut command = Command::new("mkfifo");
    let made = command.args(["-m", "600"]).arg(&issued.key).status();
    assert!(made.unwrap().success());
    node.signal(Signal::HUP);
    let pipe = eventually("the reload reads the pipe", || {
        let mut options = OpenOptions::new();
        options.write(true);
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        options.open(&issued.key).ok()
    });

    // What was to be confirmed is, and what has its files is put in force.
    assert_eq!(node.ask("GET", "/status", "").0, 200);
    assert_eq!(node.ask("GET", "/config", "").0, 200);
    let (status, said) = node.ask("POST", "/confirm", "");
    assert_eq!(status, 200, "{said}");
    fs::remove_file(&issued.key).unwrap();
    fs::rename(&kept, &issued.key).unwrap();
    let (status, said) = node.reload(&yaml("trace"));
    assert_eq!(status, 200, "{said}");

    // The one that stood still ends when its file does, and changes nothing.
    drop(pipe);
    eventually_true("it has ended", || node.log().contains("not reloaded"));
    assert_eq!(node.status()["config"]["revision"], 3);
}

#[test]
fn leases_that_stand_still_stop_neither_a_worker_nor_the_end_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let leases = folder.path().join("leases");
    let made = Command::new("mkfifo").arg(&leases).status();
    assert!(made.unwrap().success());
    let yaml = "workers: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\n\
                routes: [ { match: { listener: web, kind: http }, respond: { status: 204 } }, \
                { match: { kind: connect-ip }, terminate: { intercept: true, pool: 10.7.0.0/24, leases_file: leases } } ]\n";
    let mut node = Node::start_in(folder, "edge", yaml, &[]);
    eventually_true("it is said", || {
        let (status, said) = node.ask("GET", "/readyz", "");
        status == 503 && said.contains("it stands still")
    });
    assert_eq!(curl(&["-x", &node.url("web"), "http://a/"]).status, 204);

    // The file is there again, so to speak: what stood still ends, and the next try finds none.
    fs::rename(&leases, leases.with_extension("away")).unwrap();
    let mut options = OpenOptions::new();
    options.write(true);
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    drop(options.open(leases.with_extension("away")).unwrap());
    eventually_true("it is ready", || node.ask("GET", "/readyz", "").0 == 200);
    assert!(node.stop().success());

    // Nor does one that still stands still keep the node from ending.
    fs::rename(leases.with_extension("away"), &leases).unwrap();
    node.restart();
    eventually_true("it is said again", || {
        node.ask("GET", "/readyz", "").1.contains("it stands still")
    });
    assert!(node.stop().success());
}
