//! Clients that mean harm, at a node with plugs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hermes_example_plugs::detour::Detour;
use hermes_example_plugs::echo::Echo;
use hermes_example_plugs::stamps::Stamps;
use hermes_http::ResponseHead;
use hermes_plug::feed::{FEED_BYTES, Feed};
use hermes_plug::refusal::Refusal;
use hermes_plug::topic::{Behind, Topic, TopicBounds};
use hermes_plug::{
    Alter, Altering, Beginning, BeginningDatagrams, Changes, Deciding, Decision, Filter, Handler,
    HandlerRequest, Handling, Malformed, Plugs, Response, Subject, Transform, TunnelSubject,
    Verdict,
};
use http::uri::Authority;
use http::{HeaderValue, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::node::{Node, hear, say};

/// How long what must happen is waited for.
const SOON: Duration = Duration::from_secs(20);

/// Answers with one topic.
struct Channel(Arc<Topic>);

impl Handler for Channel {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        let feed: Box<dyn Feed> = Box::new(self.0.subscribe());
        let answer = Response::Feed(ResponseHead::new(StatusCode::OK), feed);
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// A node whose answers are this topic.
fn channel(name: &str, topic: &Arc<Topic>) -> Node {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { handle: channel } ]\n";
    let plugs = Plugs::new().handler("channel", Channel(topic.clone()));
    Node::start(name, yaml, plugs)
}

/// A client that has the head of the answer.
async fn subscriber(node: &Node) -> TcpStream {
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET http://NEWS/ HTTP/1.1\r\nHost: NEWS\r\n\r\n",
    )
    .await;
    hear(&mut client, "\r\n\r\n").await;
    client
}

/// The bytes of a message, counted while someone has them.
struct Counted {
    bytes: Vec<u8>,
    all: Arc<AtomicUsize>,
}

