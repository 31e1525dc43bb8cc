//! The file: mistakes, all of them, with their places; variables, parts, secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::Act;
use hermes_tests::program::{Said, command, path, run};
use hermes_tests::{Node, Pki, curl, origins};

/// `hermes check` on a file with this text, which lies in `folder`.
fn check_in(folder: &Path, text: &str) -> Said {
    let file = folder.join("node.yaml");
    fs::write(&file, text).unwrap();
    let said = run(&["check", file.to_str().unwrap()]);
    Said {
        stdout: said.stdout.replace(&format!("{}/", folder.display()), ""),
        ..said
    }
}

fn check(text: &str) -> Said {
    check_in(tempfile::tempdir().unwrap().path(), text)
}

const MISTAKES_OF_FORM: &str = r#"version: 1
listeners:
  web: { htpp: 127.0.0.1:8080 }
routes:
  - { respond: { status: 99 } }
  - { match: { path: "~(" }, terminate: true }
  - match: { target: "a:0" }
    colour: red
    terminate: true
upstreams:
  slow: { endpoints: ["a:80"], timeouts: { connect: 5 } }
egress: { allow: [127.0.0.0/33] }
workers: many
"#;

#[test]
fn every_mistake_of_form_is_said_with_its_place() {
    let said = check(MISTAKES_OF_FORM);
    assert_eq!(said.code, 2, "{said:?}");
    let expected = [
        "node.yaml:3:10: listeners.web.htpp: ",
        "node.yaml:5:26: routes[0].respond.status: ",
        "node.yaml:6:22: routes[1].match.path: ",
        "node.yaml:7:22: routes[2].match.target: ",
        "node.yaml:8:5: routes[2].colour: ",
        "node.yaml:11:53: upstreams.slow.timeouts.connect: ",
        "node.yaml:12:19: egress.allow[0]: ",
        "node.yaml:13:10: workers: ",
    ];
    for line in expected {
        assert!(
            said.stdout.lines().any(|said| said.starts_with(line)),
            "{line} in\n{}",
            said.stdout
        );
    }
    assert_eq!(
        said.stdout.lines().count(),
        expected.len() + 1,
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("did you mean `http`?"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.ends_with("node.yaml: 8 problems\n"),
        "{}",
        said.stdout
    );
}

const MISTAKES_OF_MEANING: &str = r#"version: 1
listeners:
  web: { http: 0.0.0.0:8080 }
  twin: { http: 127.0.0.1:18080 }
  other: { tcp: 127.0.0.1:18080, target: "db:5432" }
  unix: { udp: "unix:/run/a.sock", target: "db:5432" }
  lost: { udp: 127.0.0.1:0 }
routes:
  - { match: { target: video }, to: nowhere }
  - { match: { listener: wbe }, terminate: true }
  - { terminate: true }
  - { match: { path: /late }, respond: { status: 404 } }
  - { respond: { status: 404 }, redirect: { location: "https://a" } }
upstreams:
  round: { endpoints: ["a:80"], via: round }
  none: { endpoints: [] }
"#;

#[test]
fn every_mistake_of_meaning_is_said_with_its_place() {
    let said = check(MISTAKES_OF_MEANING);
    assert_eq!(said.code, 2, "{said:?}");
    let expected = [
        ("node.yaml:3:16: listeners.web.http: ", "public: true"),
        ("node.yaml:5:17: listeners.other.tcp: ", "18080 already"),
        ("node.yaml:6:16: listeners.unix.udp: ", "not a UDP port"),
        ("node.yaml:7:3: listeners.lost: ", "target"),
        ("node.yaml:9:37: routes[0].to: ", "nowhere"),
        (
            "node.yaml:10:26: routes[1].match.listener",
            "did you mean `web`?",
        ),
        ("node.yaml:12:5: routes[3]: ", "never match"),
        ("node.yaml:13:", "several actions"),
        ("node.yaml:15:", "via"),
        ("node.yaml:16:11: upstreams.none.endpoints: ", "endpoint"),
    ];
    for (place, words) in expected {
        let found = said
            .stdout
            .lines()
            .any(|line| line.starts_with(place) && line.contains(words));
        assert!(found, "{place} {words} in\n{}", said.stdout);
    }
}

#[test]
fn problems_come_in_the_order_of_the_file() {
    for text in [MISTAKES_OF_FORM, MISTAKES_OF_MEANING] {
        let said = check(text);
        let line = |said: &str| said.split(':').nth(1)?.parse::<usize>().ok();
        let lines: Vec<usize> = said.stdout.lines().filter_map(line).collect();
        assert!(lines.is_sorted(), "{}", said.stdout);
    }
}

#[test]
fn every_mistake_is_said_once() {
    let said = check(
        "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\nupstreams: { none: { endpoints: [] } }\nroutes: [ { to: none } ]\n",
    );
    assert_eq!(
        (said.code, said.stdout.lines().count()),
        (2, 2),
        "{}",
        said.stdout
    );
}

#[test]
fn problems_are_also_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, MISTAKES_OF_FORM).unwrap();
    let said = run(&["check", "--json", file.to_str().unwrap()]);
    assert_eq!(said.code, 2);
    let problems: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(problems.as_array().unwrap().len(), 8);
    assert_eq!(problems[0]["place"]["line"], 3);
    assert_eq!(problems[0]["path"], "listeners.web.htpp");
}

