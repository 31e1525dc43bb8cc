//! Streams of HTTP/2 beside each other where the connection takes a little at a time: its socket is full at every moment.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hermes_http::Offered;
use hermes_http::server::Options;
use hermes_net::Drain;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::bounded;
use crate::content::{hello, response};
use crate::flow::stalled;
use crate::server::{Answer, accept};

/// Bytes that a system keeps for a socket in one direction.
const SOCKET: u32 = 16 * 1024;
/// Bytes of a download before a small request is sent beside it, and the bytes that may come before
/// its answer.
const BEFORE: usize = 1024 * 1024;
const BESIDE: usize = 512 * 1024;

/// Bytes of one piece of a download.
const BLOCK: usize = 16 * 1024;
/// Bytes of a download that wait before a client that reads nothing: those of its stream, a batch, and as many in the system, which takes
/// ten times as many where nothing is said.
const AHEAD: usize = 640 * 1024;

/// The preface, SETTINGS with the widest window of a stream, and the widest one of all (RFC 9113, 3.4, 6.5 and 6.9).
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\
    \0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

/// Heads of requests for `/` and `/index.html` (RFC 7541, appendix A).
const MUCH: &[u8] = b"\x82\x86\x84\x41\x01a";
const LITTLE: &[u8] = b"\x82\x86\x85\x41\x01a";

#[tokio::test]
async fn little_waits_in_the_system_for_a_client_that_stopped() {
    bounded(async {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut client = client(None, &sent).await;
        client.write_all(HELLO).await.unwrap();
        client.write_all(&get(1, MUCH)).await.unwrap();
        while sent.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }

        let sent = stalled(&sent).await;
        assert!(sent < AHEAD, "{sent} bytes are ahead of the next answer");
    })
    .await;
}

#[tokio::test]
async fn an_answer_begins_beside_a_download_that_fills_the_connection() {
    bounded(async {
        let mut client = client(Some(SOCKET), &Arc::default()).await;
        client.write_all(HELLO).await.unwrap();
        client.write_all(&get(1, MUCH)).await.unwrap();
        read(&mut client, |content, _| content >= BEFORE).await;

        client.write_all(&get(3, LITTLE)).await.unwrap();
        let beside = read(&mut client, |content, answered| {
            answered == Some(3) || content >= BESIDE
        });
        let beside = beside.await;
        assert!(beside < BESIDE, "no answer beside {beside} bytes");
    })
    .await;
}

/// A connection to a server that answers, and counts what it sends of downloads. The client's
/// system buffers little, the server's any amount, or `kept` bytes.
async fn client(kept: Option<u32>, sent: &Arc<AtomicUsize>) -> TcpStream {
    let listening = TcpSocket::new_v4().unwrap();
    if let Some(kept) = kept {
        listening.set_send_buffer_size(kept).unwrap();
    }

    let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
    listening.bind(anywhere).unwrap();
    let listener = listening.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let options = Options::default();
    let sent = sent.clone();
    let answer = Answer(move |offered| answer(offered, sent.clone()));
    tokio::spawn(accept(listener, Drain::new(), options, answer));

    let client = TcpSocket::new_v4().unwrap();
    client.set_recv_buffer_size(SOCKET).unwrap();
    client.connect(address).await.unwrap()
}

async fn answer(offered: Offered, sent: Arc<AtomicUsize>) {
    if offered.head.path.as_ref().unwrap() == "/index.html" {
        return hello(offered).await;
    }

    let responder = offered.message().2;
    let mut much = responder.respond(response(200, None), None).await.unwrap();
    // Until the client is gone.
    while much
        .data(Bytes::from_static(&[7; BLOCK]), false)
        .await
        .is_ok()
    {
        sent.fetch_add(BLOCK, Ordering::Relaxed);
    }
}

fn get(stream: u8, head: &[u8]) -> Vec<u8> {
    let length = u8::try_from(head.len()).unwrap();
    let frame = [0, 0, length, 1, 5, 0, 0, 0, stream];
    [&frame, head].concat()
}

/// Reads frames, and lets the server go on until it waits before each, until `done` by the bytes of content and the stream of a head: how
/// many bytes of content.
async fn read(client: &mut TcpStream, done: impl Fn(usize, Option<u8>) -> bool) -> usize {
    let mut content = 0;
    loop {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }

        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let [l0, l1, l2, kind, .., stream] = head;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        client.read_exact(&mut vec![0; length]).await.unwrap();

        if kind == 0 {
            content += length;
        }
        if done(content, (kind == 1).then_some(stream)) {
            return content;
        }
    }
}