impl Counted {
    fn message(length: usize, all: &Arc<AtomicUsize>) -> Bytes {
        all.fetch_add(length, Ordering::Relaxed);
        Bytes::from_owner(Self {
            bytes: vec![b'x'; length],
            all: all.clone(),
        })
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[tokio::test]
async fn subscribers_that_stand_still_keep_little_of_what_their_topic_has_dropped() {
    const MESSAGE: usize = 16 * 1024;
    const SUBSCRIBERS: usize = 8;
    let bounds = TopicBounds {
        messages: 64,
        bytes: 1024 * 1024,
        behind: Behind::Skips,
    };
    let topic = Arc::new(Topic::new(bounds));
    let node = channel("still", &topic);
    let held = Arc::new(AtomicUsize::new(0));

    let mut reader = subscriber(&node).await;
    let mut chunk = vec![0; "4000\r\n\r\n".len() + MESSAGE];
    let mut still = Vec::new();
    for _ in 0..SUBSCRIBERS {
        still.push(subscriber(&node).await);
        // More than the buffers of the kernel hold, so that each keeps what no other one keeps.
        for _ in 0..600 {
            topic.publish(&Counted::message(MESSAGE, &held));
            reader.read_exact(&mut chunk).await.unwrap();
        }
    }
    let kept = held.load(Ordering::Relaxed);
    let most = bounds.bytes + (SUBSCRIBERS + 1) * (FEED_BYTES + MESSAGE);
    assert!(kept <= most, "{kept} bytes are kept, of {most}");
    drop(still);
    node.end().await;
}

/// Waits until a topic has no subscriber.
async fn deserted(topic: &Topic, why: &str) {
    timeout(SOON, topic.deserted()).await.expect(why);
}

#[tokio::test]
async fn a_subscriber_that_closes_its_connection_is_gone_though_nothing_is_published() {
    let topic = Arc::new(Topic::new(TopicBounds {
        messages: 4,
        bytes: 1024,
        behind: Behind::Skips,
    }));
    let node = channel("gone", &topic);
    let reset = subscriber(&node).await;
    reset.set_zero_linger().unwrap();
    assert_eq!(topic.stats().subscribers, 1);
    drop(reset);
    deserted(&topic, "the connection was reset").await;

    let closed = subscriber(&node).await;
    drop(closed);
    deserted(&topic, "the connection was closed").await;
    node.end().await;
}

#[tokio::test]
async fn all_who_wait_for_the_last_subscriber_hear_that_it_is_gone() {
    let topic = Arc::new(Topic::new(TopicBounds {
        messages: 4,
        bytes: 1024,
        behind: Behind::Skips,
    }));
    let subscription = topic.subscribe();
    let waiting = [(); 2].map(|()| {
        let topic = topic.clone();
        tokio::spawn(async move { topic.deserted().await })
    });
    tokio::task::yield_now().await;
    drop(subscription);
    for task in waiting {
        timeout(SOON, task).await.expect("it hears of it").unwrap();
    }
}

/// Begins with no tunnel, ever.
struct Undecided {
    asked: Arc<Semaphore>,
    dropped: Arc<Semaphore>,
}

/// Says when it is dropped.
struct Dropped(Arc<Semaphore>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl Transform for Undecided {
    fn begin<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let dropped = Dropped(self.dropped.clone());
        self.asked.add_permits(1);
        Box::pin(async move {
            let _dropped = dropped;
            std::future::pending::<Result<Option<Altering>, Refusal>>().await
        })
    }
}

/// A node whose transform begins with no tunnel; how often it was asked, and how often that was given up.
fn undecided(name: &str, yaml: &str) -> (Node, Arc<Semaphore>, Arc<Semaphore>) {
    let asked = Arc::new(Semaphore::new(0));
    let dropped = Arc::new(Semaphore::new(0));
    let transform = Undecided {
        asked: asked.clone(),
        dropped: dropped.clone(),
    };
    let node = Node::start(name, yaml, Plugs::new().transform("undecided", transform));
    (node, asked, dropped)
}

async fn one(permits: &Semaphore, why: &str) {
    timeout(SOON, permits.acquire())
        .await
        .expect(why)
        .unwrap()
        .forget();
}

#[tokio::test]
async fn a_transform_that_does_not_decide_waits_no_longer_than_its_client() {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\n\
                routes: [ { through: [undecided], terminate: true, timeouts: { connect: 1h } } ]\n";
    let (node, asked, dropped) = undecided("undecided", yaml);
    for request in [
        "CONNECT SITE:80 HTTP/1.1\r\nHost: SITE:80\r\n\r\n",
        "GET http://SITE/ HTTP/1.1\r\nHost: SITE\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /.well-known/masque/udp/SITE/7/ HTTP/1.1\r\nHost: SITE\r\nConnection: Upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n",
    ] {
        let mut client = node.connect().await;
        say(&mut client, request).await;
        one(&asked, request).await;
        client.set_zero_linger().unwrap();
        drop(client);
        one(&dropped, request).await;
    }
    node.end().await;
}

#[tokio::test]
async fn a_transform_that_does_not_decide_keeps_no_session_of_datagrams_for_ever() {
    let yaml = "listeners: { dns: { udp: 127.0.0.1:0, target: 127.0.0.1:9 } }\n\
                routes: [ { through: [undecided], terminate: true, timeouts: { connect: 50ms } } ]\n";
    let (node, asked, dropped) = undecided("undecided-udp", yaml);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(node.address()).await.unwrap();
    client.send(b"hello").await.unwrap();
    one(&asked, "it is asked").await;
    one(&dropped, "its time is over").await;
    node.end().await;
}

/// Never comes to the end.
struct Endless;

impl Transform for Endless {
    fn begin<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let altering = Altering {
            to_target: Box::new(Self),
            to_client: Box::new(Self),
        };
        Box::pin(std::future::ready(Ok(Some(altering))))
    }
}

impl Alter for Endless {
    fn alter(&mut self, input: &mut Bytes, output: &mut bytes::BytesMut) -> Result<(), Malformed> {
        output.extend_from_slice(&input.split_off(0));
        Ok(())
    }

    fn end(&mut self, _: &mut bytes::BytesMut) -> Result<bool, Malformed> {
        Ok(false)
    }
}

#[tokio::test]
async fn a_transform_that_never_comes_to_its_end_breaks_its_tunnel_and_stops_no_worker() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = origin.local_addr().unwrap().port();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         routes: [ {{ through: [endless], terminate: \"127.0.0.1:{port}\" }} ]\n"
    );
    let node = Node::start("endless", &yaml, Plugs::new().transform("endless", Endless));
    let mut client = node.connect().await;
    say(
        &mut client,
        "CONNECT SITE:80 HTTP/1.1\r\nHost: SITE:80\r\n\r\n",
    )
    .await;
    hear(&mut client, "\r\n\r\n").await;
    let (mut link, _) = origin.accept().await.unwrap();
    drop(client);
    let ended = timeout(SOON, link.read(&mut [0])).await;
    assert!(!matches!(ended.expect("it breaks"), Ok(1..)));
    node.end().await;
}

/// Allows each exchange for a second, the first time that it is asked.
#[derive(Default)]
struct Once(Arc<AtomicUsize>);

impl Filter for Once {
    fn decide<'a>(&'a self, _: &'a Subject<'a>) -> Deciding<'a> {
        let verdict = match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Verdict::allow("the first time").lasting(Duration::from_secs(1)),
            _ => Verdict::deny(StatusCode::FORBIDDEN, "its time is over"),
        };
        Box::pin(std::future::ready(verdict))
    }
}

