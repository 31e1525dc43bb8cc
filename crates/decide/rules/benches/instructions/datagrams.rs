//! Datagrams in capsules and in batches, and the header that a connection may begin with.

use std::hint::black_box;

use bytes::BytesMut;
use hermes_proto::batch::Batch;
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UdpDatagram, encode_udp_capsule};
use hermes_proto::proxy_protocol::{self, Header, Version};

/// Datagrams of one round, and the bytes in each.
const DATAGRAMS: usize = 32;
const DATAGRAM: [u8; 32] = [7; 32];

fn encode_capsules(out: &mut BytesMut) {
    (0..DATAGRAMS).for_each(|_| encode_udp_capsule(black_box(&DATAGRAM), out).unwrap());
}

pub fn capsules_encode(rounds: usize) {
    let mut out = BytesMut::with_capacity(16 * 1024);
    for _ in 0..rounds {
        encode_capsules(&mut out);
        black_box(&out);
        out.clear();
    }
}

pub fn capsules_decode(rounds: usize) {
    let mut stream = BytesMut::new();
    encode_capsules(&mut stream);
    let stream = stream.freeze();
    for _ in 0..rounds {
        let mut decoder = CapsuleDecoder::new(MAX_UDP_CAPSULE);
        decoder.push(black_box(&stream).clone());
        while let Some(capsule) = decoder.next().unwrap() {
            black_box(UdpDatagram::decode(capsule.value).unwrap());
        }
    }
}

pub fn batch(rounds: usize) {
    let mut batch = Batch::default();
    for _ in 0..rounds {
        (0..DATAGRAMS).for_each(|_| batch.push(black_box(&DATAGRAM)).unwrap());
        for run in batch.runs() {
            black_box(run);
        }
        batch.clear();
    }
}

pub fn proxy_header_decode_v1(rounds: usize) {
    proxy_header_decode(Version::V1, rounds);
}

pub fn proxy_header_decode_v2(rounds: usize) {
    proxy_header_decode(Version::V2, rounds);
}

fn proxy_header_decode(version: Version, rounds: usize) {
    let [source, destination] =
        ["192.0.2.1:50000", "198.51.100.2:443"].map(|address| address.parse().unwrap());
    let bytes = proxy_protocol::encode(
        version,
        Header::Proxied {
            source,
            destination,
        },
    );
    for _ in 0..rounds {
        black_box(proxy_protocol::decode(black_box(&bytes)).unwrap().unwrap());
    }
}