#[test]
fn a_valid_file_is_said_to_be_valid() {
    let said = check(
        "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: true } ]\n",
    );
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (
            0,
            "node.yaml: valid, with 1 listener, 1 route and 0 upstreams\n"
        )
    );
}

#[test]
fn what_is_no_yaml_is_said_with_its_place() {
    for text in [
        "version: 1\nlisteners: { web: \n",
        "version: 1\n\troutes: []\n",
        "version: 1\nversion: 1\n",
        "",
        "- 1\n",
    ] {
        let said = check(text);
        assert_eq!(said.code, 2, "{text:?}: {said:?}");
        assert!(said.stdout.starts_with("node.yaml:"), "{text:?}: {said:?}");
    }
    let said = run(&["check", "/nonexistent/node.yaml"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stdout.contains("/nonexistent/node.yaml"), "{said:?}");
}

#[test]
fn a_node_does_not_start_on_a_file_that_is_not_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, MISTAKES_OF_MEANING).unwrap();
    let said = run(&["run", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.stderr.contains("node.yaml:9:37: routes[0].to: "),
        "{said:?}"
    );
}

#[test]
fn strangers_are_only_let_in_where_the_operator_says_so() {
    let file = |listener: &str| {
        format!("version: 1\nlisteners: {{ web: {listener} }}\nroutes: [ {{ terminate: true }} ]\n")
    };
    for refused in [
        "{ http: 0.0.0.0:8080 }",
        "{ http: \"[::]:8080\" }",
        "{ http: 192.0.2.1:8080, auth: none }",
    ] {
        assert_eq!(check(&file(refused)).code, 2, "{refused}");
    }
    for allowed in [
        "{ http: 0.0.0.0:8080, public: true }",
        "{ http: 127.9.9.9:8080 }",
        "{ http: \"unix:a.sock\" }",
    ] {
        let said = check(&file(allowed));
        assert_eq!(said.code, 0, "{allowed}: {said:?}");
    }
}

