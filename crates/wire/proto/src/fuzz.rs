//! Every decoder over its committed corpus and over seeded mutations of it.

use std::time::Instant;

use hermes_corpus::Corpus;

/// Mutations for each decoder.
const MUTATIONS: usize = 20_000;

/// Bytes that grammars care about.
const INTERESTING: &[u8] = b"\0\x01\x3f\x40\x7f\x80\xc0\xff %/:;,=()[]\\\"\r\n\t.-_@~09azAZ";

macro_rules! decoders {
    ($($test:ident: $decoder:ident;)+) => {
        $(#[test]
        fn $test() {
            run(stringify!($decoder), crate::$decoder::fuzz_one);
        })+
    };
}

decoders! {
    authority_keeps_its_invariants: authority;
    binary_http_keeps_its_invariants: binary_http;
    capsule_keeps_its_invariants: capsule;
    client_address_keeps_its_invariants: client_address;
    connect_ip_keeps_its_invariants: connect_ip;
    connect_tcp_keeps_its_invariants: connect_tcp;
    credentials_keep_their_invariants: credentials;
    custody_keeps_its_invariants: custody;
    datagram_keeps_its_invariants: datagram;
    h3_keeps_its_invariants: h3;
    hop_keeps_its_invariants: hop;
    ip_keeps_its_invariants: ip;
    ip_template_keeps_its_invariants: ip_template;
    path_keeps_its_invariants: path;
    protobuf_keeps_its_invariants: protobuf;
    proxy_protocol_keeps_its_invariants: proxy_protocol;
    ptth_keeps_its_invariants: ptth;
    qpack_keeps_its_invariants: qpack;
    quic_version_keeps_its_invariants: quic_version;
    relay_keeps_its_invariants: relay;
    resumable_keeps_its_invariants: resumable;
    socks_keeps_its_invariants: socks;
    socks6_keeps_its_invariants: socks6;
    trace_context_keeps_its_invariants: trace_context;
    udp_bind_keeps_its_invariants: udp_bind;
    udp_template_keeps_its_invariants: udp_template;
    uri_template_keeps_its_invariants: uri_template;
    varint_keeps_its_invariants: varint;
    via_keeps_its_invariants: via;
    websocket_keeps_its_invariants: websocket;
}

/// Its decoder also takes the time.
#[test]
fn h2_keeps_its_invariants() {
    run("h2", |data| crate::h2::fuzz_one(data, Instant::now()));
}

fn run(name: &str, decode: fn(&[u8])) {
    let corpus = Corpus::read(&[&format!("corpus/{name}")]);
    let corpus = corpus.with_pieces(INTERESTING.iter().map(std::slice::from_ref));
    corpus.test(MUTATIONS, decode);
}
