//! An overlay with a controller: tenants that share it, and secrets of its nodes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hermes_harness::curl::curl;
use hermes_harness::overlay::{Hub, Joined};
use hermes_harness::pki::Pki;
use hermes_harness::{free, origins};

fn asks(device: &Joined, url: &str) -> u16 {
    curl(&["-x", &format!("http://{}", device.web), url]).status
}

/// A tenant with a name VIDEO, served by the node `edge`.
fn tenant(name: &str, members: &str, server: &str) -> String {
    format!(
        "---
apiVersion: hermes/v1
kind: Tenant
metadata: {{ name: {name} }}
spec: {{ members: [{members}] }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: video, tenant: {name} }}
spec: {{ at: [{{ node: edge, address: \"{server}\" }}] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: video, tenant: {name} }}
spec: {{ name: VIDEO, service: video }}
---
apiVersion: hermes/v1
kind: Policy
metadata: {{ name: all, tenant: {name} }}
spec: {{ rules: [{{ match: {{ user: \"*\" }}, allow: true }}] }}
"
    )
}

#[test]
fn users_of_two_tenants_get_their_own_servers_by_one_name() {
    let red = origins::http();
    let blue = origins::http();
    let controller = Hub::controller();
    let listen = free::tcp();
    let edge = format!(
        "apiVersion: hermes/v1
kind: Node
metadata: {{ name: edge }}
spec: {{ listen: {listen}, reach: [{listen}], ingress: true, tenants: [red, blue] }}
"
    );
    let tenants = [
        tenant("red", "alice, carol", &red.address().to_string()),
        tenant("blue", "bob, carol", &blue.address().to_string()),
    ];
    controller.apply(&[edge, tenants.concat()].concat(), &[]);
    let _edge = controller.member("edge");
    let [alice, bob, carol, dave] = ["alice", "bob", "carol", "dave"]
        .map(|user| controller.device(user, &format!("{user}-laptop")));
    let counts = || [red.seen().len(), blue.seen().len()];

    assert_eq!(asks(&alice, "http://VIDEO/"), 200);
    assert_eq!(counts(), [1, 0]);
    assert_eq!(asks(&bob, "http://VIDEO/"), 200);
    assert_eq!(counts(), [1, 1]);
    // Who is of both says whose name it is; who is of none sees neither.
    assert_eq!(asks(&carol, "http://VIDEO/"), 403);
    assert_eq!(asks(&carol, "http://VIDEO.blue/"), 200);
    assert_eq!(asks(&alice, "http://VIDEO.blue/"), 403);
    assert_eq!(asks(&dave, "http://VIDEO/"), 403);
    assert_eq!(counts(), [1, 2]);
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let each = entries.map(|entry| entry.path());
    each.flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    })
    .collect()
}

#[test]
fn a_secret_is_a_file_of_its_node_and_nowhere_else_in_clear() {
    let pki = Pki::new();
    let issued = pki.issue(&["localhost"]);
    let key = fs::read_to_string(&issued.key).unwrap();
    let certificate = fs::read_to_string(&issued.cert).unwrap();
    // A line within the key.
    let line = key.lines().nth(1).unwrap();

    let controller = Hub::controller();
    let [listen, yard, web] = [free::tcp(), free::tcp(), free::tcp()];
    let nodes = |listeners: &str| {
        format!(
            "apiVersion: hermes/v1
kind: Node
metadata: {{ name: edge }}
spec: {{ listen: {listen}, reach: [{listen}], ingress: true{listeners} }}
---
apiVersion: hermes/v1
kind: Node
metadata: {{ name: yard }}
spec: {{ listen: {yard}, reach: [{yard}] }}
"
        )
    };
    let indented = |text: &str| text.replace('\n', "\n    ");
    let secret = |name: &str, text: &str| {
        format!(
            "---
apiVersion: hermes/v1
kind: Secret
metadata: {{ name: {name} }}
spec:
  for: [edge]
  value: |
    {}
",
            indented(text).trim_end()
        )
    };
    let secrets = [secret("key", &key), secret("cert", &certificate)].concat();

    // No node has shown a key yet.
    let refused = controller.try_apply(&[nodes(""), secrets.clone()].concat(), &[]);
    assert_ne!(refused.code, 0);
    assert!(
        format!("{refused:?}").contains("has shown no key"),
        "{refused:?}"
    );

    controller.apply(&nodes(""), &[]);
    let edge = controller.member("edge");
    let yard = controller.member("yard");
    let listener = format!(
        ", listeners: {{ web: {{ http: \"{web}\", user: guest, tls: {{ cert_file: \"${{secret:cert}}\", key_file: \"${{secret:key}}\" }} }} }}"
    );
    controller.apply(&[nodes(&listener), secrets].concat(), &[]);
    controller.await_step("edge");

    let answer = curl(&[
        "--cacert",
        pki.ca().to_str().unwrap(),
        "--connect-to",
        &format!("localhost:443:{web}"),
        "https://localhost/",
    ]);
    assert!(answer.status >= 400, "{answer:?}");

    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes
            .windows(line.len())
            .any(|window| window == line.as_bytes())
    };
    let of_edge: Vec<PathBuf> = files(&edge.state()).into_iter().filter(holds).collect();
    assert!(
        of_edge.len() == 1 && of_edge[0].ends_with("key"),
        "{of_edge:?}"
    );
    let mode = fs::metadata(&of_edge[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!files(&yard.state()).iter().any(holds));
    assert!(!files(Path::new(&controller.state())).iter().any(holds));
    let shown = controller.say(&["get"]);
    assert!(!format!("{shown:?}").contains(line));
    assert!(!edge.log().contains(line));
}

#[test]
fn a_secret_may_lie_in_a_file_and_is_sealed_anew_only_when_its_text_changes() {
    let controller = Hub::controller();
    let listen = free::tcp();
    let node = format!(
        "apiVersion: hermes/v1
kind: Node
metadata: {{ name: edge }}
spec: {{ listen: {listen}, reach: [{listen}], ingress: true }}
"
    );
    controller.apply(&node, &[]);
    let _edge = controller.member("edge");
    controller.await_step("edge");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret.yaml");
    let secret = "apiVersion: hermes/v1
kind: Secret
metadata: { name: word }
spec: { for: [edge], file: keys/word }
";
    fs::write(&file, secret).unwrap();
    let file = file.to_str().unwrap();
    let missing = controller.say(&["apply", file]);
    let told = format!("{missing:?}");
    assert_eq!(missing.code, 2, "{told}");
    assert!(
        told.contains("secret.yaml:4:") && told.contains("keys/word: No such file"),
        "{told}"
    );

    fs::create_dir(folder.path().join("keys")).unwrap();
    fs::write(folder.path().join("keys/word"), "first").unwrap();
    let applied = || {
        let said = controller.say(&["apply", file]);
        assert_eq!(said.code, 0, "{said:?}");
        let state = controller.ask(&["get"]).unwrap();
        let yaml = state["yaml"].as_str().unwrap();
        assert!(!yaml.contains("keys/word") && !yaml.contains("first"));
        state["revision"].clone()
    };
    let first = applied();
    assert_eq!(applied(), first);
    assert_eq!(controller.say(&["diff", file]).code, 0);
    fs::write(folder.path().join("keys/word"), "second").unwrap();
    let second = applied();
    assert_ne!(second, first);
    assert_eq!(applied(), second);
}
