//! Relays and rendezvous as parts of an overlay's nodes.

use std::fs;

use hermes_harness::curl::curl;
use hermes_harness::etcd::Etcd;
use hermes_harness::eventually::{eventually, eventually_true};
use hermes_harness::free;
use hermes_harness::overlay::{Hub, Joined};

use crate::overlay::asks;
use crate::relay::subscriber::Subscriber;

#[test]
fn one_command_gives_users_of_the_overlay_a_relay() {
    let hub = Hub::start();
    let alice = hub.device("alice", "laptop");
    let bob = hub.device("bob", "desk");
    let carol = hub.device("carol", "tower");
    let exposed = hub.ask(&["expose", "CHAT", "relay", "--to", "alice,bob"]);
    assert!(exposed.is_some_and(|exposed| exposed["outcome"]["stopped"].is_null()));

    let subscriber = Subscriber::begin("http://CHAT/c/x", &["-x", &web(&alice)]);
    eventually_true("the relay answers", || subscriber.head().contains(" 200 "));
    let said = curl(&["-x", &web(&bob), "-d", "hi", "http://CHAT/c/x"]);
    assert_eq!(said.text(), "receivers: 1\n");
    subscriber.sees("hi");
    assert_eq!(asks(&carol, "http://CHAT/c/x").0, 403);
}

fn web(device: &Joined) -> String {
    format!("http://{}", device.web)
}

/// Two nodes with a rendezvous each, at these ports for those without an overlay, and two relays.
fn relays(meet: [u16; 2]) -> String {
    let [a, b] = meet;
    let node = |name: &str, rest: &str| {
        let listen = free::tcp();
        format!(
            "---
apiVersion: hermes/v1
kind: Node
metadata: {{ name: {name} }}
spec:
  listen: {listen}
  reach: [{listen}]
  {rest}
"
        )
    };
    let rendezvous = |name: &str, port: u16| {
        let rest = format!(
            "ingress: true
  plugs: {{ relay: {{ key_file: '${{secret:relay}}' }} }}
  listeners: {{ meet: {{ http: '127.0.0.1:{port}', gateway: true }} }}"
        );
        node(name, &rest)
    };
    let relay = |name: &str| {
        let rest = format!(
            "plugs:
    relay:
      key_file: '${{secret:relay}}'
      at: http://{name}.chat
      rendezvous: [http://127.0.0.1:{a}, http://127.0.0.1:{b}]
      beat: 200ms
      grants: true"
        );
        let made = format!(
            "---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: {name} }}
spec: {{ handle: relay, at: [{{ node: {name} }}] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: {name} }}
spec: {{ name: {name}.chat, service: {name} }}
"
        );
        node(name, &rest) + &made
    };
    let shared = format!(
        "---
apiVersion: hermes/v1
kind: Secret
metadata: {{ name: relay }}
spec: {{ for: [meet-a, meet-b, north, south], value: a key of sixteen bytes or more }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: meet }}
spec: {{ handle: {{ rendezvous: {{ lost_after: 1s }} }}, at: [{{ node: meet-a }}, {{ node: meet-b }}] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: chat }}
spec: {{ name: [CHAT, '127.0.0.1:{a}', '127.0.0.1:{b}'], service: meet }}
---
apiVersion: hermes/v1
kind: Policy
metadata: {{ name: chat }}
spec:
  rules:
    - {{ match: {{ target: [CHAT, north.chat, south.chat], user: '*' }}, allow: true }}
    - {{ match: {{ target: ['127.0.0.1:{a}', '127.0.0.1:{b}'] }}, allow: true }}
"
    );
    [
        rendezvous("meet-a", a),
        rendezvous("meet-b", b),
        relay("north"),
        relay("south"),
        shared,
    ]
    .concat()
}

/// The nodes of such an overlay.
struct Meetings {
    controller: Hub,
    members: Vec<Joined>,
    ports: [u16; 2],
}

impl Meetings {
    fn start() -> Self {
        Self::start_with(Hub::controller())
    }

    fn start_with(controller: Hub) -> Self {
        // The nodes come first: secrets are sealed to their keys.
        let names = ["meet-a", "meet-b", "north", "south"];
        let nodes = names.map(|name| {
            let listen = free::tcp();
            format!(
                "---\napiVersion: hermes/v1\nkind: Node\nmetadata: {{ name: {name} }}\nspec: {{ listen: {listen}, reach: [{listen}] }}\n"
            )
        });
        controller.apply(&nodes.concat(), &[]);
        let members = names.map(|name| controller.member(name)).into();
        let ports = [free::tcp().port(), free::tcp().port()];
        controller.apply(&relays(ports), &["--force"]);
        let meetings = Self {
            controller,
            members,
            ports,
        };
        for at in 0..2 {
            for relay in ["north", "south"] {
                // A channel keeps the relay that it has: each try is another one.
                let mut tries = 0;
                eventually_true("both relays are heard", || {
                    tries += 1;
                    let path = format!("/c/{relay}/{at}/{tries}");
                    meetings.sent(at, &path, relay).as_deref() == Some(relay)
                });
            }
        }
        meetings
    }

