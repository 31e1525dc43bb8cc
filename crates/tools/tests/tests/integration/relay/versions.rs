//! The same over each version of HTTP: a node beside the client speaks that version to the relay.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_tests::curl::Output;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl};

use super::subscriber::Subscriber;
use super::subscriptions;
use crate::http3::overlay::{VERSIONS, upstream};
use crate::tokens::Issuer;

/// The channel, by a name that the routes of each way know.
const URL: &str = "http://relay.test/c/x";

/// A relay that speaks all versions.
pub(super) struct Hub {
    pub(super) node: Node,
    pki: Pki,
}

impl Hub {
    /// With this in the settings of the relay.
    pub(super) fn start(settings: &str) -> Self {
        Self::guarded(settings, "", tempfile::tempdir().unwrap())
    }

    /// The same, whose listener asks for this proof.
    fn guarded(settings: &str, auth: &str, folder: tempfile::TempDir) -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["127.0.0.1"]).yaml();
        let yaml = format!(
            r"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {tls} }} {auth} }} }}
            routes: [ {{ handle: {{ relay: {{ {settings} }} }} }} ]
            "
        );
        Self {
            node: Node::start_in(folder, "relay", &yaml, &[]),
            pki,
        }
    }

    /// A node that speaks this version to the relay: `web` is a proxy, `gate` a gateway for clients that know none, and `join` a proxy that
    /// subscribes once for all.
    pub(super) fn way(&self, version: u8) -> Node {
        self.way_at(version, "127.0.0.1:0")
    }

    /// The same, whose gateway is at this address.
    pub(super) fn way_at(&self, version: u8, gate: &str) -> Node {
        let upstream = upstream(&self.pki, self.node.address("web"), &version.to_string());
        let yaml = format!(
            r#"
            workers: 1
            listeners:
              web: {{ http: 127.0.0.1:0 }}
              gate: {{ http: "{gate}", gateway: true }}
              join: {{ http: 127.0.0.1:0 }}
            functions: {{ join: {{ aggregate: {{ grace: 1s }} }} }}
            routes:
              - {{ match: {{ listener: join }}, through: [join], to: hub }}
              - {{ match: {{ listener: gate }}, rewrite: {{ target: "relay.test:80" }}, to: hub }}
              - {{ to: hub }}
            upstreams: {{ hub: {upstream} }}
            "#
        );
        Node::start("way", &yaml)
    }
}

/// A subscriber by this listener of a way.
fn subscribe(way: &Node, listener: &str, url: &str, arguments: &[&str]) -> Subscriber {
    let proxy = way.url(listener);
    Subscriber::begin(url, &[&["-x", &proxy], arguments].concat())
}

/// A request by this listener of a way.
fn ask(way: &Node, listener: &str, url: &str, arguments: &[&str]) -> Output {
    let proxy = way.url(listener);
    curl(&[&["-x", &proxy], arguments, &[url]].concat())
}

#[test]
fn a_subscription_is_a_resource_over_each_version() {
    let hub = Hub::start("max_timeout: 1h");
    let too_long = ["-H", "Hermes-Subscribe: timeout=7200"];
    let begun = VERSIONS.map(|version| {
        let way = hub.way(version);
        let url = format!("{URL}/{version}");
        let refused = ask(&way, "web", &url, &too_long);
        assert_eq!(refused.status, 422, "{refused:?}");
        let most = refused.field("hermes-subscribe");
        assert_eq!(most.as_deref(), Some("max-timeout=3600"));

        let short = subscribe(&way, "web", &url, &["-H", "Hermes-Subscribe: timeout=2"]);
        let uri = format!("http://relay.test{}", short.location());
        let refused = ask(
            &way,
            "web",
            &uri,
            &[&["-X", "POST"], &too_long[..]].concat(),
        );
        assert_eq!(refused.status, 422, "{refused:?}");

        let mut left = subscribe(&way, "web", &url, &[]);
        let uri = format!("http://relay.test{}", left.location());
        assert_eq!(ask(&way, "web", &uri, &["-X", "DELETE"]).status, 204);
        assert!(left.ends().ends_with("[hermes: end: left]\n"));
        assert_eq!(ask(&way, "web", &uri, &["-X", "DELETE"]).status, 404);
        (way, short)
    });
    for (_way, mut short) in begun {
        // Refused, the longer time has changed nothing.
        assert!(short.ends().ends_with("[hermes: end: timeout]\n"));
    }
    eventually_true("nothing is left", || subscriptions(&hub.node) == 0);
}

