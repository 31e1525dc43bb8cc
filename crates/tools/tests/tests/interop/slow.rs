//! slowhttptest: clients that hold connections with next to nothing, while others are served.

use std::process::{Command, Stdio};

use hermes_tests::{Node, curl, origins};

/// Runs slowhttptest for a few seconds with 400 connections, and asks for something all the while from another address; `came`
/// says whether the attack reached the node.
fn attack(mode: &[&str], path: &str, came: fn(&Node) -> bool) {
    let origin = origins::http();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              web:
                http: 0.0.0.0:0
                public: true
                gateway: true
                limits: {{ head_time: 2s, idle_time: 2s, per_source: 200, min_rate: 1MiB, rate_window: 1s }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let port = node.address("web").port();
    let program = std::env::var_os("HERMES_SLOWHTTPTEST").unwrap_or_else(|| "slowhttptest".into());
    let mut slow = Command::new(&program)
        .args(mode)
        .args([
            "-c",
            "400",
            "-r",
            "400",
            "-l",
            "3",
            "-i",
            "1",
            "-u",
            &format!("http://127.0.0.1:{port}{path}"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; run `./test install`", program.display()));
    let mut served = 0;
    while slow.try_wait().unwrap().is_none() {
        let answer = curl(&[
            "--interface",
            "127.0.0.2",
            &format!("http://127.0.0.1:{port}/other"),
        ]);
        assert_eq!(
            answer.status, 200,
            "after {served} that were served: {answer:?}"
        );
        served += 1;
    }
    assert!(served > 0);
    assert!(came(&node), "the attack came");
    node.idle();
}

/// More connections were held than one source may have.
fn held(node: &Node) -> bool {
    node.log().contains("limits.per_source is reached")
}

/// As [`held`], and their content was found to be too slow.
fn held_and_timed_out(node: &Node) -> bool {
    held(node) && node.access().iter().any(|record| record["status"] == 408)
}

/// As [`held`], and readers were found to be too slow.
fn held_and_reset(node: &Node) -> bool {
    let slow = |record: &serde_json::Value| {
        record["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("slow: "))
    };
    held(node) && node.access().iter().any(slow)
}

/// The attack's requests were answered, which ends its connections at once.
fn answered(node: &Node) -> bool {
    node.access()
        .iter()
        .any(|record| record["method"] == "HEAD")
}

#[test]
fn slow_heads_do_not_keep_others_out() {
    attack(&["-H", "-t", "GET", "-x", "24"], "/", held);
}

#[test]
fn slow_content_does_not_keep_others_out() {
    attack(
        &["-B", "-t", "POST", "-s", "8192", "-x", "10"],
        "/post",
        held_and_timed_out,
    );
}

#[test]
fn slow_readers_do_not_keep_others_out() {
    attack(
        &[
            "-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-k", "3",
        ],
        "/bytes/10000000",
        held_and_reset,
    );
}

#[test]
fn many_ranges_do_not_keep_others_out() {
    attack(
        &["-R", "-t", "HEAD", "-a", "10", "-b", "3000"],
        "/bytes/1000000",
        answered,
    );
}