#[tokio::test]
async fn a_tunnel_that_a_handler_opened_ends_when_its_filter_allows_it_no_more() {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\n\
                authorize: [ { name: once, filter: once, match: { target: ECHO } } ]\nroutes:\n  \
                - { match: { target: ECHO }, terminate: { by: echo } }\n  \
                - { match: { target: ELSEWHERE }, handle: detour }\n";
    let asked = Arc::<AtomicUsize>::default();
    let detour = Detour {
        to: Authority::from_static("ECHO:7"),
        otherwise: Authority::from_static("ECHO:7"),
    };
    let plugs = Plugs::new()
        .connector("echo", Echo)
        .filter("once", Once(asked.clone()))
        .handler("detour", detour);
    let node = Node::start("once", yaml, plugs);

    let mut client = node.connect().await;
    let request = "CONNECT ELSEWHERE:7 HTTP/1.1\r\nHost: ELSEWHERE:7\r\n\r\n";
    say(&mut client, request).await;
    hear(&mut client, "\r\n\r\n").await;
    say(&mut client, "hello").await;
    hear(&mut client, "hello").await;

    let ended = timeout(SOON, client.read(&mut [0])).await;
    assert!(!matches!(ended.unwrap(), Ok(1..)), "something else came");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    node.end().await;
}

/// Says whose an exchange is, and allows it.
struct Names(&'static str);

impl Filter for Names {
    fn decide<'a>(&'a self, _: &'a Subject<'a>) -> Deciding<'a> {
        let mut changes = Changes::default();
        changes.set.insert("user", HeaderValue::from_static(self.0));
        let verdict = Verdict {
            decision: Decision::Allow(changes),
            ..Verdict::allow("known")
        };
        Box::pin(std::future::ready(verdict))
    }
}

#[tokio::test]
async fn a_user_whom_a_filter_names_otherwise_is_the_same_to_the_routes() {
    let yaml = "users: { mallory: [mal@corp.example] }\nlisteners: { web: { http: 127.0.0.1:0 } }\n\
                authorize: [ { name: names, filter: names } ]\nroutes:\n  \
                - { match: { user: mallory }, respond: { status: 403 } }\n  \
                - { respond: { status: 200 } }\n";
    for (named, status) in [
        ("mallory", 403),
        ("mal@corp.example", 403),
        ("alice", 200),
        ("", 503),
    ] {
        let plugs = Plugs::new().filter("names", Names(named));
        let node = Node::start("names", yaml, plugs);
        let mut client = node.connect().await;
        say(&mut client, "GET http://X/ HTTP/1.1\r\nHost: X\r\n\r\n").await;
        let answer = hear(&mut client, "\r\n\r\n").await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{named}: {answer}"
        );
        node.end().await;
    }
}

/// Changes what passes, and takes more memory than anyone has.
struct Insatiable;

impl Transform for Insatiable {
    fn begin<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let altering = Altering {
            to_target: Box::new(Endless),
            to_client: Box::new(Endless),
        };
        Box::pin(std::future::ready(Ok(Some(altering))))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        Stamps.begin_datagrams(tunnel)
    }

    fn memory(&self) -> usize {
        1 << 40
    }
}

#[tokio::test]
async fn who_has_no_memory_left_for_a_transform_does_not_get_around_it() {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\n\
                routes: [ { terminate: \"127.0.0.1:9\", through: [insatiable] } ]\n";
    let plugs = Plugs::new().transform("insatiable", Insatiable);
    let node = Node::start("insatiable", yaml, plugs);
    let udp = "GET /.well-known/masque/udp/DB/7/ HTTP/1.1\r\nHost: DB\r\nConnection: Upgrade\r\n\
               Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n";
    for request in ["CONNECT DB:7 HTTP/1.1\r\nHost: DB:7\r\n\r\n", udp] {
        let mut client = node.connect().await;
        say(&mut client, request).await;
        let head = hear(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 503 "), "{request}: {head}");
        assert!(head.contains("no memory left for the transform"), "{head}");
    }
    node.end().await;
}