/// Bytes of the messages for readers of whom one stands still: few of them fill the buffers of its connection.
const MESSAGE: usize = 60_000;

/// The largest number of them that these take.
const MOST: usize = 400;

#[test]
fn twelve_readers_of_whom_one_stands_still_are_counted_in_both_modes() {
    let hub = Hub::start("queue: 128KiB, message: 128KiB, lag: 10m");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("message");
    std::fs::write(&file, vec![b'x'; MESSAGE]).unwrap();
    let data = format!("@{}", file.display());
    for version in VERSIONS {
        let way = hub.way(version);
        let url = format!("{URL}/{version}");
        let form = ["-H", "Accept: application/hermes-adu"];
        let readers: Vec<_> = (0..11)
            .map(|_| subscribe(&way, "web", &url, &form))
            .collect();
        let mut still = Raw::connect_narrow(way.address("web"));
        still.send(format!(
            "GET {url} HTTP/1.1\r\nHost: relay.test\r\nAccept: application/hermes-adu\r\n\r\n"
        ));
        assert_eq!(still.head().status(), 200);

        let publish = |mode: &str, wait: &str| {
            let mode = format!("Hermes-Publish: mode={mode}");
            let wait = format!("Prefer: wait={wait}");
            let arguments = ["-H", &mode, "-H", &wait, "--data-binary", &data];
            let answer = ask(&way, "web", &url, &arguments);
            (answer.status, answer.field("hermes-delivered").unwrap())
        };
        let mut sent = 0;
        let lost = loop {
            let (status, counts) = publish("realtime", "1");
            assert_eq!(status, 200, "{counts}");
            sent += 1;
            // The others have taken it, so that they have room for the next.
            let all = |reader: &Subscriber| reader.length() >= (sent * MESSAGE) as u64;
            eventually_true("eleven readers take all", || readers.iter().all(all));
            if counts.contains("dropped=1") {
                break counts;
            }
            assert!(sent < MOST, "buffers take everything");
        };
        let counts = "receivers=12, enqueued=11, dropped=1, exact, at=";
        assert!(
            lost.replace("exact=?1", "exact").starts_with(counts),
            "{lost}"
        );
        let (status, counts) = publish("reliable", "1");
        assert_eq!(status, 503);
        assert!(counts.starts_with("receivers=12, enqueued=0"), "{counts}");

        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| publish("reliable", "50"));
            // Its own stream waits, and no other one of the same connection.
            let other = format!("{url}/other");
            let bystander = subscribe(&way, "web", &other, &[]);
            for number in 0..10 {
                let text = format!("message {number}.");
                let sent = ask(&way, "web", &other, &["-d", &text]);
                assert_eq!(sent.text(), "receivers: 1\n", "{sent:?}");
                bystander.sees(&text);
            }
            assert!(!waiting.is_finished());
            read_to_a_gap(&mut still);
            let (status, counts) = waiting.join().unwrap();
            assert_eq!(status, 200);
            assert!(counts.starts_with("receivers=12, enqueued=12"), "{counts}");
        });
    }
}

