//! Dynamic tables of QPACK between the ends of a link (RFC 9204).

use bytes::BytesMut;
use hermes_http::server::Options;
use hermes_net::quic::RecvStream;
use hermes_proto::fields::LineName;
use hermes_proto::h3::{Frame, FrameDecoder, Piece};
use hermes_proto::qpack::{FieldSectionLimits, QpackDecoder, QpackEncoder};

use super::client::pair;
use super::wire::{CONTROL, DECODER, ENCODER, Wire, framed, send, settings};
use crate::bounded;
use crate::content::{get, hello};
use crate::server::Server;

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
const CAPACITY: u64 = 1;

const LIMITS: FieldSectionLimits = FieldSectionLimits {
    bytes: 10_000,
    lines: 100,
};

/// The section of the only HEADERS frame that comes.
async fn section(stream: &mut RecvStream) -> bytes::Bytes {
    let mut frames = FrameDecoder::request(10_000);
    loop {
        if let Some(Piece::Frame(Frame::Headers(section))) = frames.next().unwrap() {
            return section;
        }
        frames.push(stream.read(10_000).await.unwrap().unwrap());
    }
}

/// The stream of this type that the other side opens, with its bytes behind the type.
async fn opened(wire: &Wire, kind: u64) -> (RecvStream, Vec<u8>) {
    loop {
        let mut stream = wire.connection.accept_uni().await.unwrap();
        let first = stream.read(10_000).await.unwrap().unwrap();
        if u64::from(first[0]) == kind {
            return (stream, first[1..].to_vec());
        }
    }
}

#[tokio::test]
async fn what_repeats_on_a_link_costs_a_byte_once_the_peer_has_confirmed_it() {
    bounded(async {
        let (link, _client, mut wire) = pair().await;
        wire.uni(CONTROL, &settings(&[(CAPACITY, 4096)])).await;
        assert!(link.settled().await);
        wire.uni(DECODER, b"").await;

        let mut decoder = QpackDecoder::new(4096);
        let mut lengths = Vec::new();
        let mut instructions = None;
        while lengths.last().is_none_or(|last| *last == lengths[0]) {
            let _open = link.open(&get(), Some(0)).await.unwrap();
            let (_send, mut recv) = wire.connection.accept_bi().await.unwrap();
            let section = section(&mut recv).await;
            let mut lines = decoder.section(recv.id(), &section, LIMITS).unwrap();
            while lines.next().unwrap().is_some() {}
            lengths.push(section.len());

            if lengths.len() == 2 {
                let (mut stream, first) = opened(&wire, ENCODER).await;
                decoder.handle(&first).unwrap();
                while !decoder.has_instructions() {
                    let more = stream.read(10_000).await.unwrap().unwrap();
                    decoder.handle(&more).unwrap();
                }
                instructions = Some(stream);
            }
            wire.more(&decoder.take_instructions()).await;
        }
        drop(instructions);
        assert!(lengths[lengths.len() - 1] < lengths[0], "{lengths:?}");
    })
    .await;
}

#[tokio::test]
async fn a_server_of_links_reads_what_refers_to_its_table_and_says_that_it_has() {
    bounded(async {
        let options = Options {
            link: true,
            ..Options::default()
        };
        let server = Server::with(options, hello).await;
        let mut wire = Wire::dial(server.address).await;
        wire.control(&[]).await;

        let mut encoder = QpackEncoder::default();
        encoder.allow(4096);
        let lines = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "origin.example"),
            (":path", "/"),
            ("x-user", "alice"),
        ];
        let written = |encoder: &mut QpackEncoder, stream| {
            let mut output = BytesMut::new();
            let mut section = encoder.section(stream, &mut output);
            for (name, value) in lines {
                section.line(LineName::parse(name.as_bytes()), value.as_bytes(), false);
            }
            section.finish();
            output
        };
        written(&mut encoder, 0);
        written(&mut encoder, 0);
        wire.uni(ENCODER, &encoder.take_instructions()).await;
        let (mut answers, first) = opened(&wire, DECODER).await;
        encoder.handle(&first).unwrap();

        let short = written(&mut encoder, 0);
        assert_ne!(short[0], 0, "it refers to the table");
        let mut exchange = wire.request(&framed(1, &short), true).await;
        assert_eq!(exchange.status().await, 200);
        assert_eq!(answers.read(100).await.unwrap().unwrap(), &b"\x80"[..]);

        // A stream that is broken off needs its entries no more.
        let mut exchange = wire.request(b"", false).await;
        send(&mut exchange.send, &framed(1, &short)[..3]).await;
        exchange.send.reset(0x10c);
        assert_eq!(answers.read(100).await.unwrap().unwrap(), &b"\x44"[..]);
    })
    .await;
}

#[tokio::test]
async fn a_stranger_gets_no_table() {
    bounded(async {
        let server = Server::start(hello).await;
        let mut wire = Wire::dial(server.address).await;
        wire.uni(CONTROL, &settings(&[(CAPACITY, 4096)])).await;
        for _ in 0..4 {
            let mut exchange = wire.request(&super::wire::get(&[]), true).await;
            assert_eq!(section(&mut exchange.recv).await[..2], [0, 0]);
        }
        wire.uni(ENCODER, b"\x3f\xe1\x1f").await;
        assert_eq!(wire.closed().await, 0x201);
    })
    .await;
}
