//! What a node holds in memory is written down for no one when it dies, and secrets that stand in its document are shown to no one.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use hermes_tests::program::run;
use hermes_tests::{Node, curl, origins, program};
use rustix::process::Signal;

/// Whether the system dumped a node that aborted, where it may.
fn dumped(debug: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\""])
        .arg(program::path())
        .current_dir(folder.path());
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ respond: {{ status: 200 }} }} ]\n{debug}\n"
    );
    let mut node = Node::start_by(command, "edge", &yaml);
    node.signal(Signal::ABORT);
    node.wait().core_dumped()
}

#[test]
fn a_node_that_crashes_leaves_no_dump() {
    assert!(!dumped("debug: {}"));
}

const TOKEN: &str = "token-that-no-one-sees";
const PASSWORD: &str = "password-that-no-one-sees";
/// `user:password` of an upstream, in Base64.
const SHOWN_TO_THE_UPSTREAM: &str = "dTpwYXNzd29yZC10aGF0LW5vLW9uZS1zZWVz";

/// A document with secrets in it.
fn with_secrets(origin: SocketAddr, hash: &str, status: u16) -> String {
    format!(
        "identity: {{ user: dp, token_file: {{ inline: {TOKEN} }} }}\n\
         listeners: {{ web: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: {{ inline: \"alice:{hash}\" }} }} }} }} }}\n\
         routes: [ {{ match: {{ path: /answer }}, respond: {{ status: {status} }} }}, {{ terminate: o }} ]\n\
         upstreams: {{ o: {{ endpoints: [\"{origin}\"], \
         credentials: {{ user: u, password_file: {{ inline: \"${{HIDDEN:-{PASSWORD}}}\" }} }} }} }}\n"
    )
}

#[test]
fn a_secret_in_the_document_counts_and_nothing_shows_it() {
    let (origin, hash) = (origins::http(), bcrypt::hash("secret", 4).unwrap());
    let first = with_secrets(origin.address(), &hash, 200);
    let node = Node::start("edge", &first);
    node.ask("PUT", "/log", "trace");
    let arrives = || {
        let url = format!("http://{}/", origin.address());
        let got = curl(&["-x", &node.url("web"), "-U", "alice:secret", &url]);
        assert_eq!(got.status, 200, "{got:?}");
        let shown = origin.last().field("authorization");
        assert_eq!(shown, Some(format!("Basic {SHOWN_TO_THE_UPSTREAM}")));
    };
    arrives();

    // Another document, and back to this one, which was kept as text.
    let other = with_secrets(origin.address(), &hash, 201).replace(TOKEN, "other-token");
    let (_, compared) = node.ask("POST", "/diff", &format!("version: 1\n{other}"));
    assert!(compared.contains("not shown"), "{compared}");
    let (status, reloaded) = node.reload(&other);
    assert_eq!(status, 200, "{reloaded}");
    let (status, back) = node.ask("POST", "/rollback", "");
    assert_eq!(status, 200, "{back}");
    arrives();

    let socket = node.socket();
    let config = run(&["config", "--admin", socket.to_str().unwrap()]).stdout;
    assert!(config.contains("${a secret, not shown}"), "{config}");
    let (_, json) = node.ask("GET", "/config", "");
    let diff = run(&["diff", "--admin", socket.to_str().unwrap()]).stdout;
    for text in [
        config,
        json,
        diff,
        compared,
        reloaded.to_string(),
        back,
        node.log(),
        node.metrics(),
        node.status().to_string(),
    ] {
        for secret in [TOKEN, "other-token", PASSWORD, &hash, SHOWN_TO_THE_UPSTREAM] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn a_secret_that_cannot_be_used_is_in_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    for (wrong, said) in [
        (
            "token_file: { inline: \"918273645\\u0001\" }",
            "no field may hold",
        ),
        ("token_file: { inline: 918273645 }", "not shown here"),
        ("token_file: { inline: [918273645] }", "expected text"),
        ("token_file: { inline: { a: 918273645 } }", "expected text"),
        ("token_file: { inlin: \"918273645\" }", "inlin"),
        ("token_file: { inline: \"918273645\", file: /x }", "file"),
        ("token_file: { inline: \"${918273645}\" }", "variable"),
        ("token_file: { inline: \"\" }", "is empty"),
    ] {
        let text = format!(
            "version: 1\nidentity: {{ user: dp, {wrong} }}\n\
             listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ respond: {{ status: 200 }} }} ]\n"
        );
        std::fs::write(&file, text).unwrap();
        let checked = run(&["check", file.to_str().unwrap()]);
        let all = format!("{}{}", checked.stdout, checked.stderr);
        assert!(all.contains(said), "{wrong}: {all}");
        let is_shown = all.contains("918273645") && !wrong.contains("${");
        assert!(!is_shown, "{wrong}: {all}");
    }
}