#[test]
fn secrets_that_others_can_read_are_refused_with_the_remedy() {
    let (folder, pki) = (tempfile::tempdir().unwrap(), Pki::new());
    let issued = pki.issue(&["127.0.0.1"]);
    fs::set_permissions(&issued.key, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(folder.path().join("token"), "t").unwrap();
    fs::set_permissions(
        folder.path().join("token"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let text = format!(
        "version: 1\nidentity: {{ user: alice, token_file: token }}\n\
         listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}\nroutes: [ {{ terminate: true }} ]\n",
        issued.yaml()
    );
    let said = check_in(folder.path(), &text);
    assert_eq!(said.code, 2, "{said:?}");
    for path in ["identity.token_file", "listeners.web.tls"] {
        let line = said
            .stdout
            .lines()
            .find(|line| line.contains(path))
            .unwrap_or_else(|| panic!("{path}: {said:?}"));
        assert!(line.contains("chmod"), "{line}");
    }
    assert_eq!(said.stdout.lines().count(), 3, "{}", said.stdout);
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), "alice:plain\n").unwrap();
    fs::write(folder.path().join("keys.json"), "{}").unwrap();
    for name in ["users", "keys.json"] {
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let said = check_in(
        folder.path(),
        r#"version: 1
listeners:
  a: { http: 127.0.0.1:0, tls: { cert_file: no.pem, key_file: no.key } }
  b: { http: 127.0.0.1:0, auth: { basic: { file: users } } }
  c: { http: 127.0.0.1:0, auth: { bearer: { jwks_file: keys.json, issuer: i, audience: a } } }
routes: [ { to: u } ]
upstreams: { u: { endpoints: ["a:1"], tls: { ca_file: ca.pem } } }
"#,
    );
    assert_eq!(said.code, 2, "{said:?}");
    for path in [
        "listeners.a.tls.cert_file",
        "listeners.a.tls.key_file",
        "listeners.b.auth.basic",
        "listeners.c.auth.bearer",
        "upstreams.u.tls.ca_file",
    ] {
        assert!(
            said.stdout
                .lines()
                .any(|line| line.starts_with("node.yaml:") && line.contains(path)),
            "{path}: {said:?}"
        );
    }
}

#[test]
fn variables_come_from_the_environment() {
    let yaml = r#"
        listeners: { web: { http: "${HOST}:0" } }
        routes: [ { respond: { status: 200, body: "${WORDS:-guest} said $${HOST}" } } ]
    "#;
    let node = Node::start_in(
        tempfile::tempdir().unwrap(),
        "alice",
        yaml,
        &[("HOST", "127.0.0.1")],
    );
    assert_eq!(
        curl(&["-x", &node.url("web"), "http://a/"]).text(),
        "guest said ${HOST}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, "version: 1\nnode: ${HERMES_TEST_UNSET}\n").unwrap();
    let ended = command()
        .args(["check", file.to_str().unwrap()])
        .env_remove("HERMES_TEST_UNSET")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(
        said.contains("node.yaml:2:7: ") && said.contains("HERMES_TEST_UNSET"),
        "{said}"
    );
}

#[test]
fn included_files_are_parts_of_the_whole_and_keep_their_places() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parts")).unwrap();
    fs::write(
        folder.path().join("parts/routes.yaml"),
        "routes: [ { respond: { status: 200, body: included } } ]\n",
    )
    .unwrap();
    let yaml = "include: [parts/routes.yaml]\nlisteners: { web: { http: 127.0.0.1:0 } }\n";
    let node = Node::start_in(folder, "alice", yaml, &[]);
    assert_eq!(
        curl(&["-x", &node.url("web"), "http://a/"]).text(),
        "included"
    );

    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("part.yaml"),
        "listeners:\n  web: { http: 127.0.0.1:0, colour: red }\n",
    )
    .unwrap();
    let said = check_in(
        folder.path(),
        "version: 1\ninclude: [part.yaml, absent.yaml]\n",
    );
    assert_eq!(said.code, 2);
    assert!(
        said.stdout
            .contains("part.yaml:2:29: listeners.web.colour: "),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("absent.yaml"), "{}", said.stdout);
}

#[test]
fn the_schema_is_json_and_knows_every_key_of_the_file() {
    let said = run(&["schema"]);
    assert_eq!(said.code, 0);
    let schema: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    for key in [
        "version",
        "node",
        "listeners",
        "routes",
        "upstreams",
        "peers",
        "egress",
        "identity",
        "admin",
        "log",
    ] {
        assert!(schema["properties"].get(key).is_some(), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn servers_that_are_asked_and_collectors_take_the_files_of_defaults() {
    let pki = Pki::new();
    let own = pki.issue(&["alice.overlay"]);
    let tls = format!("ca_file: {}, {}", pki.ca().display(), own.yaml());
    let origin = origins::http();
    // Each must believe the authority, and show the certificate that its server wants.
    let server = Node::start(
        "checks",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, auth: mtls, tls: {{ {}, client_ca_file: {} }} }} }}\n\
             routes: [ {{ respond: {{ status: 200 }} }} ]\n",
            pki.issue(&["127.0.0.1"]).yaml(),
            pki.ca().display()
        ),
    );
    let url = format!("https://{}", server.address("web"));
    let file = |more: &str| {
        format!(
            "defaults: {{ tls: {{ {tls}{more} }} }}\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             authorize: [ {{ name: check, url: \"{url}\", timeout: 5s }} ]\ntrace: {{ otlp: \"{url}\", sample: 100% }}\n\
             routes: [ {{ terminate: web }} ]\nupstreams: {{ web: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        )
    };
    let node = Node::start("edge", &file(""));
    assert_eq!(curl(&["-x", &node.url("web"), "http://a/"]).status, 200);
    eventually_true("a span came to the collector", || {
        server.access().iter().any(|record| {
            record["target"]
                .as_str()
                .unwrap_or_default()
                .ends_with("/v1/traces")
        })
    });

    // A list that says nothing of the authority in use keeps all its servers from being believed.
    let other = Pki::new();
    let list = other.revoke(&[], SystemTime::now() + Duration::from_secs(24 * 60 * 60));
    let (status, report) = node.reload(&file(&format!(", crl_file: {}", list.display())));
    assert_eq!(status, 200, "{report}");
    assert_eq!(curl(&["-x", &node.url("web"), "http://a/"]).status, 503);
    let (status, report) = node.reload(&file(", crl_file: none.crl"));
    assert_eq!(status, 422, "{report}");
    assert!(
        report.to_string().contains("defaults.tls.crl_file"),
        "{report}"
    );

    // What never ends is no list.
    let (status, report) = node.reload(&file(", crl_file: /dev/zero"));
    assert_eq!(status, 422, "{report}");
    assert!(
        report.to_string().contains("longer than 16 MiB"),
        "{report}"
    );
}