/// Reads on until a capsule tells of lost messages.
fn read_to_a_gap(reader: &mut Raw) {
    /// The type of such a capsule.
    const GAP: [u8; 4] = [0xad, 0x7c, 0x51, 0xc1];

    let looked_at = Cell::new(0_usize);
    let has_come = Cell::new(false);
    reader.until(|read| {
        // Only new bytes are searched: there are megabytes.
        let from = looked_at.replace(read.len()).saturating_sub(GAP.len());
        let mut windows = read[from..].windows(GAP.len());
        has_come.set(windows.any(|window| window == GAP));
        has_come.get()
    });
    assert!(has_come.get(), "no gap is told");
}

#[test]
fn twenty_subscribers_of_a_node_are_one_at_the_relay_over_each_version() {
    let hub = Hub::start("grace: 1s");
    for version in VERSIONS {
        let way = hub.way(version);
        let subscribers: Vec<_> = (0..20).map(|_| subscribe(&way, "join", URL, &[])).collect();
        assert_eq!(subscriptions(&hub.node), 1);
        let counts = eventually("twenty receivers", || {
            let answer = ask(&way, "web", URL, &["-d", "counted."]);
            let counts = answer.field("hermes-delivered").unwrap();
            counts.starts_with("receivers=20,").then_some(counts)
        });
        assert!(counts.contains("exact=?0"), "{counts}");
        for subscriber in &subscribers {
            subscriber.sees("counted.");
        }
        drop(subscribers);
        eventually_true("the last leaves", || subscriptions(&hub.node) == 0);
    }
}

#[test]
fn a_stream_that_breaks_off_goes_on_over_each_version_where_it_was() {
    let hub = Hub::start("");
    let mut going_on = Vec::new();
    for version in VERSIONS {
        let way = hub.way(version);
        let form = ["-H", "Accept: application/x-ndjson"];
        let url = format!("{URL}/{version}");
        let first = subscribe(&way, "web", &url, &form);
        ask(&way, "web", &url, &["-d", "one"]);
        first.sees("one");
        let uri = format!("http://relay.test{}", first.location());
        drop(first);
        // Nothing is said meanwhile: the node in between sees that its reader is gone, and the relay by that.
        eventually_true("the relay knows that it broke off", || {
            let records = hub.node.access();
            let ended = records.iter().filter(|record| record["method"] == "GET");
            ended.count() == usize::from(version)
        });
        ask(&way, "web", &url, &["-d", "two"]);
        let again = subscribe(&way, "web", &uri, &form);
        let text = again.sees("two");
        assert!(!text.contains("gap"), "{text}");
        assert_eq!(subscriptions(&hub.node), u64::from(version));
        going_on.push((way, again));
    }
}

#[test]
fn a_subscription_ends_with_the_credential_that_it_was_made_with() -> io::Result<()> {
    let issuer = Issuer::eddsa();
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("keys.json"), issuer.key_set())?;
    let auth = ", auth: { bearer: { jwks_file: keys.json, issuer: \"https://issuer.test\", audience: hermes } }";
    let hub = Hub::guarded("", auth, folder);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    let begun = VERSIONS.map(|version| {
        let way = hub.way(version);
        let mut claims = issuer.claims("alice");
        // Tokens count half a minute longer, for clocks that differ.
        claims["exp"] = (now - 24).into();
        let token = format!("Authorization: Bearer {}", issuer.token(&claims));
        let subscriber = subscribe(&way, "web", URL, &["-H", &token]);
        (way, subscriber, token)
    });
    assert_eq!(subscriptions(&hub.node), 3);
    for (way, mut subscriber, token) in begun {
        subscriber.ends();
        // The token is refused from here on, for the subscription too.
        let uri = format!("http://relay.test{}", subscriber.location());
        assert_eq!(ask(&way, "web", &uri, &["-H", &token]).status, 401);
    }
    eventually_true("nothing is left", || subscriptions(&hub.node) == 0);
    Ok(())
}

/// The gateway of a way, where a client that knows no proxy finds the channel.
pub(super) fn gate(way: &Node) -> String {
    let address: SocketAddr = way.address("gate");
    super::channel(address)
}
