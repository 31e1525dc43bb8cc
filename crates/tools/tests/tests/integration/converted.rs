//! `hermes convert`: its files, its words, and nodes that run what it wrote. Those of Envoy are compared with Envoy itself in `interop`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hermes_tests::program::{Said, run};
use hermes_tests::{Node, curl, origins};
use serde_json::Value;
use tempfile::TempDir;

/// A source in a folder of its own.
struct Source {
    folder: TempDir,
    format: &'static str,
}

impl Source {
    fn new(format: &'static str, bytes: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("source"), bytes).unwrap();
        Self { folder, format }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn convert(&self, arguments: &[&str]) -> Said {
        let source = self.path("source");
        let mut all = vec!["convert", "--from", self.format, &source];
        all.extend(arguments);
        run(&all)
    }

    /// Converts to `converted.yaml`, and returns that.
    fn written(&self) -> String {
        let said = self.convert(&["--to", &self.path("converted.yaml")]);
        assert!(
            said.code <= 1 && !said.stderr.contains("to mend"),
            "{said:?}"
        );
        let checked = run(&["check", &self.path("converted.yaml")]);
        assert_eq!(checked.code, 0, "{checked:?}");
        fs::read_to_string(self.path("converted.yaml")).unwrap()
    }
}

const PAC: &str = "function FindProxyForURL(url, host) {\n\
    if (dnsDomainIs(host, '.direct.example') || isInNet(host, '127.0.0.0', '255.0.0.0')) return 'DIRECT';\n\
    if (shExpMatch(host, '*.blocked.example')) return 'SOCKS localhost:1';\n\
    return 'PROXY 127.0.0.1:9';\n}\n";

const WIREGUARD: &str = "[Interface]\nPrivateKey = AKkYzHXGRpnkNqUDCT1hkv9dKrIPKAt3e1BqgTzHdFM=\nAddress = 10.9.0.7/24\n\
    [Peer]\nPublicKey = 3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\nAllowedIPs = 10.0.0.0/24\nEndpoint = 192.0.2.7:51820\n";

#[test]
fn check_and_run_say_whose_a_file_is() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../decide/convert/corpus");
    for (file, whose, format) in [
        ("site.envoy.yaml", "of Envoy", "envoy"),
        ("laptop.sing-box.json", "of sing-box", "sing-box"),
        ("laptop.wireguard.conf", "of WireGuard", "wireguard"),
        ("office.pac", "(PAC)", "pac"),
    ] {
        let file = corpus.join(file).display().to_string();
        for command in ["check", "run"] {
            let said = run(&[command, &file]);
            let all = said.stdout.clone() + &said.stderr;
            let remedy = format!("hermes convert --from {format}");
            assert_eq!(said.code, 2, "{said:?}");
            assert!(all.contains(whose) && all.contains(&remedy), "{said:?}");
        }
    }
}

