//! A file that a reload reads stands still: a pipe, or a file of a machine that is gone. Nothing else does.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pki};
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
