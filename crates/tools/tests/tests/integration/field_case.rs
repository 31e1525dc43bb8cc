//! Names of fields as they came, for origins that tell capitals from small letters.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Which of these lines the origin saw.
fn lines(head: &str, wanted: &[&str]) -> Vec<bool> {
    wanted
        .iter()
        .map(|line| head.lines().any(|seen| seen == *line))
        .collect()
}

#[test]
fn names_leave_as_they_came_where_the_upstream_says_so() {
    let old = origins::scripted(OK);
    let new = origins::scripted(OK);
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes:
              - {{ match: {{ path: /old }}, terminate: old }}
              - {{ terminate: new }}
            upstreams:
              old: {{ endpoints: ["{}"], field_case: preserve }}
              new: {{ endpoints: ["{}"] }}
            "#,
            old.address(),
            new.address()
        ),
    );
    let ask = |path: &str| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "POST {path} HTTP/1.1\r\nhOsT: site\r\nSOAPAction:x\r\nX-camelCase: 1\r\nContent-Length: 2\r\n\r\nok"
        ));
        assert_eq!(raw.head().status(), 200);
    };
    let spelled = [
        "Host: site",
        "SOAPAction: x",
        "X-camelCase: 1",
        "Content-Length: 2",
    ];
    let small = [
        "host: site",
        "soapaction: x",
        "x-camelcase: 1",
        "content-length: 2",
    ];

    ask("/old");
    let head = old.last();
    assert_eq!(lines(&head, &spelled), [true; 4], "{head}");
    // Those that the node adds have the capitals that most programs write.
    assert!(head.contains("\r\nVia: 1.1 edge"), "{head}");
    ask("/new");
    let head = new.last();
    assert_eq!(lines(&head, &small), [true; 4], "{head}");

    // Over HTTP/2 no name has capitals.
    let url = format!("{}/old", node.url("web"));
    let got = curl(&["--http2-prior-knowledge", "-H", "X-camelCase: 1", &url]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(lines(&old.last(), &small[2..3]), [true]);
}
