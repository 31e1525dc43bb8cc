//! What a node holds in memory is written down for no one when it dies, and secrets that stand in its document are shown to no one.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use hermes_tests::pki::Issued;
use hermes_tests::program::run;
use hermes_tests::{Node, Pki, curl, origins, program};
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
        fs::write(&file, text).unwrap();
        let checked = run(&["check", file.to_str().unwrap()]);
        let all = format!("{}{}", checked.stdout, checked.stderr);
        assert!(all.contains(said), "{wrong}: {all}");
        let is_shown = all.contains("918273645") && !wrong.contains("${");
        assert!(!is_shown, "{wrong}: {all}");
    }
}

/// The content of a file in its place.
fn inline(file: &Path) -> String {
    format!("{{ inline: {:?} }}", fs::read_to_string(file).unwrap())
}

fn inline_pair(issued: &Issued) -> String {
    let (certificate, key) = (inline(&issued.cert), inline(&issued.key));
    format!("cert_file: {certificate}, key_file: {key}")
}

/// Rules that let one user in.
const RULES: &str = "package door\nallow if { input.user == \"alice.overlay\" }\n";

/// A node that asks for certificates, whose document has all that it reads.
fn door(pki: &Pki, server: &Issued, revoked: &[&Issued], origin: SocketAddr) -> String {
    let next = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, auth: mtls, \
         tls: {{ {}, client_ca_file: {}, crl_file: [{}] }} }} }}\n\
         authorize: [ {{ name: door, rego: {{ files: [{{ inline: {RULES:?} }}, {{ inline: '{{ }}' }}], query: data.door.allow }} }} ]\n\
         routes: [ {{ terminate: o }} ]\n\
         upstreams: {{ o: {{ endpoints: [\"{origin}\"], fields: {{ x-key: {{ inline: \"{PASSWORD}\\n\" }} }} }} }}\n",
        inline_pair(server),
        inline(&pki.ca()),
        inline(&pki.revoke(revoked, next)),
    )
}

#[test]
fn certificates_keys_lists_and_policies_in_the_document_count_and_nothing_shows_them() {
    let (pki, origin) = (Pki::new(), origins::http());
    let (server, alice) = (pki.issue(&["127.0.0.1"]), pki.issue(&["alice.overlay"]));
    let edge = Node::start("edge", &door(&pki, &server, &[], origin.address()));
    edge.ask("PUT", "/log", "trace");
    // The lists of the servers' authority, too.
    let next = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    let client = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: edge }} ]\n\
         upstreams: {{ edge: {{ endpoints: [\"{}\"], http: [2, 3], tls: {{ ca_file: {}, crl_file: {}, {} }} }} }}\n",
        edge.address("web"),
        inline(&pki.ca()),
        inline(&pki.revoke(&[], next)),
        inline_pair(&alice),
    );
    let node = Node::start("dp", &client);
    node.ask("PUT", "/log", "trace");
    let url = format!("http://{}/", origin.address());
    let got = curl(&["-x", &node.url("web"), &url]);
    assert_eq!(got.status, 200, "{got:?}");
    let shown = origin.last().field("x-key");
    assert_eq!(shown.as_deref(), Some(PASSWORD));

    let status = edge.status();
    let keys = status["certificates"].as_array().unwrap().iter();
    let keys: Vec<_> = keys.filter_map(|one| one["key"].as_str()).collect();
    assert!(keys.contains(&"listeners.web.tls.cert_file"), "{keys:?}");

    // What has changed in a text is put in force as it is in a file.
    let (status, reloaded) = edge.reload(&door(&pki, &server, &[&alice], origin.address()));
    assert_eq!(status, 200, "{reloaded}");
    assert_ne!(curl(&["-x", &node.url("web"), &url]).status, 200);

    let files = [
        &server.cert,
        &server.key,
        &alice.cert,
        &alice.key,
        &pki.ca(),
    ];
    let mut secrets = vec![PASSWORD.to_owned(), "input.user".to_owned()];
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        secrets.push(text.lines().nth(1).unwrap().to_owned());
    }
    for one in [&edge, &node] {
        let (_, json) = one.ask("GET", "/config", "");
        let (_, diff) = one.ask("POST", "/diff", &format!("version: 1\n{client}"));
        let socket = one.socket();
        let config = run(&["config", "--admin", socket.to_str().unwrap()]).stdout;
        assert!(config.contains("${a secret, not shown}"), "{config}");
        let status = one.status().to_string();
        for text in [json, diff, config, status, one.log(), one.metrics()] {
            for secret in &secrets {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
    }
}

#[test]
fn a_text_in_place_of_a_file_is_in_no_error() {
    let (pki, folder) = (Pki::new(), tempfile::tempdir().unwrap());
    let issued = pki.issue(&["127.0.0.1"]);
    let [certificate, key] = [&issued.cert, &issued.key].map(|file| inline(file));
    let body = fs::read_to_string(&issued.key).unwrap();
    let body = body.lines().nth(1).unwrap();
    let folded = key.replace("\\n", " ");
    let joined = key.replace("\\n", "");

    let file = folder.path().join("node.yaml");
    for (tls, path) in [
        (
            format!("cert_file: {certificate}, key_file: {folded}"),
            "key_file",
        ),
        (
            format!("cert_file: {certificate}, key_file: {joined}"),
            "key_file",
        ),
        (format!("cert_file: {key}, key_file: {key}"), "cert_file"),
        (format!("cert_file: {joined}, key_file: {key}"), "cert_file"),
        (
            format!("cert_file: {certificate}, key_file: {key}, client_ca_file: {joined}"),
            "client_ca_file",
        ),
        (
            format!(
                "cert_file: {certificate}, key_file: {key}, client_ca_file: {certificate}, crl_file: [{folded}]"
            ),
            "crl_file",
        ),
    ] {
        let text = format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\n\
             routes: [ {{ respond: {{ status: 200 }} }} ]\n"
        );
        fs::write(&file, text).unwrap();
        let checked = run(&["check", file.to_str().unwrap()]);
        let all = format!("{}{}", checked.stdout, checked.stderr);
        let said = format!("listeners.web.tls.{path}: the inline value: ");
        assert!(all.contains(&said) && !all.contains(body), "{said}: {all}");
    }
}
