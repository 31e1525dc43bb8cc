//! What every request to an upstream has: credentials and fields, of which nothing else is told.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, eventually, origins, program};
use tempfile::TempDir;

/// A folder with the file `secret`, of this mode.
fn folder(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, "from-a-file\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    folder
}

fn yaml(origin: &str) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
        routes: [ {{ terminate: origin }} ]
        upstreams:
          origin:
            endpoints: ["{origin}"]
            credentials: {{ user: svc, password_file: secret }}
            fields: {{ x-api-key: {{ file: secret }}, x-token: "${{TOKEN}}", x-tenant: north }}
            health: {{ kind: http, path: /healthz }}
        "#
    )
}

#[test]
fn requests_and_checks_have_them_and_nothing_shows_them() {
    let origin = origins::http();
    let variables = [("TOKEN", "from-a-variable")];
    let yaml = yaml(&origin.address().to_string());
    let node = Node::start_in(folder(0o600), "edge", &yaml, &variables);

    let asks = ["authorization: Bearer of-the-client", "x-tenant: south"];
    let url = format!("{}/asked", node.url("web"));
    let got = curl(&["-H", asks[0], "-H", asks[1], &url]);
    assert_eq!(got.status, 200, "{got:?}");

    for path in ["/asked", "/healthz"] {
        let seen = eventually(path, || {
            origin.seen().into_iter().find(|seen| seen.path == path)
        });
        let field = |name| seen.field(name);
        // `svc:from-a-file`
        let basic = "Basic c3ZjOmZyb20tYS1maWxl";
        assert_eq!(field("authorization").as_deref(), Some(basic));
        assert_eq!(field("x-api-key").as_deref(), Some("from-a-file"));
        assert_eq!(field("x-token").as_deref(), Some("from-a-variable"));
        assert_eq!(field("x-tenant").as_deref(), Some("north"));
    }

    let config = node.ask("GET", "/config", "").1;
    assert!(config.contains("${TOKEN}"), "{config}");
    let all = [
        config,
        node.status().to_string(),
        node.log(),
        serde_json::to_string(&node.access()).unwrap(),
    ];
    for text in all {
        assert!(
            !text.contains("from-a-") && !text.contains("c3Zj"),
            "{text}"
        );
    }
}

#[test]
fn a_trace_shows_none_of_them() {
    let origin = origins::http();
    let yaml = yaml(&origin.address().to_string());
    let node = Node::start_in(folder(0o600), "edge", &yaml, &[("TOKEN", "t")]);
    let mut raw = Raw::connect(node.address("web"));
    raw.send("TRACE /traced HTTP/1.1\r\nHost: a\r\n\r\n");
    raw.head();
    let seen = eventually("the TRACE is seen", || {
        origin
            .seen()
            .into_iter()
            .find(|seen| seen.path == "/traced")
    });
    assert_eq!(seen.field("authorization"), None);
    assert_eq!(seen.field("x-api-key"), None);
}

#[test]
fn a_file_that_others_can_read_is_refused_with_the_remedy() {
    let folder = folder(0o644);
    let file = folder.path().join("node.yaml");
    fs::write(
        &file,
        format!("version: 1\n{}", hermes_tests::node::dedent(&yaml("a:80"))),
    )
    .unwrap();
    let mut check = Command::new(program::path());
    let checked = check
        .arg("check")
        .arg(&file)
        .env("TOKEN", "from-a-variable")
        .output()
        .unwrap();
    assert!(!checked.status.success());
    let said = [checked.stdout, checked.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("upstreams.origin.credentials.password_file"),
        "{said}"
    );
    assert!(said.contains("run: chmod 6"), "{said}");
    assert!(!said.contains("from-a-"), "{said}");
}
