//! A member that proposes what is not its business, in a wrong form, or without end: nothing of it is kept beyond its share, and others are changed.

use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use hermes_api::{
    AgentMessage, ControllerMessage, Hello, Proposed, agent_message, controller_message,
};
use hermes_tests::overlay::{Hub, Joined};
use hermes_tests::runtime::{self, block_on};
use http::{Method, Request};
use prost::Message as _;

use crate::controller_calls::{connected_over_tls, identity, service, yard_and_evil};

/// Keys that one node may have.
const OF_NODE: u64 = 50_000;

/// Proposals of the flood.
const FLOOD: u64 = 60_000;

/// Bytes that they may cost the controller.
const COST: usize = 96 << 20;

/// The longest time of the change of another node.
const CHANGE: Duration = Duration::from_secs(5);

/// What an agent says on its stream, after its hello.
struct Saying(SendStream<Bytes>);

/// What it is told.
struct Hearing {
    receive: RecvStream,
    read: BytesMut,
}

/// A message as gRPC frames it.
fn framed(content: agent_message::Content) -> Bytes {
    let message = AgentMessage {
        content: Some(content),
    };
    let encoded = message.encode_to_vec();
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(encoded.len()).unwrap());
    framed.extend_from_slice(&encoded);
    framed.freeze()
}

fn proposed(number: u64, key: &str, value: &str) -> Bytes {
    framed(agent_message::Content::Proposed(Proposed {
        number,
        key: key.to_owned(),
        value: value.to_owned(),
        instead_of: String::new(),
    }))
}

/// Begins to attend.
async fn attend(hub: &Hub, member: &Joined) -> (Saying, Hearing) {
    let stream = connected_over_tls(hub.agents(), identity(member)).await;
    let (mut sender, connection) = h2::client::handshake(stream.unwrap()).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder()
        .method(Method::POST)
        .uri("https://controller/hermes.control.v1.Controller/Attend")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (answer, mut send) = sender.send_request(request, false).unwrap();
    let hello = framed(agent_message::Content::Hello(Hello {
        version: "none".to_owned(),
        ..Hello::default()
    }));
    send.send_data(hello, false).unwrap();
    let hearing = Hearing {
        receive: answer.await.unwrap().into_body(),
        read: BytesMut::new(),
    };
    (Saying(send), hearing)
}

impl Saying {
    /// Sends what there is room for; whether the stream is still there.
    async fn say(&mut self, bytes: Bytes) -> bool {
        self.0.reserve_capacity(bytes.len());
        while self.0.capacity() < bytes.len() {
            let room = std::future::poll_fn(|context| self.0.poll_capacity(context)).await;
            if !matches!(room, Some(Ok(_))) {
                return false;
            }
        }
        self.0.send_data(bytes, false).is_ok()
    }
}

impl Hearing {
    /// The value of the next answer to a proposal; `None` once the stream has ended.
    async fn hears(&mut self) -> Option<(u64, String)> {
        loop {
            while self.read.len() >= 5 {
                let length = usize::try_from((&self.read[1..5]).get_u32()).unwrap();
                if self.read.len() < 5 + length {
                    break;
                }
                let message = self.read.split_to(5 + length).split_off(5);
                let message = ControllerMessage::decode(message).unwrap();
                if let Some(controller_message::Content::Agreed(agreed)) = message.content {
                    return Some((agreed.number, agreed.value));
                }
            }
            let data = self.receive.data().await?.ok()?;
            let _ = self.receive.flow_control().release_capacity(data.len());
            self.read.extend_from_slice(&data);
        }
    }
}

/// A service that the node `evil` answers by itself, so that it may propose.
fn own_part() -> String {
    "apiVersion: hermes/v1
kind: Service
metadata: { name: meet }
spec: { handle: rendezvous, at: [{ node: evil }] }
"
    .to_owned()
}

fn agreed(hub: &Hub) -> u64 {
    hub.ask(&["status", "--overlay"]).unwrap()["agreed"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_member_proposes_only_what_is_its_business_and_in_the_right_form() {
    let hub = Hub::start();
    let (_yard, mut evil) = yard_and_evil(&hub);
    evil.kill();
    block_on(async {
        let (mut saying, mut hearing) = attend(&hub, &evil).await;
        assert!(saying.say(proposed(7, "key", "value")).await);
        assert_eq!(hearing.hears().await, Some((7, String::new())));
    });
    assert_eq!(agreed(&hub), 0);

    hub.apply(&own_part(), &["--force"]);
    let long = "x".repeat(300);
    for (key, value) in [
        ("", "v"),
        ("a/b", "v"),
        ("k", ""),
        ("k", &*long),
        ("k", "a\nb"),
    ] {
        block_on(async {
            let (mut saying, mut hearing) = attend(&hub, &evil).await;
            assert!(saying.say(proposed(1, "good", "value")).await);
            assert_eq!(hearing.hears().await, Some((1, "value".to_owned())));
            assert!(saying.say(proposed(2, key, value)).await);
            assert_eq!(hearing.hears().await, None, "{key:?}: {value:?}");
        });
    }
    assert_eq!(agreed(&hub), 1);
    // The controller goes on with others.
    hub.apply(&service("after"), &[]);
    hub.await_step("yard");
}

#[test]
fn a_member_that_proposes_without_end_has_its_share_and_others_are_changed() {
    let hub = Hub::start();
    let (_yard, mut evil) = yard_and_evil(&hub);
    evil.kill();
    hub.apply(&own_part(), &["--force"]);
    let before = hub.peak();
    let began = Instant::now();
    let slowest = runtime::handle().block_on(async {
        let (mut saying, mut hearing) = attend(&hub, &evil).await;
        let mut slowest = Duration::ZERO;
        for part in 0..4 {
            for piece in 0..FLOOD / 4 / 1000 {
                let first = part * FLOOD / 4 + piece * 1000;
                let numbers = first..first + 1000;
                let value = "v".repeat(255);
                let all: Vec<u8> = numbers
                    .flat_map(|number| proposed(number, &format!("k{number}"), &value))
                    .collect();
                let says = async {
                    for bytes in all.chunks(8192) {
                        assert!(saying.say(Bytes::copy_from_slice(bytes)).await);
                    }
                };
                let hears = async {
                    for _ in 0..1000 {
                        assert!(hearing.hears().await.is_some());
                    }
                };
                tokio::join!(says, hears);
            }
            let began = Instant::now();
            hub.apply(&service(&format!("during-{part}")), &[]);
            hub.await_step("yard");
            slowest = slowest.max(began.elapsed());
        }
        // Now without reading, until the controller takes no more.
        let pour = async {
            for number in FLOOD.. {
                if !saying.say(proposed(number, "same", "v")).await {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(3), pour).await;
        hub.apply(&service("after"), &[]);
        hub.await_step("yard");
        slowest
    });
    assert_eq!(agreed(&hub), OF_NODE);
    let cost = hub.peak() - before;
    println!(
        "the slowest of 4 changes took {slowest:?}, all of it {:?}; {cost} bytes more",
        began.elapsed()
    );
    assert!(slowest < CHANGE, "{slowest:?}");
    assert!(cost < COST, "{cost} bytes");
}
