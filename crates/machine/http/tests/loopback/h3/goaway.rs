//! The end of a connection, in two steps (RFC 9114, 5.2).

use bytes::Bytes;
use hermes_net::quic::RecvStream;
use hermes_proto::h3::{Frame, FrameDecoder, Piece};

use super::wire::{Wire, get};
use crate::bounded;
use crate::content::hello;
use crate::server::Server;

/// Reads GOAWAYs of a server's control stream.
struct Goaways {
    stream: RecvStream,
    frames: FrameDecoder,
}

impl Goaways {
    async fn of(wire: &Wire) -> Self {
        let mut stream = wire.connection.accept_uni().await.unwrap();
        let mut bytes = stream.read(1000).await.unwrap().unwrap();
        assert_eq!(bytes.split_to(1), Bytes::from_static(&[0]));
        let mut frames = FrameDecoder::control();
        frames.push(bytes);
        Self { stream, frames }
    }

    async fn next(&mut self) -> u64 {
        loop {
            while let Some(piece) = self.frames.next().unwrap() {
                if let Piece::Frame(Frame::Goaway(stream)) = piece {
                    return stream;
                }
            }
            self.frames
                .push(self.stream.read(1000).await.unwrap().unwrap());
        }
    }
}

#[tokio::test]
async fn the_first_goaway_leaves_nothing_out_and_the_second_what_came_after_it() {
    bounded(async {
        let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let wait = gate.clone();
        let answer = move |offered| {
            let wait = wait.clone();
            async move {
                let _permit = wait.acquire().await;
                hello(offered).await;
            }
        };
        let server = Server::start(answer).await;
        let wire = Wire::dial(server.address).await;
        let mut goaways = Goaways::of(&wire).await;
        let mut first = wire.request(&get(&[]), true).await;
        server.drain.start();
        assert_eq!(goaways.next().await, (1 << 62) - 4);
        // The request was sent before the client could know of the GOAWAY.
        let mut second = wire.request(&get(&[]), true).await;
        assert_eq!(goaways.next().await, 8);
        let mut late = wire.request(&get(&[]), true).await;
        assert_eq!(late.code().await, 0x10b);
        gate.add_permits(10);
        assert_eq!(first.status().await, 200);
        assert_eq!(second.status().await, 200);
        assert_eq!(wire.closed().await, 0x100);
    })
    .await;
}

#[tokio::test]
async fn a_response_that_was_finished_arrives_before_the_connection_closes() {
    bounded(async {
        let server = Server::start(async |offered: hermes_http::Offered| {
            let large = Bytes::from(vec![7; 3_000_000]);
            let _ = offered
                .refuse(crate::content::response(200, None), large)
                .await;
        })
        .await;
        let wire = Wire::dial(server.address).await;
        let mut exchange = wire.request(&get(&[]), true).await;
        assert_eq!(exchange.status().await, 200);
        server.drain.start();
        let mut seen = 0;
        while let Some(bytes) = exchange.recv.read(100_000).await.unwrap() {
            seen += bytes.len();
        }
        assert!(seen > 2_900_000, "{seen}");
        assert_eq!(wire.closed().await, 0x100);
    })
    .await;
}
