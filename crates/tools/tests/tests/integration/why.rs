//! `hermes why`: what it says of an exchange is what a node with the same file does.

use std::process::Command;

use hermes_tests::origins::{Answer, deciding};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins, program};
use serde_json::Value;

/// Routes by user, field and path; targets that end here are loopback addresses, of which one may be chosen.
fn yaml(origin: &str) -> String {
    format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0, user: alice, accepts: [service], set: {{ room: "{{user}}-{{listener}}" }} }}
          other: {{ http: 127.0.0.1:0 }}
        routes:
          - {{ name: bobs, match: {{ user: bob }}, respond: {{ status: 418 }} }}
          - {{ name: films, match: {{ path: /films/*, fields: {{ room: alice-web }} }}, to: films }}
          - {{ name: served, match: {{ fields: {{ service: web }} }}, respond: {{ status: 204 }} }}
          - {{ name: here, match: {{ listener: web }}, terminate: true }}
        upstreams: {{ films: {{ endpoints: ["{origin}"] }} }}
        egress: {{ allow: [127.0.0.1/32] }}
        "#
    )
}

/// What `hermes why` answers, and its exit code.
fn why(node: &Node, words: &[&str]) -> (Value, i32) {
    let output = Command::new(program::path())
        .arg("why")
        .arg(node.file())
        .args(words)
        .arg("--json")
        .output()
        .unwrap();
    let answer = serde_json::from_slice(&output.stdout);
    (answer.unwrap(), output.status.code().unwrap())
}

#[test]
fn what_it_says_is_what_the_node_does() {
    let origin = origins::http();
    let node = Node::start("edge", &yaml(&origin.address().to_string()));
    let url = format!("http://{}", origin.address());
    let cases = [
        ("web", "/films/one", vec![], "films"),
        ("web", "/two", vec!["user: bob"], "here"),
        ("web", "/three", vec!["service: web"], "served"),
        ("web", "/four", vec!["room: alice-web"], "here"),
    ];
    for (listener, path, fields, route) in cases {
        let url = format!("{url}{path}");
        let mut asked = vec!["GET", url.as_str(), "--listener", listener];
        let proxy = node.url(listener);
        let mut sent = vec!["-x", proxy.as_str(), url.as_str()];
        for field in &fields {
            asked.extend(["-H", field]);
            sent.extend(["-H", field]);
        }

        let (said, code) = why(&node, &asked);
        assert_eq!((&said["route"], code), (&route.into(), 0), "{said}");
        assert_eq!(said["user"], "alice");

        curl(&sent);
        let is_this = |record: &Value| record["target"].as_str().unwrap().ends_with(path);
        let record = node.record(is_this);
        assert_eq!(
            (&record["route"], &record["user"]),
            (&said["route"], &said["user"])
        );
    }
}

/// What `hermes why` answers of these nodes, by its arguments, and its exit code.
fn ask(nodes: &[&Node], words: &[&str]) -> (Value, i32) {
    // Where nodes put their sockets unless told otherwise.
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("hermes");
    std::fs::create_dir(&sockets).unwrap();
    for (number, node) in nodes.iter().enumerate() {
        let link = sockets.join(format!("{number}.sock"));
        std::os::unix::fs::symlink(node.socket(), link).unwrap();
    }

    let output = Command::new(program::path())
        .arg("why")
        .args(words)
        .arg("--json")
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (answer, output.status.code().unwrap())
}

/// The name that a refusal has in `Proxy-Status`.
fn name_of(status: &str) -> String {
    let (_, name) = status.rsplit_once("; refusal=").unwrap();
    name.to_owned()
}

/// A node that refuses in each phase.
fn strict() -> Node {
    Node::start(
        "gate",
        r#"
        listeners:
          web: { http: 127.0.0.1:0, user: alice, forged: refuse }
        policy:
          rules:
            - { name: no-admin, match: { path: /admin/* }, deny: { reason: not from here } }
          default: allow
        routes:
          - { match: { target: gone }, to: gone }
          - { match: { target: 127.0.0.2 }, terminate: true }
        upstreams: { gone: { endpoints: ["127.0.0.1:1"] } }
        egress: { allow: [127.0.0.1/32] }
        "#,
    )
}

#[test]
fn each_refusal_has_a_name_that_the_node_resolves() {
    let node = strict();
    let cases = [
        (
            "GET http://gone/admin/x",
            "",
            403,
            "policy",
            "policy.rules[0]",
        ),
        (
            "GET http://gone/x",
            "user: bob\r\n",
            403,
            "identify",
            "listeners.web.auth",
        ),
        ("GET http://elsewhere/x", "", 404, "route", "routes"),
        ("GET http://gone/x", "", 502, "forward", "upstreams.gone"),
        ("GET http://127.0.0.2/x", "", 502, "forward", "egress"),
        ("GET http://gone/..%2fx", "", 400, "accept", "listeners.web"),
        ("GET no-target", "", 400, "accept", "listeners.web"),
    ];
    for (asked, fields, status, phase, path) in cases {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!("{asked} HTTP/1.1\r\nHost: gone\r\n{fields}\r\n"));
        let (head, _) = raw.response();
        assert_eq!(head.status(), status, "{asked}: {head:?}");

        let name = name_of(&head.field("proxy-status").unwrap());
        let (said, code) = ask(&[&node], &[&name]);
        assert_eq!((&said["status"], code), (&status.into(), 0), "{said}");
        let steps = said["steps"].as_array().unwrap();
        let last = steps.last().unwrap();
        assert_eq!(
            (&last["phase"], &last["path"]),
            (&phase.into(), &path.into()),
            "{said}"
        );
        assert!(
            last["place"].as_str().unwrap().starts_with("node.yaml:"),
            "{said}"
        );

        // The record has the name, too, and its own is as good.
        let Some(exchange) = said["happened"]["exchange"].as_str() else {
            continue;
        };
        let record = node.record(|record| record["id"] == exchange);
        assert_eq!(record["refusal"], name.as_str(), "{record}");
        let (again, _) = ask(&[&node], &[exchange]);
        assert_eq!(again, said);
    }
}

#[test]
fn what_was_compared_is_told_of_a_refusal() {
    let node = strict();
    let refused = curl(&["-x", &node.url("web"), "http://elsewhere/x"]);
    let name = name_of(&refused.field("proxy-status").unwrap());
    let (said, _) = ask(&[&node], &[&name]);

    let steps = said["steps"].as_array().unwrap();
    let words: Vec<String> = steps
        .iter()
        .map(|step| {
            format!(
                "{} {}",
                step["phase"].as_str().unwrap(),
                step["path"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            "identify listeners.web.user",
            "policy policy.rules[0].match",
            "policy policy.default",
            "route routes[0].match",
            "route routes[1].match",
            "route routes",
        ],
        "{said}"
    );

    let (_, code) = ask(&[&node], &["bcdfghjklmnp"]);
    assert_eq!(code, 1, "a name that no one gave");
}

#[test]
fn a_running_node_says_what_its_file_says() {
    let node = strict();
    for words in [
        &["GET", "http://gone/admin/x"][..],
        &["GET", "http://gone/x", "-H", "user: bob"],
        &["CONNECT", "gone:80"],
        &["http://elsewhere/x", "--listener", "web"],
        &["CONNECT", "127.0.0.2:80"],
    ] {
        let (of_file, code) = why(&node, words);
        let (mut of_node, same) = ask(&[&node], words);
        assert_eq!(of_node["node"], "gate");
        of_node.as_object_mut().unwrap().remove("node");

        // Only a running node knows in what state an endpoint is.
        let forgets = |said: &mut Value| {
            let steps = said["steps"].as_array_mut().unwrap();
            steps.retain(|step| step["phase"] != "forward");
        };
        let mut of_file = of_file;
        forgets(&mut of_file);
        forgets(&mut of_node);
        assert_eq!((of_file, code), (of_node, same), "{words:?}");
    }
}

#[test]
fn filters_are_asked_where_that_is_wanted_and_remembered_of_what_was_refused() {
    let server = deciding(
        |question| match question.request.field("token").as_deref() {
            Some("admin") => Answer::new(200, &[("x-secure", "admin")]),
            _ => Answer::new(401, &[]),
        },
    );
    let node = Node::start(
        "gate",
        &format!(
            r#"
            fields: [user, x-secure]
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            authorize: [ {{ name: check, upstream: authority, timeout: 5s, send: [token], allow_fields: [x-secure] }} ]
            routes:
              - {{ name: admins, match: {{ fields: {{ x-secure: admin }} }}, respond: {{ status: 200 }} }}
              - {{ name: others, respond: {{ status: 404 }} }}
            upstreams: {{ authority: {{ endpoints: ["{}"] }} }}
            "#,
            server.address()
        ),
    );

    let words = ["GET", "http://video/", "-H", "token: admin"];
    let (unasked, _) = ask(&[&node], &words);
    assert_eq!(unasked["route"], "others", "{unasked}");
    assert!(server.seen().is_empty(), "no one said --ask");

    let (asked, code) = ask(&[&node], &[&words[..], &["--ask"]].concat());
    assert_eq!((&asked["route"], code), (&"admins".into(), 0), "{asked}");
    let (denied, code) = ask(&[&node], &["http://video/", "--ask"]);
    assert_eq!((&denied["status"], code), (&401.into(), 1), "{denied}");
    assert_eq!(denied["steps"][1]["path"], "authorize[0]");

    let refused = curl(&["-x", &node.url("web"), "http://video/"]);
    let name = name_of(&refused.field("proxy-status").unwrap());
    let (said, _) = ask(&[&node], &[&name]);
    let steps = said["steps"].as_array().unwrap();
    let remembered = steps
        .iter()
        .find(|step| step["phase"] == "authorize")
        .unwrap();
    assert_eq!(
        remembered["said"], "remembered: check denied: 401",
        "{said}"
    );
    assert_eq!(remembered["path"], "authorize[0]");
}

#[test]
fn a_refusal_is_followed_to_the_node_that_refused() {
    let last = Node::start(
        "last",
        r#"
        listeners: { overlay: { http: 127.0.0.1:0 } }
        routes: [ { match: { target: here }, respond: { status: 200 } } ]
        "#,
    );
    let first = Node::start(
        "first",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ name: onwards, to: last }} ]
            upstreams: {{ last: {{ endpoints: ["{}"] }} }}
            "#,
            last.address("overlay")
        ),
    );

    let message = curl(&["-x", &first.url("web"), "http://nowhere/"]);
    let tunnel = Raw::tunnel(first.address("web"), "nowhere:80", "").unwrap_err();
    for status in [message.field("proxy-status"), tunnel.field("proxy-status")] {
        let name = name_of(&status.unwrap());
        let (said, code) = ask(&[&last, &first], &[&name, "--all"]);
        assert_eq!(code, 0, "{said}");

        let nodes: Vec<_> = said["path"]
            .as_array()
            .unwrap()
            .iter()
            .map(|account| (account["node"].as_str().unwrap(), account["route"].as_str()))
            .collect();
        assert_eq!(
            nodes,
            [("first", Some("onwards")), ("last", None)],
            "{said}"
        );
    }
}

#[test]
fn a_refusal_says_why_and_where() {
    let origin = origins::http();
    let node = Node::start("edge", &yaml(&origin.address().to_string()));

    let (said, code) = why(&node, &["CONNECT", "127.0.0.2:80"]);
    assert_eq!((&said["allowed"], code), (&false.into(), 1));
    let egress = said["egress"].as_str().unwrap();
    assert!(egress.contains("127.0.0.2:80 is denied"), "{egress}");
    let refused = Raw::tunnel(node.address("web"), "127.0.0.2:80", "").unwrap_err();
    assert_eq!(refused.status(), 502);

    let url = format!("http://{}/one", origin.address());
    let (said, code) = why(&node, &[&url, "--listener", "other"]);
    assert_eq!((&said["refused"], code), (&"no route matches".into(), 1));
    let steps = said["steps"].as_array().unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last["path"], "routes[3].match");
    let place = last["place"].as_str().unwrap();
    let file = node.file();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(place.starts_with(&format!("{name}:")), "{place}");
    assert_eq!(curl(&["-x", &node.url("other"), &url]).status, 404);
}

#[test]
fn what_ends_a_tunnel_is_told_with_the_fields_and_routes_before_it() {
    let echo = origins::tcp_echo();
    let yaml = format!(
        r#"
        fields: [user, service]
        listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }} }}
        policy: {{ default: allow, rules: [] }}
        routes:
          - {{ name: pages, match: {{ kind: http }}, respond: {{ status: 200 }} }}
          - {{ name: tagged, match: {{ kind: connect, fields: {{ service: db }} }}, respond: {{ status: 204 }} }}
          - {{ name: bobs, match: {{ user: bob }}, respond: {{ status: 204 }} }}
          - {{ name: echo, match: {{ target: DB }}, terminate: "{}" }}
          - {{ name: rest, respond: {{ status: 404 }} }}
        "#,
        echo.address()
    );
    let node = Node::start("gate", &yaml);
    let claims = "service: db\r\nx-forwarded-for: 192.0.2.1\r\n";
    let mut tunnel = Raw::tunnel(node.address("web"), "DB:7", claims).unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");

    let denies = "rules: [{ name: shut, match: { target: DB }, deny: true }]";
    let (status, answer) = node.reload(&yaml.replace("rules: []", denies));
    assert_eq!(status, 200, "{answer}");
    let ended = node.record(|record| record["event"] == "end" && record["method"] == "CONNECT");
    let (said, _) = ask(&[&node], &[ended["refusal"].as_str().unwrap()]);

    let steps = said["steps"].as_array().unwrap();
    let told: Vec<String> = steps
        .iter()
        .map(|step| {
            format!(
                "{} {}",
                step["phase"].as_str().unwrap(),
                step["said"].as_str().unwrap()
            )
        })
        .collect();
    for expected in [
        "identify field service is not trusted, and removed",
        "identify field x-forwarded-for is not trusted, and removed",
        "route pages: no, kind connect is not http",
        "route tagged: no, by what was not kept of it",
        "route bobs: no, user alice is not bob",
        "route echo: yes;",
    ] {
        assert!(
            told.iter().any(|step| step.starts_with(expected)),
            "{expected}: {told:#?}"
        );
    }
    assert!(
        !told.iter().any(|step| step.starts_with("route rest")),
        "{told:#?}"
    );
}

#[test]
fn the_endpoints_of_a_supposed_exchange_are_told_as_they_are() {
    let node = strict();
    let endpoint = |said: &Value| {
        let steps = said["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["phase"] == "forward");
        let step = step.unwrap_or_else(|| panic!("no endpoint: {said}"));
        assert_eq!(step["path"], "upstreams.gone.endpoints");
        assert!(step["place"].as_str().unwrap().starts_with("node.yaml:"));
        step["said"].as_str().unwrap().to_owned()
    };
    let words = ["GET", "http://gone/x"];
    assert_eq!(endpoint(&why(&node, &words).0), "endpoint 127.0.0.1:1");
    let before = endpoint(&ask(&[&node], &words).0);
    assert!(before.starts_with("endpoint 127.0.0.1:1 is "), "{before}");

    // A running node has tried it.
    assert_eq!(curl(&["-x", &node.url("web"), "http://gone/x"]).status, 502);
    let after = endpoint(&ask(&[&node], &words).0);
    assert!(after.contains(", last ") && after != before, "{after}");
}

/// A node at the end of tunnels of IP, of which none is opened here.
const PACKETS: &str = r#"
    users: { alice: [al] }
    listeners: { web: { http: 127.0.0.1:0, user: alice }, side: { http: 127.0.0.1:0, user: bob } }
    policy:
      rules:
        - { name: lab, match: { kind: connect-ip, target: 10.1.0.0/16 }, allow: true }
        - { name: chat, match: { kind: upgrade, path: /chat }, allow: true }
      packets:
        rules:
          - { name: ssh, user: alice, to: 10.1.2.0/24, protocol: tcp, port: 22, allow: true }
          - { name: dns, protocol: udp, port: 53, allow: true }
          - { name: no-gre, protocol: gre, deny: true }
    routes:
      - { name: chats, match: { kind: upgrade }, respond: { status: 404 } }
      - { name: packets, match: { kind: connect-ip }, respond: { status: 410 } }
"#;

#[test]
fn tunnels_of_packets_and_upgrades_can_be_supposed() {
    let node = Node::start("gate", PACKETS);
    let cases: [(&[&str], Option<&str>, &str); 5] = [
        (&["CONNECT-IP", "10.1.2.0/24", "udp"], Some("packets"), ""),
        (&["CONNECT-IP", "10.0.0.0/8"], None, "policy.default"),
        (&["CONNECT-IP"], None, "policy.default"),
        (
            &["UPGRADE", "websocket", "http://VIDEO/chat"],
            Some("chats"),
            "",
        ),
        (
            &["UPGRADE", "voice", "http://VIDEO/other"],
            None,
            "policy.default",
        ),
    ];
    for (words, route, denied) in cases {
        let (of_file, code) = why(&node, words);
        let (mut of_node, same) = ask(&[&node], words);
        of_node.as_object_mut().unwrap().remove("node");
        assert_eq!((&of_file, code), (&of_node, same), "{words:?}");
        assert_eq!(of_file["route"].as_str(), route, "{of_file}");
        if route.is_none() {
            let last = of_file["steps"].as_array().unwrap().last().unwrap();
            assert_eq!((&last["path"], code), (&denied.into(), 1), "{of_file}");
        }
    }

    // What is forecast is what happens.
    for (values, status) in [("10.1.2.0%2F24/17", 410), ("10.0.0.0%2F8/*", 403)] {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "GET /.well-known/masque/ip/{values}/ HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\n\
             Upgrade: connect-ip\r\nCapsule-Protocol: ?1\r\n\r\n"
        ));
        assert_eq!(raw.head().status(), status, "{values}");
    }
}

#[test]
fn a_supposed_packet_is_judged_with_the_rule_and_its_line() {
    let node = Node::start("gate", PACKETS);
    let cases: [(&[&str], bool, &str); 5] = [
        (
            &["PACKET", "tcp", "10.1.2.7:22", "--user", "al"],
            true,
            "policy.packets.rules[0]",
        ),
        (
            &["PACKET", "tcp", "10.1.2.7:22", "--user", "bob"],
            false,
            "policy.packets.default",
        ),
        (
            &["PACKET", "udp", "10.9.9.9:53"],
            true,
            "policy.packets.rules[1]",
        ),
        (
            &["PACKET", "gre", "10.1.2.7"],
            false,
            "policy.packets.rules[2]",
        ),
        (
            &["PACKET-TO-CLIENT", "tcp", "10.7.0.2:22"],
            false,
            "policy.packets.default",
        ),
    ];
    for (words, allowed, path) in cases {
        let words = [words, &["--source", "10.7.0.9"]].concat();
        let (of_file, code) = why(&node, &words);
        let (mut of_node, same) = ask(&[&node], &words);
        assert_eq!(of_node["node"], "gate");
        of_node.as_object_mut().unwrap().remove("node");
        assert_eq!((&of_file, code), (&of_node, same), "{words:?}");

        assert_eq!(
            (&of_file["allowed"], code),
            (&allowed.into(), i32::from(!allowed)),
            "{of_file}"
        );
        let last = of_file["steps"].as_array().unwrap().last().unwrap();
        assert_eq!(last["path"], path, "{of_file}");
        // A default that no one wrote down has the line of what it belongs to.
        let place = last["place"].as_str().unwrap();
        assert!(place.starts_with("node.yaml:"), "{of_file}");
    }
}

#[test]
fn a_refusal_is_followed_to_nodes_that_run_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let far = folder.path().join("last.sock").display().to_string();
    let last = Node::start(
        "last",
        r#"
        listeners: { overlay: { http: 127.0.0.1:0 } }
        routes: [ { match: { target: here }, respond: { status: 200 } } ]
        "#,
    );
    // The admin socket of the last node, through the overlay: a service like any other, for those who may.
    let first = Node::start(
        "first",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0 }}
              admin: {{ tcp: "unix:{far}", target: "ADMIN:1", user: operator }}
            routes:
              - {{ match: {{ user: operator, target: ADMIN }}, terminate: admin }}
              - {{ name: onwards, to: last }}
            upstreams:
              last: {{ endpoints: ["{}"] }}
              admin: {{ endpoints: ["unix:{}"] }}
            "#,
            last.address("overlay"),
            last.socket().display()
        ),
    );

    let refused = curl(&["-x", &first.url("web"), "http://nowhere/"]);
    let name = name_of(&refused.field("proxy-status").unwrap());
    // The command finds the first node by itself, and no other.
    let nodes = |words: &[&str]| {
        let (said, code) = ask(&[&first], words);
        assert_eq!(code, 0, "{said}");
        let path = said["path"].as_array().unwrap().clone();
        path.into_iter()
            .map(|account| account["node"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(nodes(&[&name, "--all"]), ["first"]);
    assert_eq!(nodes(&[&name, "--all", "--also", &far]), ["first", "last"]);
}

/// Each document of the README that has routes, and each short form of an end.
#[test]
fn a_file_with_ends_that_are_addresses_is_asked_as_the_node_runs_it() {
    for end in [
        "127.0.0.1:8000",
        "\"[::1]:8000\"",
        "app.internal:80",
        "unix:/run/app.sock",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.yaml");
        let text = format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ name: app, terminate: {end} }} ]\n"
        );
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let said = program::run(&["why", file, "GET", "http://VIDEO/one", "--json"]);
        assert_eq!(said.code, 0, "{end}: {said:?}");
        let account: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(account["route"], "app", "{end}: {account:#}");
    }
}

const REGO: &str = "package overlay\nimport rego.v1\ndefault decision := {\"allow\": false, \"status\": 403, \"reason\": \"not you\"}\n\
     decision := {\"allow\": true, \"fields\": {\"x-room\": \"blue\"}} if input.user == \"bob\"\n";

/// What a policy in Rego decides in the process, it decides in the file, too; what it sets, routes see.
#[test]
fn a_policy_in_rego_decides_in_the_file_as_in_the_node() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.rego"), REGO).unwrap();
    let yaml = r#"
        listeners: { web: { http: 127.0.0.1:0 }, bobs: { http: 127.0.0.1:0, user: bob } }
        authorize: [ { name: overlay, timeout: 60s, allow_fields: [x-room], rego: { files: policy.rego, query: data.overlay.decision } } ]
        routes:
          - { name: blue, match: { fields: { x-room: blue } }, respond: { status: 204 } }
          - { name: other, respond: { status: 200 } }
        "#;
    let node = Node::start_in(folder, "edge", yaml, &[]);
    for (listener, status, code) in [("web", 403, 1), ("bobs", 204, 0)] {
        let (said, left) = why(&node, &["GET", "http://VIDEO/", "--listener", listener]);
        assert_eq!((&said["status"], left), (&status.into(), code), "{said:#}");
        assert!(said.to_string().contains("overlay"), "{said:#}");
        let mut raw = Raw::connect(node.address(listener));
        raw.send("GET http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\n\r\n");
        assert_eq!(raw.head().status(), status as u16);

        // The running node needs no leave to ask what costs nothing.
        let socket = node.socket();
        let words = [
            "GET",
            "http://VIDEO/",
            "--listener",
            listener,
            "--admin",
            socket.to_str().unwrap(),
        ];
        let (said, left) = ask(&[], &words);
        assert_eq!((&said["status"], left), (&status.into(), code), "{said:#}");
    }

    std::fs::remove_file(node.folder().join("policy.rego")).unwrap();
    let file = node.file();
    let said = program::run(&["why", file.to_str().unwrap(), "GET", "http://VIDEO/"]);
    assert!(
        said.code == 2 && said.stderr.contains("policy.rego"),
        "{said:?}"
    );
}

/// Whatever the nodes are called and wherever the question begins: from the client to the node that refused.
#[test]
fn a_path_of_several_nodes_is_told_in_its_order() {
    let start = |name: &str, next: Option<&Node>| {
        let (route, upstreams) = match next {
            None => (
                "match: { target: here }, respond: { status: 200 }".to_owned(),
                String::new(),
            ),
            Some(next) => (
                "to: next".to_owned(),
                format!(
                    "upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}",
                    next.address("web")
                ),
            ),
        };
        Node::start(
            name,
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ {route} }} ]\n{upstreams}\n"
            ),
        )
    };
    let last = start("b", None);
    let third = start("d", Some(&last));
    let second = start("a", Some(&third));
    let first = start("c", Some(&second));

    let status = curl(&["-x", &first.url("web"), "http://nowhere/"]).field("proxy-status");
    let name = name_of(&status.unwrap());
    for nodes in [
        [&last, &third, &second, &first],
        [&second, &first, &last, &third],
    ] {
        let (said, code) = ask(&nodes, &[&name, "--all"]);
        assert_eq!(code, 0, "{said}");
        let path = said["path"].as_array().unwrap();
        let told: Vec<_> = path
            .iter()
            .map(|account| account["node"].as_str().unwrap())
            .collect();
        assert_eq!(told, ["c", "a", "d", "b"], "{said:#}");
    }
}