#[test]
fn mistakes_in_defaults_are_said_once_and_where_they_stand() {
    let places = |listener: &str| -> Vec<String> {
        let said = check(&format!(
            r#"version: 1
listeners:
  web: {{ http: 127.0.0.1:8080{listener} }}
routes: [ {{ to: a }} ]
defaults:
  timeouts: {{ header: 0s }}
  limits: {{ listeners: {{ streams: 0 }} }}
  tls: {{ cert_file: none.pem }}
upstreams:
  a: {{ endpoints: ["a:1"], tls: true }}
  b: {{ endpoints: ["b:1"], tls: true }}
"#
        ));
        let lines = said.stdout.lines();
        lines
            .map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(": "))
            .collect()
    };

    assert_eq!(
        places(", tls: true"),
        [
            "node.yaml:3:37: listeners.web.tls",
            "node.yaml:6:23: defaults.timeouts.header",
            "node.yaml:7:35: defaults.limits.listeners.streams",
            "node.yaml:8:21: defaults.tls.cert_file",
            "node.yaml: 4 problems",
        ]
    );
    assert_eq!(
        places(""),
        [
            "node.yaml:6:23: defaults.timeouts.header",
            "node.yaml:7:35: defaults.limits.listeners.streams",
            "node.yaml:8:21: defaults.tls.cert_file",
            "node.yaml: 3 problems",
        ]
    );
}

#[test]
fn a_default_counts_where_nothing_nearer_says_otherwise_and_is_named_by_its_error() {
    let server = origins::acting(&[Act::Hang]);
    let file = |time: &str| {
        format!(
            "defaults: {{ timeouts: {{ header: {time} }} }}\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes:\n  \
             - {{ match: {{ target: OWN }}, terminate: server, timeouts: {{ header: 300ms }} }}\n  \
             - {{ match: {{ target: SLOW }}, terminate: slow }}\n  - {{ terminate: server }}\nupstreams:\n  \
             server: {{ endpoints: [\"{0}\"] }}\n  slow: {{ endpoints: [\"{0}\"], timeouts: {{ header: 400ms }} }}\n",
            server.address()
        )
    };
    let node = Node::start("edge", &file("500ms"));
    let says = |host: &str, key: &str| {
        let got = curl(&["-x", &node.url("web"), &format!("http://{host}/")]);
        let said = got.field("proxy-status").unwrap();
        let expected = format!("details=\"no response head within {key} on edge)\"");
        assert!(
            got.status == 504 && said.contains("http_response_timeout") && said.contains(&expected),
            "{said}"
        );
    };
    says("OWN", "300ms (routes[0].timeouts.header");
    says("SLOW", "400ms (upstreams.slow.timeouts.header");
    says("VIDEO", "500ms (defaults.timeouts.header");
    let (status, report) = node.reload(&file("1s"));
    assert_eq!(
        (status, &report["upstreams_changed"]),
        (200, &serde_json::json!(["server"])),
        "{report}"
    );
    says("VIDEO", "1s (defaults.timeouts.header");
}

