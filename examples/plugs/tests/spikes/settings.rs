//! Settings of plugs: where they are named, for the node, and on a reload.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_config::Problem;
use hermes_example_plugs::echo::Echo;
use hermes_example_plugs::greeter::Greeter;
use hermes_example_plugs::only::Only;
use hermes_plug::{Beginning, Plugs, Settings, Transform, TunnelSubject};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::node::{Node, hear, say};

/// Asks for a tunnel; `wanted` ends the answer.
async fn ask(node: &Node, request: &str, wanted: &str) -> String {
    let mut client = node.connect().await;
    say(&mut client, request).await;
    hear(&mut client, wanted).await
}

#[tokio::test]
async fn a_transform_refuses_a_tunnel_by_its_target() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = origin.local_addr().unwrap();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         routes: [ {{ terminate: \"{address}\", through: [ {{ only: {{ hosts: [db] }} }} ] }} ]\n"
    );
    let node = Node::start(
        "only",
        &yaml,
        Plugs::new().transform("only", Only::default()),
    );

    let answer = ask(
        &node,
        "CONNECT DB:1 HTTP/1.1\r\nHost: DB:1\r\n\r\n",
        "\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let words = "tunnels to web:1 are not for this route";
    let answer = ask(
        &node,
        "CONNECT WEB:1 HTTP/1.1\r\nHost: WEB:1\r\n\r\n",
        words,
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("error=http_request_denied"), "{answer}");

    // Tunnels of datagrams are refused as well.
    let udp = "GET /.well-known/masque/udp/web/53/ HTTP/1.1\r\nHost: proxy\r\n\
               Connection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n";
    let answer = ask(&node, udp, "tunnels to web:53 are not for this route").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    node.end().await;
}

fn greeting(node: &str, words: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         routes: [ {{ handle: greeter }} ]\nplugs:\n  greeter: {{ {node}: {words} }}\n"
    )
}

fn plugs(greeter: &Greeter) -> Plugs {
    Plugs::new()
        .handler("greeter", greeter.clone())
        .plug("greeter", greeter.clone())
        .transform("only", Only::default())
}

#[test]
fn a_wrong_key_of_a_plug_is_found_at_its_line() {
    let text = "version: 1\n\
                routes:\n  \
                - to: next\n    \
                  through:\n      \
                  - only: { host: [db] }\n\
                plugs:\n  \
                greeter:\n    \
                  word: hello\n";
    let form = plugs(&Greeter::default()).form();
    let read = form.parse(Path::new("node.yaml"), text, &|_| None);
    let problems = read.unwrap_err().to_string();
    assert_eq!(
        problems.lines().collect::<Vec<_>>(),
        [
            "node.yaml:5:17: routes[0].through[0].only.host: unknown key; did you mean `hosts`?",
            "node.yaml:8:5: plugs.greeter.word: unknown key; did you mean `words`?",
        ]
    );
}

#[tokio::test]
async fn a_reload_changes_the_settings_of_a_plug_or_is_refused_whole() {
    const GET: &str = "GET http://WEB/ HTTP/1.1\r\nHost: WEB\r\n\r\n";
    let greeter = Greeter::default();
    let node = Node::start("greeter", &greeting("words", "hello"), plugs(&greeter));
    ask(&node, GET, "hello").await;

    node.apply("greeter", &greeting("words", "welcome"));
    ask(&node, GET, "welcome").await;

    let yaml =
        greeting("words", "\"good\\nbye\"").replace("handle: greeter", "respond: { status: 200 }");
    let refused = node.refused("greeter", &yaml);
    assert!(
        refused.contains("node.yaml:9:21: plugs.greeter.words: they are too many"),
        "{refused}"
    );
    let refused = node.refused("greeter", &greeting("word", "hello"));
    assert!(
        refused.contains("plugs.greeter.word: unknown field `word`"),
        "{refused}"
    );
    ask(&node, GET, "welcome").await;
    node.end().await;
}

#[tokio::test]
async fn a_plug_works_beside_the_exchanges_from_the_start_to_the_drain() {
    let greeter = Greeter::default();
    assert_eq!(greeter.counted(), None);
    let node = Node::start("greeter", &greeting("words", "hello"), plugs(&greeter));
    ask(
        &node,
        "GET http://WEB/ HTTP/1.1\r\nHost: WEB\r\n\r\n",
        "hello",
    )
    .await;
    while greeter.counted() != Some(1) {
        tokio::task::yield_now().await;
    }
    node.drained().await;
    assert_eq!(greeter.counted(), None);
}

/// A transform that changes nothing, and counts how many of its kind are alive.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountedSettings {
    number: u32,
}

/// The number that is refused.
const UNLUCKY: u32 = 13;

impl Transform for Counted {
    fn begin<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Beginning<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        let alive = self.0.clone();
        let make = move |settings: CountedSettings| match settings.number {
            UNLUCKY => Err(vec![Problem::new("number", "it is refused")]),
            _ => Ok(Arc::new(Self::new(&alive)) as Arc<dyn Transform>),
        };
        Some(Settings::new(make))
    }
}

#[tokio::test]
async fn a_transform_whose_settings_are_no_longer_in_force_is_gone() {
    let alive = Arc::<AtomicUsize>::default();
    let plugs = Plugs::new()
        .transform("counted", Counted::new(&alive))
        .connector("echo", Echo);
    let yaml = |number: u32| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ \
             {{ terminate: {{ by: echo }}, through: [ {{ counted: {{ number: {number} }} }} ] }} ]\n"
        )
    };
    let node = Node::start("counted", &yaml(0), plugs);
    for number in UNLUCKY + 1..UNLUCKY + 50 {
        let mut client = node.connect().await;
        say(
            &mut client,
            "CONNECT ECHO:7 HTTP/1.1\r\nHost: ECHO:7\r\n\r\n",
        )
        .await;
        hear(&mut client, "\r\n\r\n").await;

        node.apply("counted", &yaml(number));
        let refused = node.refused("counted", &yaml(UNLUCKY));
        assert!(refused.contains("it is refused"), "{refused}");
        say(&mut client, "hello").await;
        hear(&mut client, "hello").await;
        // That of the program, that in force, and that of tunnels which are just ending.
        assert!(alive.load(Ordering::SeqCst) <= 4);
    }
    node.end().await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}
