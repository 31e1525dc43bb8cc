//! What clients choose and administrators see.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, eventually, origins, program};

/// A name that turns the direction of writing, so that what follows reads as something else.
const USER: &str = "alice\u{202e}toor\u{2066}";

/// Characters that a terminal would obey rather than show: no output holds any but the end of a line.
fn obeyed(text: &str) -> Vec<char> {
    let directs = |letter: char| matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .filter(|letter| *letter != '\n' && (letter.is_control() || directs(*letter)))
        .collect()
}

#[test]
fn nothing_that_a_client_chose_commands_a_terminal() {
    let origin = origins::http();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, accepts: [user] }} }}
            routes: [ {{ terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://VIDEO/hang HTTP/1.1\r\nHost: VIDEO\r\nuser: {USER}\r\n\r\n"
    ));
    eventually("the exchange is live", || {
        node.exchanges()
            .iter()
            .any(|live| live["user"] == USER)
            .then_some(())
    });
    let socket = node.socket().display().to_string();
    for (words, shows) in [
        (&["exchanges", "--once"][..], true),
        (&["exchanges", "--once", "--json"], true),
        (&["top", "--json"], true),
        (&["status"], false),
        (&["status", "--json"], false),
    ] {
        let said = program::run(&[words, &["--admin", &socket]].concat());
        assert!(obeyed(&said.stdout).is_empty(), "{words:?}: {said:?}");
        assert!(
            !shows || said.stdout.contains("202e"),
            "{words:?}: {said:?}"
        );
    }
    origin.release();
    assert_eq!(raw.head().status(), 200);
    // The records go to standard output unless the file says otherwise.
    node.record(|record| record["user"] == USER);
    let records = std::fs::read_to_string(node.folder().join("access.json")).unwrap();
    assert!(
        obeyed(&records).is_empty() && records.contains(r"alice\u202etoor\u2066"),
        "{records}"
    );
}