#[test]
fn mistakes_that_newcomers_make_are_answered_with_what_to_write() {
    let file = |rest: &str| {
        format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: up }} ]\n{rest}"
        )
    };
    let up = "upstreams: { up: { endpoints: [a.example:1] } }\n";
    for (text, line, reason, remedy) in [
        (
            file(&format!("{up}log: {{ access: access.json }}\n")),
            ":5:",
            "log.access: ",
            "write a map: { file: access.json }",
        ),
        (
            file(&format!("{up}log: {{ level: loud }}\n")),
            ":5:",
            "log.level: `loud` is not a log level",
            "levels are off, error",
        ),
        (
            file(&up.replace("a.example:1", "\"https://a.example/x\"")),
            ":4:",
            "upstreams.up.endpoints[0]: ",
            "write a.example:443, and `tls: true`",
        ),
        (
            file(&up.replace("] }", "], tls: { ca: x.pem } }")),
            ":4:",
            "upstreams.up.tls.ca: ",
            "did you mean `ca_file`?",
        ),
        (
            file(up).replace("http: 127.0.0.1:0", "http: 127.0.0.1:0, auth: basic"),
            ":2:",
            "listeners.web.auth: ",
            "write a map: { basic: { file: .. } }",
        ),
        (
            file(up).replace("listeners", "node:n\nlisteners"),
            ":2:",
            "`node:n` is one word",
            "`node: n`",
        ),
    ] {
        let said = check(&text);
        let mut lines = said
            .stdout
            .lines()
            .filter(|said| said.starts_with(&format!("node.yaml{line}")));
        let found = lines.any(|said| said.contains(reason) && said.contains(remedy));
        assert!(
            found && said.code == 2,
            "{line} {reason} {remedy}:\n{}",
            said.stdout
        );
    }
}

#[test]
fn what_does_nothing_is_warned_of_and_the_file_is_valid() {
    let text = "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  - { to: up, expose: [user] }\n\
                log: { access: { file: none/access.json } }\n\
                upstreams:\n  up: { endpoints: [a.example:1] }\n  idle: { endpoints: [a.example:1] }\n";
    let said = check(text);
    let expected = [
        "node.yaml:8:3: warning: upstreams.idle: nothing uses this upstream; ",
        "node.yaml:4:15: warning: routes[0].expose: `expose` does nothing beside `to`: ",
        "node.yaml:5:24: warning: log.access.file: records cannot be written to ",
    ];
    for line in expected {
        assert!(
            said.stdout.lines().any(|said| said.starts_with(line)),
            "{line}\n{}",
            said.stdout
        );
    }
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.stdout
            .ends_with("node.yaml: valid, with 1 listener, 1 route and 2 upstreams, 3 warnings\n"),
        "{}",
        said.stdout
    );

    let node = Node::start(
        "alice",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 200 } } ]\nupstreams: { idle: { endpoints: [a.example:1] } }\n",
    );
    assert!(
        node.log()
            .contains("upstreams.idle: nothing uses this upstream"),
        "{}",
        node.log()
    );
}

#[test]
fn several_files_are_checked_and_standard_input_is_one() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (
        folder.path().join("good.yaml"),
        folder.path().join("bad.yaml"),
    );
    let text = "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 200 } } ]\n";
    fs::write(&good, text).unwrap();
    fs::write(&bad, text.replace("200", "99")).unwrap();
    let mut command = command();
    command.arg("check").args([&good, &bad]).arg("-");
    let pipe = std::process::Stdio::piped;
    let mut running = command.stdin(pipe()).stdout(pipe()).spawn().unwrap();
    running
        .stdin
        .take()
        .unwrap()
        .write_all(text.replace("routes", "rootes").as_bytes())
        .unwrap();
    let ended = running.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(
        said.contains("good.yaml: valid")
            && said.contains("bad.yaml:3:32: routes[0].respond.status"),
        "{said}"
    );
    assert!(
        said.contains("\n-:3:1: rootes: unknown key; did you mean `routes`?\n"),
        "{said}"
    );
    assert_eq!(ended.status.code(), Some(2));
}

