//! Messages for many subscribers, as feeds of their answers.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use hermes_http::ResponseHead;
use hermes_plug::feed::{Feed, FeedEvent, FeedState};
use hermes_plug::topic::{Behind, Topic, TopicBounds};
use hermes_plug::{Handler, HandlerRequest, Handling, Plugs, Response};
use http::{Request, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::node::{Node, hear, say};

/// Clients over HTTP/1.1, and as many over HTTP/2.
const EACH: usize = 500;

/// Connections of HTTP/2 that those share.
const SHARED: usize = 5;

/// Messages.
const MESSAGES: usize = 10;

/// Answers with one topic.
struct Channel(Arc<Topic>);

impl Handler for Channel {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        let feed = Box::new(self.0.subscribe());
        let answer = Response::Feed(ResponseHead::new(StatusCode::OK), feed);
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// A node of two workers whose answers are this topic.
fn node(topic: &Arc<Topic>) -> Node {
    let yaml = "workers: 2\nlisteners: { web: { http: 127.0.0.1:0, limits: { streams: 1000 } } }\n\
                routes: [ { handle: channel } ]\n";
    let plugs = Plugs::new().handler("channel", Channel(topic.clone()));
    Node::start("feeds", yaml, plugs)
}

/// Subscribes over HTTP/1.1.
async fn subscribe(node: &Node) -> TcpStream {
    subscribe_until(node, "\r\n\r\n").await
}

/// Subscribes over HTTP/1.1, and reads until this text has come, which may come in one packet with the head.
async fn subscribe_until(node: &Node, wanted: &str) -> TcpStream {
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET http://NEWS/ HTTP/1.1\r\nHost: NEWS\r\n\r\n",
    )
    .await;
    let head = hear(&mut client, wanted).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    client
}

/// A connection of HTTP/2.
async fn connection(node: &Node) -> SendRequest<Bytes> {
    let (requests, connection) = h2::client::handshake(node.connect().await).await.unwrap();
    tokio::spawn(connection);
    requests
}

/// Subscribes over HTTP/2.
async fn subscribe_shared(requests: &SendRequest<Bytes>) -> h2::RecvStream {
    let request = Request::get("http://NEWS/").body(()).unwrap();
    let mut requests = requests.clone().ready().await.unwrap();
    let (answer, _) = requests.send_request(request, true).unwrap();
    answer.await.unwrap().into_body()
}

#[tokio::test]
async fn a_message_for_a_thousand_subscribers_wakes_each_worker_once() {
    let topic = Arc::new(Topic::new(TopicBounds {
        messages: 64,
        bytes: 64 * 1024,
        behind: Behind::Ends,
    }));
    let node = node(&topic);
    let mut plain = Vec::new();
    for _ in 0..EACH {
        plain.push(subscribe(&node).await);
    }
    let mut shared = Vec::new();
    for _ in 0..SHARED {
        let requests = connection(&node).await;
        for _ in 0..EACH / SHARED {
            shared.push(subscribe_shared(&requests).await);
        }
    }
    let before = topic.stats();
    assert_eq!(before.subscribers, 2 * EACH);
    assert_eq!((before.workers, before.wakeups), (2, 0));

    for number in 0..MESSAGES {
        let message = Bytes::from(format!("message {number}."));
        topic.publish(&message);
        for client in &mut plain {
            hear(client, &format!("message {number}.")).await;
        }
        for stream in &mut shared {
            let data = stream.data().await.unwrap().unwrap();
            assert_eq!(data, message);
        }
    }

    let after = topic.stats();
    let most = (MESSAGES * after.workers) as u64;
    assert!(after.wakeups <= most, "{after:?}");
    assert_eq!((after.bytes, after.lost), (0, 0), "{after:?}");

    topic.end();
    for client in &mut plain {
        hear(client, "0\r\n\r\n").await;
    }
    for stream in &mut shared {
        let last = stream.data().await;
        assert!(last.is_none_or(|last| last.unwrap().is_empty()));
    }
    node.end().await;
}

#[tokio::test]
async fn subscribers_that_do_not_read_cost_one_bounded_queue_and_end() {
    let bounds = TopicBounds {
        messages: 16,
        bytes: 256 * 1024,
        behind: Behind::Ends,
    };
    let topic = Arc::new(Topic::new(bounds));
    let node = node(&topic);
    let mut slow = Vec::new();
    for _ in 0..20 {
        slow.push(subscribe(&node).await);
    }
    let mut reader = subscribe(&node).await;
    let message = Bytes::from(vec![b'x'; 16 * 1024]);
    let mut chunk = vec![0; "4000\r\n\r\n".len() + message.len()];
    // More than the buffers of the kernel hold.
    for _ in 0..1200 {
        topic.publish(&message);
        reader.read_exact(&mut chunk).await.unwrap();
        let stats = topic.stats();
        assert!(stats.bytes <= stats.workers * bounds.bytes, "{stats:?}");
    }

    // Content that lacks something does not look whole.
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"));
    assert!(topic.stats().lost > 0);
    drop(slow);
    node.end().await;
}

/// Says hello, and then nothing until the node drains, which is its end.
struct Greeting {
    is_said: bool,
    is_over: bool,
    events: mpsc::UnboundedSender<FeedEvent>,
}

impl Feed for Greeting {
    fn poll_pieces(&mut self, _: &mut Context<'_>, pieces: &mut Vec<Bytes>) -> Poll<FeedState> {
        if !std::mem::replace(&mut self.is_said, true) {
            pieces.push(Bytes::from_static(b"hello"));
            return Poll::Ready(FeedState::Open);
        }
        match self.is_over {
            true => Poll::Ready(FeedState::Complete),
            false => Poll::Pending,
        }
    }

    fn notify(&mut self, event: FeedEvent) {
        self.is_over = event == FeedEvent::Draining;
        self.events.send(event).unwrap();
    }
}

/// Greets everyone.
struct Greeter(mpsc::UnboundedSender<FeedEvent>);

impl Handler for Greeter {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        let feed = Box::new(Greeting {
            is_said: false,
            is_over: false,
            events: self.0.clone(),
        });
        let answer = Response::Feed(ResponseHead::new(StatusCode::OK), feed);
        Box::pin(std::future::ready(Ok(answer)))
    }
}