    /// The relay to which a rendezvous sends a client that would like this one; `None` without any.
    fn sent(&self, at: usize, path: &str, wish: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}{path}", self.ports[at]);
        let wish = format!("Hermes-Subscribe: relay=\"{wish}.chat:80\"");
        let answer = curl(&["-H", &wish, &url]);
        if answer.status == 503 {
            return None;
        }
        assert_eq!(answer.status, 307, "{answer:?}");
        let location = answer.field("location").unwrap();
        let name = location.strip_prefix("http://").unwrap();
        Some(name.split('.').next().unwrap().to_owned())
    }

    /// How often the controller's store has this text.
    fn stored(&self, text: &str) -> u64 {
        let file = format!("{}/store.redb", self.controller.state());
        let content = fs::read(file).unwrap();
        let found = content.windows(text.len());
        let found = found.filter(|window| *window == text.as_bytes()).count();
        u64::try_from(found).unwrap()
    }

    /// Channels on whose relays was agreed.
    fn agreed(&self) -> u64 {
        let status = self.controller.ask(&["status", "--overlay"]);
        let agreed = status.map(|status| status["agreed"].as_u64());
        agreed.flatten().unwrap_or_default()
    }
}

#[test]
fn all_rendezvous_of_an_overlay_name_one_relay_for_a_channel_and_the_store_keeps_it() {
    let mut meetings = Meetings::start();
    // The first who asks is heard, at whichever node.
    let north = Some("north".to_owned());
    let south = Some("south".to_owned());
    for channel in 0..8 {
        let path = format!("/c/{channel}");
        let (first, second) = (channel % 2, 1 - channel % 2);
        assert_eq!(meetings.sent(first, &path, "north"), north, "{path}");
        assert_eq!(meetings.sent(second, &path, "south"), north, "{path}");
    }
    assert_eq!(meetings.sent(0, "/c/a-secret-of-ours", "north"), north);
    let known = meetings.agreed();
    assert!(known >= 9, "{known}");

    // Through the overlay, by the names of the relays.
    let alice = meetings.controller.device("alice", "laptop");
    let subscriber = Subscriber::begin("http://CHAT/c/0", &["-L", "-x", &web(&alice)]);
    eventually_true("the relay answers", || subscriber.head().contains(" 200 "));
    let arguments = ["-L", "-x", &web(&alice), "-d", "hi", "http://CHAT/c/0"];
    assert_eq!(curl(&arguments).text(), "receivers: 1\n");
    subscriber.sees("hi");

    // Both the controller and a rendezvous are gone, and nothing is forgotten.
    eventually_true("it is in the store", || {
        meetings.stored(".chat:80") >= known
    });
    assert_eq!(meetings.stored("a-secret-of-ours"), 0);
    meetings.controller.kill();
    meetings.controller.run();
    for at in [0, 1] {
        meetings.members[at].kill();
        meetings.members[at].run();
    }
    for name in ["meet-a", "meet-b"] {
        meetings.controller.await_step(name);
    }
    assert!(meetings.agreed() >= known);
    for channel in 0..8 {
        let path = format!("/c/{channel}");
        for at in 0..2 {
            let sent = eventually("a relay is heard", || meetings.sent(at, &path, "south"));
            assert_eq!(sent, "north", "{path}");
        }
    }

    // The relay is gone, and both agree on the other one, also when it comes again.
    meetings.members[2].kill();
    eventually_true("the channels go to the other relay", || {
        (0..2).all(|at| meetings.sent(at, "/c/0", "north") == south)
    });
    meetings.members[2].run();
    meetings.controller.await_step("north");
    assert_eq!(meetings.sent(0, "/c/0", "north"), south);
    assert_eq!(meetings.sent(1, "/c/0", "north"), south);
}

#[test]
fn without_a_controller_a_rendezvous_decides_by_itself() {
    let mut meetings = Meetings::start();
    let north = Some("north".to_owned());
    assert_eq!(meetings.sent(0, "/c/before", "north"), north);
    meetings.controller.kill();
    assert_eq!(meetings.sent(0, "/c/before", "south"), north);
    assert_eq!(meetings.sent(0, "/c/after", "north"), north);
    let other = meetings.sent(1, "/c/after", "south");
    assert!(other.is_some());

    // Once it is back, all say the same again.
    meetings.controller.run();
    for name in ["meet-a", "meet-b"] {
        meetings.controller.await_step(name);
    }
    eventually_true("both say the same", || {
        let said = (0..2).map(|at| meetings.sent(at, "/c/after", "south"));
        let said: Vec<_> = said.collect();
        said[0].is_some() && said[0] == said[1]
    });
}

#[test]
fn the_next_of_several_controllers_knows_what_was_agreed() {
    let etcd = Etcd::start(1);
    let leader = Hub::one_of(&etcd, "office");
    let other = Hub::one_of(&etcd, "office");
    let mut meetings = Meetings::start_with(leader);
    let north = Some("north".to_owned());
    for channel in 0..4 {
        let path = format!("/c/{channel}");
        assert_eq!(meetings.sent(channel % 2, &path, "north"), north);
    }

    // The other one leads once this one is lost.
    let mut lost = std::mem::replace(&mut meetings.controller, other);
    lost.kill();
    for name in ["meet-a", "meet-b"] {
        meetings.controller.await_step(name);
    }
    for channel in 0..4 {
        let path = format!("/c/{channel}");
        assert_eq!(meetings.sent(channel % 2, &path, "south"), north, "{path}");
    }
    // A rendezvous that remembers nothing is told.
    meetings.members[0].kill();
    meetings.members[0].run_again();
    meetings.controller.await_step("meet-a");
    for channel in 0..4 {
        let path = format!("/c/{channel}");
        let sent = eventually("a relay is heard", || meetings.sent(0, &path, "south"));
        assert_eq!(sent, "north", "{path}");
    }
}