/// The upstreams of a file that are tried, each with how it ends.
#[test]
fn upstreams_are_tried_when_asked() {
    let pki = Pki::new();
    let (sap, alice, other) = (
        pki.issue(&["sap.test"]),
        pki.issue(&["alice.test"]),
        Pki::new(),
    );
    let ca = pki.ca().display().to_string();
    let overlay = format!(
        "http: 127.0.0.1:0, auth: mtls, tls: {{ {}, client_ca_file: {ca} }}",
        sap.yaml()
    );
    let next = Node::start(
        "sap",
        &format!(
            "listeners: {{ overlay: {{ {overlay}, versions: [1, 2, 3] }}, clear: {{ http: 127.0.0.1:0 }} }}\n\
             routes: [ {{ respond: {{ status: 204 }} }} ]\n"
        ),
    );
    let (tls, clear) = (next.address("overlay"), next.address("clear"));
    let identity = format!("ca_file: {ca}, server_name: sap.test, {}", alice.yaml());
    let strange = format!(
        "ca_file: {}, server_name: sap.test, {}",
        other.ca().display(),
        alice.yaml()
    );
    let voice = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let upstreams = [
        (
            "sound",
            format!("endpoints: [\"{tls}\"], http: [3, 2], tls: {{ {identity} }}"),
        ),
        ("clear", format!("endpoints: [\"{clear}\"], http: 2")),
        (
            "nameless",
            format!(
                "endpoints: [\"{tls}\"], http: 2, tls: {{ ca_file: {ca}, server_name: sap.test }}"
            ),
        ),
        (
            "distrusted",
            format!("endpoints: [\"{tls}\"], http: 2, tls: {{ {strange} }}"),
        ),
        (
            "misnamed",
            format!(
                "endpoints: [\"{tls}\"], http: 2, tls: {{ {} }}",
                identity.replace("sap.test", "core.test")
            ),
        ),
        (
            "nowhere",
            "endpoints: [\"no-such-name.invalid:1\"]".to_owned(),
        ),
        (
            "closed",
            format!("endpoints: [\"{}\"]", hermes_tests::free::tcp()),
        ),
        ("end", format!("endpoints: [\"{clear}\"]")),
        (
            "voice",
            format!("endpoints: [\"{}\"]", voice.local_addr().unwrap()),
        ),
        (
            "silent",
            format!("endpoints: [\"{}\"]", hermes_tests::free::tcp()),
        ),
    ];
    let routes: String = upstreams
        .iter()
        .map(|(name, _)| {
            let action = if ["end", "voice", "silent"].contains(name) {
                "terminate"
            } else {
                "to"
            };
            format!("  - {{ match: {{ target: {name} }}, {action}: {name} }}\n")
        })
        .collect();
    let listed: String = upstreams
        .iter()
        .map(|(name, says)| format!("  {name}: {{ {says} }}\n"))
        .collect();
    let file = next.folder().join("dp.yaml");
    let text = format!(
        "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes:\n{routes}upstreams:\n{listed}"
    );
    fs::write(&file, text).unwrap();

    let said = run(&["check", "--connect", file.to_str().unwrap()]);
    for (begins, has) in [
        (
            format!(
                "ok  upstreams.sound {tls} TCP: {tls}, certificate of sap.test, HTTP/2, answered "
            ),
            "",
        ),
        (
            format!(
                "ok  upstreams.sound {tls} QUIC: {tls}, certificate of sap.test, HTTP/3, answered "
            ),
            "",
        ),
        (
            format!("ok  upstreams.clear {clear} TCP: {clear}, HTTP/2, answered "),
            "",
        ),
        (
            format!("FAILED  upstreams.nameless {tls} TCP: failed at "),
            "ertificate",
        ),
        (
            format!("FAILED  upstreams.distrusted {tls} TCP: failed at its certificate: "),
            "invalid peer certificate",
        ),
        (
            format!("FAILED  upstreams.misnamed {tls} TCP: failed at its certificate: "),
            "core.test",
        ),
        (
            "FAILED  upstreams.nowhere no-such-name.invalid:1 TCP: failed at ".to_owned(),
            "",
        ),
        (
            "FAILED  upstreams.closed ".to_owned(),
            "failed at the connection: ",
        ),
        (format!("ok  upstreams.end {clear} TCP: {clear}"), ""),
        (
            "ok  upstreams.voice ".to_owned(),
            "refuses connections, and no datagrams",
        ),
        (
            "FAILED  upstreams.silent ".to_owned(),
            "failed at the connection: ",
        ),
    ] {
        let found = said
            .stdout
            .lines()
            .any(|line| line.starts_with(&begins) && line.contains(has));
        assert!(found, "{begins} {has}\n{}", said.stdout);
    }
    assert_eq!(said.code, 1, "{said:?}");
    let json = run(&["check", "--json", "--connect", file.to_str().unwrap()]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let failed = json["tried"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tried| tried["error"].is_string())
        .count();
    assert_eq!(
        (failed, json["tried"].as_array().unwrap().len()),
        (6, 11),
        "{json:#}"
    );
}

/// A password within an address is shown in no reason and in no remedy, for people and for scripts.
#[test]
fn check_shows_no_password() {
    for endpoints in [
        "\"http://alice:s3cret@10.0.0.1:80\"",
        "\"https://alice:s3cret@proxy.example\"",
        "\"alice:s3cret@10.0.0.1:80\"",
        "\"alice:s3cret\"",
        "\"[::1]:s3cret\"",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.yaml");
        let text = format!(
            "version: 1\nlisteners: {{ web: {{ http: \"alice:s3cret\", auth: {{ basic: \"alice:s3cret\", bearer: \"Bearer s3cret\" }} }} }}\nroutes: [ {{ to: \"alice:s3cret@x:80\" }} ]\nupstreams: {{ p: {{ endpoints: [{endpoints}] }} }}\n"
        );
        fs::write(&file, text).unwrap();
        for arguments in [vec!["check"], vec!["check", "--json"]] {
            let arguments = [arguments.as_slice(), &[file.to_str().unwrap()]].concat();
            let said = run(&arguments);
            assert_eq!(said.code, 2, "{said:?}");
            let words = format!("{}{}", said.stdout, said.stderr);
            assert!(!words.contains("s3cret"), "{words}");
        }
    }
}

/// `hermes check <(..)`.
#[test]
fn check_reads_a_pipe() {
    let yaml = "version: 1\\nlisteners: { web: { http: 127.0.0.1:0 } }\\nroutes: [ { terminate: true } ]\\n";
    let output = std::process::Command::new("bash")
        .args(["-c", &format!("exec \"$0\" check <(printf '{yaml}')")])
        .arg(path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("valid"), "{said}");
}

/// What is asked for with `--json` is JSON, wrong usage included.
#[test]
fn every_command_answers_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, "version: 1\nlisteners: { nodes: { http: 127.0.0.1:8443, insecure_trust: [127.0.0.0/8] }, web: { http: 127.0.0.1:8080 } }\nroutes: [ { terminate: true } ]\n").unwrap();
    let file = file.to_str().unwrap();
    let key = folder.path().join("key");
    let key = key.to_str().unwrap();
    for arguments in [
        &["check", file][..],
        &["schema"],
        &["custody-key", key],
        &["wireguard-key", key],
        &["completions", "bash"],
        &["env", "--file", file],
        &["why", file, "GET", "http://x/"],
        &["bogus"],
        &["check", "--bogus"],
        &["status", "--admin", "/nowhere.sock"],
    ] {
        let said = run(&[arguments, &["--json"]].concat());
        let json: Result<serde_json::Value, _> = serde_json::from_str(&said.stdout);
        assert!(json.is_ok(), "{arguments:?}: {said:?}");
    }

    // A listener for nodes is none for programs.
    let said = run(&["env", "--file", file]);
    assert!(
        said.stdout.contains("http_proxy=http://127.0.0.1:8080"),
        "{said:?}"
    );
    // Each command has its help.
    for command in ["run", "check", "why", "policy"] {
        let said = run(&["help", command]);
        assert!(
            said.code == 0 && said.stdout.contains("Usage: hermes"),
            "{said:?}"
        );
        assert!(
            said.stdout.lines().all(|line| line.chars().count() <= 100),
            "{said:?}"
        );
    }
}

#[test]
fn a_node_is_called_as_its_machine_where_its_file_says_so() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter),
        "-",
    );
    let node = Node::start(
        "any",
        "node: \"{file}.{host}\"\nlisteners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 200 } } ]\n",
    );
    assert_eq!(node.status()["node"], format!("node.{host}"));
}