const GREETER: &str =
    "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { handle: greeter } ]\n";

/// A node that greets, and what its feeds hear.
fn greeting() -> (Node, mpsc::UnboundedReceiver<FeedEvent>) {
    let (events, heard) = mpsc::unbounded_channel();
    let plugs = Plugs::new().handler("greeter", Greeter(events));
    (Node::start("greeting", GREETER, plugs), heard)
}

#[tokio::test]
async fn a_feed_hears_that_its_client_is_gone() {
    let (node, mut heard) = greeting();
    let requests = connection(&node).await;
    let mut stream = subscribe_shared(&requests).await;
    assert_eq!(stream.data().await.unwrap().unwrap(), "hello");
    drop(stream);
    let event = heard.recv().await.unwrap();
    assert!(matches!(event, FeedEvent::ClientGone(_)), "{event:?}");
    node.end().await;
}

#[tokio::test]
async fn a_feed_hears_that_rules_end_it_and_its_client_sees_no_end() {
    let (node, mut heard) = greeting();
    let mut client = subscribe_until(&node, "hello").await;

    // The same rules again end nothing.
    node.apply("greeting", GREETER);
    let report = node.apply(
        "greeting",
        &format!("{GREETER}policy: {{ default: deny }}\n"),
    );
    assert_eq!(report.tunnels.ended, 1, "{report:?}");
    let event = heard.recv().await.unwrap();
    assert!(matches!(event, FeedEvent::Denied(_)), "{event:?}");
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"));
    node.end().await;
}

#[tokio::test]
async fn a_feed_hears_that_the_node_drains_and_may_end_well() {
    let (node, mut heard) = greeting();
    let mut client = subscribe_until(&node, "hello").await;
    let drained = async {
        node.drained().await;
        heard.recv().await.unwrap()
    };
    let (event, rest) = tokio::join!(drained, hear(&mut client, "0\r\n\r\n"));
    assert_eq!(event, FeedEvent::Draining);
    assert!(rest.ends_with("0\r\n\r\n"), "{rest:?}");
}

