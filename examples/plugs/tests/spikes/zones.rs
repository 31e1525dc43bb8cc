//! A filter that changes a field on which the routes look, and one that never decides.

use std::collections::HashMap;

use hermes_example_plugs::zones::Zones;
use hermes_plug::{Deciding, Filter, Plugs, Subject};
use http::HeaderValue;

use super::node::{Node, hear, say};

/// Never decides, and says whether that is because of what it needs.
struct Never {
    is_away: bool,
}

impl Filter for Never {
    fn decide<'a>(&'a self, _: &'a Subject<'a>) -> Deciding<'a> {
        Box::pin(std::future::pending())
    }

    fn is_away(&self) -> bool {
        self.is_away
    }
}

/// A node that asks this filter, with these further keys of its entry.
fn node(filter: impl Filter + 'static, keys: &str) -> Node {
    let yaml = format!(
        "fields: [zone]\n\
         listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         authorize: [ {{ name: zones, filter: zones{keys} }} ]\n\
         routes:\n  \
         - {{ match: {{ fields: {{ zone: blue }} }}, respond: {{ status: 200, body: in the blue zone }} }}\n  \
         - {{ respond: {{ status: 200, body: in no zone }} }}\n"
    );
    Node::start("zones", &yaml, Plugs::new().filter("zones", filter))
}

/// Asks for a host; `wanted` ends the answer.
async fn ask(node: &Node, host: &str, wanted: &str) -> String {
    let mut client = node.connect().await;
    say(
        &mut client,
        &format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    )
    .await;
    hear(&mut client, wanted).await
}

#[tokio::test]
async fn a_filter_changes_fields_and_denies() {
    let blue = HashMap::from([("sky".to_owned(), HeaderValue::from_static("blue"))]);
    let node = node(Zones(blue), "");
    ask(&node, "SKY", "in the blue zone").await;
    let answer = ask(&node, "SEA", "no one knows the host").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    node.end().await;
}

#[tokio::test]
async fn a_filter_that_does_not_decide_in_time_opens_only_where_it_says_that_it_cannot() {
    for (is_away, keys) in [(false, ""), (true, ""), (false, ", fail: open")] {
        let closed = node(Never { is_away }, &format!(", timeout: 1ms{keys}"));
        let answer = ask(&closed, "SKY", "no decision within 1 ms").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{keys}: {answer}");
        closed.end().await;
    }
    let open = node(Never { is_away: true }, ", timeout: 1ms, fail: open");
    ask(&open, "SKY", "in no zone").await;
    open.end().await;
}
