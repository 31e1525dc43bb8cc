//! Datagrams that leave before their tunnel is answered (RFC 9298, 5): none is lost for it, none comes twice, the order is kept.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::{Buf, Bytes, BytesMut};
use h2::server::SendResponse;
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UdpDatagram, encode_udp_capsule};
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, runtime, udp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What a next proxy does with a tunnel.
enum Answer {
    /// Waits for a datagram, and answers with this status.
    AfterOne(u16),
    /// Answers with success when it is told to.
    WhenTold(oneshot::Receiver<()>),
}

/// What is left of the answers of one or several proxies, in the order of the tunnels that they are asked for.
type Answers = Arc<Mutex<std::vec::IntoIter<Answer>>>;

fn answers(answers: Vec<Answer>) -> Answers {
    Arc::new(Mutex::new(answers.into_iter()))
}

/// A next proxy over HTTP/2, which answers so and sends all datagrams back; `heard` learns of each.
fn proxy(answers: &Answers, heard: &Sender<Vec<u8>>) -> SocketAddr {
    let listener = runtime::block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (answers, heard) = (answers.clone(), heard.clone());
    runtime::handle().spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut builder = h2::server::Builder::new();
            let mut connection = builder
                .enable_connect_protocol()
                .handshake::<_, Bytes>(stream)
                .await
                .unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                let answer = answers.lock().next().expect("an answer for each tunnel");
                tokio::spawn(tunnel(request.into_body(), respond, answer, heard.clone()));
            }
        }
    });
    address
}

async fn tunnel(
    content: h2::RecvStream,
    mut respond: SendResponse<Bytes>,
    answer: Answer,
    heard: Sender<Vec<u8>>,
) {
    let mut capsules = Capsules {
        content,
        decoder: CapsuleDecoder::new(MAX_UDP_CAPSULE),
    };
    let mut first = None;
    let status = match answer {
        Answer::AfterOne(status) => {
            first = capsules.next(&heard).await;
            assert!(first.is_some(), "a datagram comes before the answer");
            status
        }
        Answer::WhenTold(told) => {
            told.await.unwrap();
            200
        }
    };
    let response = http::Response::builder().status(status).body(()).unwrap();
    let mut sender = respond.send_response(response, status != 200).unwrap();
    if status != 200 {
        return;
    }
    loop {
        let Some(payload) = (match first.take() {
            Some(first) => Some(first),
            None => capsules.next(&heard).await,
        }) else {
            return;
        };
        let mut capsule = BytesMut::new();
        encode_udp_capsule(&payload, &mut capsule).unwrap();
        let _ = sender.send_data(capsule.freeze(), false);
    }
}

struct Capsules {
    content: h2::RecvStream,
    decoder: CapsuleDecoder,
}

impl Capsules {
    /// The payload of the next datagram; none at the end.
    async fn next(&mut self, heard: &Sender<Vec<u8>>) -> Option<Vec<u8>> {
        loop {
            while let Some(capsule) = self.decoder.next().unwrap() {
                if capsule.kind == CapsuleType::Datagram {
                    let payload = UdpDatagram::decode(capsule.value).unwrap().payload.to_vec();
                    let _ = heard.send(payload.clone());
                    return Some(payload);
                }
            }
            let data = self.content.data().await?.ok()?;
            let _ = self
                .content
                .flow_control()
                .release_capacity(data.remaining());
            self.decoder.push(data);
        }
    }
}

fn node(proxies: &[SocketAddr], keys: &str) -> Node {
    let endpoints = proxies
        .iter()
        .map(|proxy| format!("\"{proxy}\""))
        .collect::<Vec<_>>()
        .join(", ");
    Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "VOICE:5004", datagrams: {{ hold_time: 1h }} }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: [{endpoints}], http: 2, timeouts: {{ udp: 1s }}{keys} }} }}
            "#
        ),
    )
}

/// So many datagrams of this length, which say their number.
fn numbered(count: u32, length: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| [&number.to_be_bytes()[..], &vec![7; length - 4]].concat())
        .collect()
}

fn heard(of: &Receiver<Vec<u8>>, count: usize) -> Vec<Vec<u8>> {
    of.iter().take(count).collect()
}

#[test]
fn the_first_datagram_comes_before_the_answer_and_each_once() {
    let (sender, receiver) = channel();
    let node = node(&[proxy(&answers(vec![Answer::AfterOne(200)]), &sender)], "");
    let client = udp::Client::connect(node.address("voice"));
    let all = numbered(20, 100);
    all.iter().for_each(|datagram| client.send(datagram));
    for datagram in &all {
        assert_eq!(&client.receive(), datagram);
    }
    assert_eq!(heard(&receiver, all.len()), all);
    let record = node.record(|record| record["kind"] == "connect-udp");
    let datagrams = &record["datagrams"];
    assert_eq!(
        (
            &datagrams["client_to_target"],
            &datagrams["target_to_client"]
        ),
        (&20.into(), &20.into()),
        "{record}"
    );
    assert_eq!(record["bytes"]["client_to_target"], 2_000, "{record}");
    assert!(receiver.try_recv().is_err(), "none comes twice");
}

#[test]
fn what_came_while_the_answer_did_not_follows_in_order() {
    let ((sender, receiver), (go, told)) = (channel(), oneshot::channel());
    let node = node(
        &[proxy(&answers(vec![Answer::WhenTold(told)]), &sender)],
        "",
    );
    let client = udp::Client::connect(node.address("voice"));
    // Several times what may leave early, and less than what is held.
    let all = numbered(100, 1_000);
    all.iter().for_each(|datagram| client.send(datagram));
    eventually_true("the tunnel was asked for", || node.exchanges().len() == 1);
    go.send(()).unwrap();
    assert_eq!(heard(&receiver, all.len()), all);
}

#[test]
fn a_tunnel_that_is_asked_for_again_has_the_same_datagrams_also_elsewhere() {
    for places in [1, 2] {
        let (sender, receiver) = channel();
        let answers = answers(vec![Answer::AfterOne(503), Answer::AfterOne(200)]);
        let proxies: Vec<SocketAddr> = (0..places).map(|_| proxy(&answers, &sender)).collect();
        let node = node(&proxies, ", retry: { on: gateway-error }");
        let client = udp::Client::connect(node.address("voice"));
        assert_eq!(client.ask("knock"), b"knock");
        assert_eq!(heard(&receiver, 2), [b"knock", b"knock"]);
        let record = node.record(|record| record["kind"] == "connect-udp");
        assert_eq!(record["attempts"], 2, "{record}");
        assert_eq!(record["datagrams"]["client_to_target"], 1, "{record}");
    }
}

#[test]
fn what_left_for_a_tunnel_that_was_refused_does_not_count_as_carried() {
    let (sender, receiver) = channel();
    let node = node(&[proxy(&answers(vec![Answer::AfterOne(403)]), &sender)], "");
    let client = udp::Client::connect(node.address("voice"));
    client.send("knock");
    assert_eq!(heard(&receiver, 1), [b"knock"]);
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert_eq!(
        (&record["status"], &record["datagrams"]["client_to_target"]),
        (&403.into(), &0.into()),
        "{record}"
    );
}