/// Stands between, and greets instead of the next hop.
struct BetweenGreeter(Greeter);

impl Handler for BetweenGreeter {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        self.0.handle(request)
    }

    fn stands_between(&self) -> bool {
        true
    }
}

/// Stands between, and passes everything on.
struct Passes;

impl Handler for Passes {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(async move {
            let content = request.content.into_incoming();
            let onward = request.onward.unwrap();
            let (head, content) = onward.send(request.head, content).await?;
            Ok(Response::Stream(head, content))
        })
    }

    fn stands_between(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_feed_of_a_handler_that_stands_between_passes_and_ends_with_the_rules() {
    for through in ["greeter", "passes, greeter"] {
        let yaml = format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             routes: [ {{ through: [{through}], terminate: true }} ]\n"
        );
        let (events, mut heard) = mpsc::unbounded_channel();
        let plugs = Plugs::new()
            .handler("greeter", BetweenGreeter(Greeter(events)))
            .handler("passes", Passes);
        let node = Node::start("between", &yaml, plugs);
        let requests = connection(&node).await;
        let mut gone = subscribe_shared(&requests).await;
        assert_eq!(gone.data().await.unwrap().unwrap(), "hello");
        drop(gone);
        let event = heard.recv().await.unwrap();
        assert!(
            matches!(event, FeedEvent::ClientGone(_)),
            "{through}: {event:?}"
        );

        let mut client = subscribe_until(&node, "hello").await;
        // The same rules again end nothing.
        node.apply("between", &yaml);
        let report = node.apply("between", &format!("{yaml}policy: {{ default: deny }}\n"));
        assert_eq!(report.tunnels.ended, 1, "{through}: {report:?}");
        let event = heard.recv().await.unwrap();
        assert!(
            matches!(event, FeedEvent::Denied(_)),
            "{through}: {event:?}"
        );
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{through}");
        node.end().await;
    }
}

/// Writes the certificate of a node at 127.0.0.1, and its key; says what `tls` of a listener is with them, and of an upstream.
fn tls(folder: &Path) -> (String, String) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let own = folder.join("cert.pem");
    let key = folder.join("key.pem");
    fs::write(&own, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let own = own.display();
    (
        format!("{{ cert_file: {own}, key_file: {} }}", key.display()),
        format!("{{ ca_file: {own} }}"),
    )
}

#[tokio::test]
async fn a_feed_crosses_a_link_of_http_3_and_ends_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let (own, believed) = tls(folder.path());
    let topic = Arc::new(Topic::new(TopicBounds {
        messages: 64,
        bytes: 64 * 1024,
        behind: Behind::Skips,
    }));
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {own} }} }}\nroutes: [ {{ handle: channel }} ]\n"
    );
    let plugs = Plugs::new().handler("channel", Channel(topic.clone()));
    let far = Node::start("far", &yaml, plugs);
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: far }} ]\n\
         upstreams: {{ far: {{ endpoints: [\"{}\"], http: 3, tls: {believed} }} }}\n",
        far.address()
    );
    let near = Node::start("near", &yaml, Plugs::new());

    let requests = connection(&near).await;
    let mut stream = subscribe_shared(&requests).await;
    let idle = connection(&near).await;
    let mut still = subscribe_shared(&idle).await;
    // Each message has come before the next is published, whatever the other subscriber does.
    for number in 0..1000 {
        let message = Bytes::from(format!("{number:01024}"));
        topic.publish(&message);
        let mut come = Vec::new();
        while come.len() < message.len() {
            let data = stream.data().await.unwrap().unwrap();
            stream.flow_control().release_capacity(data.len()).unwrap();
            come.extend(data);
        }
        assert_eq!(come, message);
        assert!(topic.stats().bytes <= 64 * 1024);
    }
    assert!(still.data().await.unwrap().unwrap().starts_with(b"0"));

    drop((stream, still));
    topic.deserted().await;
    near.end().await;
    far.end().await;
}