#[test]
fn what_is_left_out_is_said_with_its_line_and_by_the_exit_code() {
    let whole = Source::new("wireguard", WIREGUARD);
    let said = whole.convert(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.starts_with("version: 1\n"), "{said:?}");

    let partial = Source::new("pac", PAC);
    let said = partial.convert(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    let place = format!("{}:3: left out: ", partial.path("source"));
    assert!(said.stderr.contains(&place), "{said:?}");

    let said = partial.convert(&["--json"]);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((said.code, &told["complete"]), (1, &Value::Bool(false)));
    assert!(told["config"].as_str().unwrap().contains("listeners:"));
    let notes = told["notes"].as_array().unwrap();
    assert!(
        notes
            .iter()
            .any(|note| note["line"] == 3 && note["loss"] == "left out"),
        "{notes:?}"
    );
}

#[test]
fn secrets_are_written_to_files_of_their_owner_and_nowhere_else() {
    let source = Source::new("wireguard", WIREGUARD);
    let said = source.convert(&[]);
    assert!(
        !said.stdout.contains("AKkYz") && !said.stderr.contains("AKkYz"),
        "{said:?}"
    );
    assert!(!Path::new(&source.path("wireguard.key")).exists());

    let yaml = source.written();
    assert!(!yaml.contains("AKkYz"), "{yaml}");
    for file in ["wireguard.key", "converted.yaml"] {
        let mode = fs::metadata(source.path(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }

    // The same again is nothing new; what someone has changed stays.
    source.written();
    fs::write(source.path("converted.yaml"), "mine").unwrap();
    let said = source.convert(&["--to", &source.path("converted.yaml")]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("move it away"), "{said:?}");
    assert_eq!(
        fs::read_to_string(source.path("converted.yaml")).unwrap(),
        "mine"
    );
}

#[test]
fn files_that_a_source_names_are_files() {
    let source = Source::new(
        "envoy",
        "static_resources:\n  listeners:\n  - name: web\n    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }\n    \
         filter_chains: [ { filters: [ { name: manager, typed_config: { \"@type\": x/HttpConnectionManager, rds: { config_source: { path: pipe } } } } ] } ]\n  \
         clusters:\n  - { name: one, type: EDS, eds_cluster_config: { eds_config: { path: /dev/zero } } }\n",
    );
    let made = Command::new("mkfifo").arg(source.path("pipe")).status();
    assert!(made.unwrap().success());
    let said = source.convert(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    for line in [":5: left out: pipe: ", ":7: left out: /dev/zero: "] {
        assert!(said.stderr.contains(line), "{said:?}");
    }
    assert_eq!(
        said.stderr.matches("it is not a file").count(),
        2,
        "{said:?}"
    );
}

#[test]
fn files_that_are_none_are_refused_with_a_line() {
    let deep = "[".repeat(1_000_000);
    let huge = vec![b' '; 5 << 20];
    let many = format!("a: &a [1,2,3,4,5,6,7,8,9,0]\n{}", bomb());
    let calls = format!(
        "function FindProxyForURL(url, host) {{ return {} }}",
        "(".repeat(100_000)
    );
    for (format, bytes, reason) in [
        ("envoy", deep.as_bytes(), "recursion limit"),
        ("envoy", &huge, "more than 4 MiB"),
        ("envoy", many.as_bytes(), "more than 200000 values"),
        (
            "envoy",
            b"a: &a [ *a ]",
            "stands in the value that it repeats",
        ),
        ("envoy", b"a: \xff", "not UTF-8"),
        ("sing-box", deep.as_bytes(), "levels deep"),
        ("sing-box", b"{\n\"a\": }", ":2: this is not a JSON value"),
        ("wireguard", b"[Interface]\nx", ":2: this is neither"),
        ("pac", calls.as_bytes(), "levels deep"),
        (
            "pac",
            b"function FindProxyForURL(url, host) {\n return `x`; }",
            ":2: ",
        ),
    ] {
        let source = Source::new(format, bytes);
        let said = source.convert(&[]);
        assert_eq!(said.code, 2, "{format} {reason}: {said:?}");
        assert!(said.stderr.contains(reason), "{format} {reason}: {said:?}");
        assert!(said.stdout.is_empty());
    }
}

/// Ten lists, each of ten of the one before.
fn bomb() -> String {
    let list = |level: u32| {
        let below = match level {
            0 => "*a,".repeat(10),
            level => format!("*b{},", level - 1).repeat(10),
        };
        format!("b{level}: &b{level} [{below}]\n")
    };
    (0..9).map(list).collect()
}

#[test]
fn a_node_with_a_converted_pac_file_goes_where_the_browser_went() {
    let origin = origins::http();
    let proxy = origins::http();
    let source = Source::new(
        "pac",
        PAC.replace("127.0.0.1:9", &proxy.address().to_string()),
    );
    let yaml = source
        .written()
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("10.0.0.0/8", "127.0.0.0/8");
    let node = Node::start("laptop", &yaml);
    let ask = |url: &str| curl(&["-x", &node.url("web"), url]);

    let direct = ask(&format!("http://{}/one", origin.address()));
    assert_eq!(direct.status, 200, "{direct:?}");
    assert_eq!(origin.last().path, "/one");
    assert!(proxy.seen().is_empty());
    let other = ask("http://other.example/two");
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(proxy.last().uri, "http://other.example/two");
    assert_eq!(ask("http://a.blocked.example/").status, 501);
}

#[test]
fn a_node_with_a_converted_file_of_sing_box_does_what_its_rules_say() {
    let origin = origins::http();
    let proxy = origins::http();
    let file = format!(
        r#"{{
          "inbounds": [
            {{ "type": "mixed", "tag": "in", "listen": "127.0.0.1", "listen_port": 0, "users": [ {{ "username": "alice", "password": "secret" }} ] }},
            {{ "type": "direct", "tag": "site", "listen_port": 0, "network": "tcp", "override_address": "127.0.0.1", "override_port": {} }},
          ],
          "outbounds": [
            {{ "type": "http", "tag": "office", "server": "127.0.0.1", "server_port": {} }},
            {{ "type": "direct", "tag": "direct" }}
          ],
          "route": {{ "rules": [
            {{ "domain_suffix": "ads.example", "action": "reject" }},
            {{ "ip_is_private": true, "outbound": "direct" }}
          ] }}
        }}"#,
        origin.port(),
        proxy.port()
    );
    let source = Source::new("sing-box", file);
    let yaml = source.written().replace("10.0.0.0/8", "127.0.0.0/8");
    assert!(!yaml.contains("secret"), "{yaml}");
    let node = Node::start_in(source.folder, "laptop", &yaml, &[]);
    let ask = |user: &str, url: &str| curl(&["-x", &node.url("in"), "-U", user, url]);

    assert_eq!(ask("alice:wrong", "http://other.example/").status, 407);
    let other = ask("alice:secret", "http://other.example/two");
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(proxy.last().uri, "http://other.example/two");
    assert_eq!(ask("alice:secret", "http://x.ads.example/").status, 403);
    assert_eq!(
        ask(
            "alice:secret",
            &format!("http://{}/three", origin.address())
        )
        .status,
        200
    );
    assert_eq!(origin.last().path, "/three");
    let through = curl(&[&format!("{}/four", node.url("site"))]);
    assert_eq!(through.status, 200, "{through:?}");
    assert_eq!(origin.last().path, "/four");
}
