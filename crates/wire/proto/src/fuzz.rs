//! Every decoder over its committed corpus and over seeded mutations of it.
//!
//! A failure prints the input; add it to `corpus/<decoder>/` with the fix.

use std::fs;
use std::path::Path;
use std::time::Instant;

use fastrand::Rng;

/// How many mutations each decoder sees.
const MUTATIONS: usize = 20_000;

/// Where mutations start; fixed, so that every run is the same.
const SEED: u64 = 0x6865_726d_6573;

/// Mutated inputs are cut to this many bytes.
const MAX_INPUT: usize = 4096;

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
    resumable_keeps_its_invariants: resumable;
    trace_context_keeps_its_invariants: trace_context;
    udp_bind_keeps_its_invariants: udp_bind;
    udp_template_keeps_its_invariants: udp_template;
    uri_template_keeps_its_invariants: uri_template;
    varint_keeps_its_invariants: varint;
    via_keeps_its_invariants: via;
    websocket_keeps_its_invariants: websocket;
}

/// Beside its input, it takes the time.
#[test]
fn h2_keeps_its_invariants() {
    run("h2", |data| crate::h2::fuzz_one(data, Instant::now()));
}

fn run(name: &str, decode: fn(&[u8])) {
    let corpus = corpus(name);
    for input in &corpus {
        attempt(name, decode, input);
    }
    let mut rng = Rng::with_seed(SEED);
    for _ in 0..MUTATIONS {
        let mut input = rng.choice(&corpus).cloned().unwrap_or_default();
        for _ in 0..rng.usize(1..=6) {
            mutate(&mut input, &corpus, &mut rng);
        }
        input.truncate(MAX_INPUT);
        attempt(name, decode, &input);
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds inputs", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.usize(0..=input.len());
    match rng.u8(0..8) {
        0 => input.insert(at, rng.u8(..)),
        1 => input.insert(at, *rng.choice(INTERESTING).unwrap()),
        2 => input.truncate(at),
        3 => input
            .splice(at..at, rng.choice(corpus).unwrap().iter().copied())
            .for_each(drop),
        4 => {
            let end = rng.usize(at..=input.len());
            let copy = input[at..end].to_vec();
            input.splice(at..at, copy).for_each(drop);
        }
        _ if at == input.len() => {}
        5 => input[at] ^= 1 << rng.u8(0..8),
        6 => input[at] = *rng.choice(INTERESTING).unwrap(),
        _ => drop(input.drain(at..rng.usize(at..=input.len()))),
    }
}

/// Prints the input when the decoder panics.
struct Attempt<'a>(&'a str, &'a [u8]);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fails on \"{}\"", self.0, self.1.escape_ascii());
        }
    }
}

fn attempt(name: &str, decode: fn(&[u8]), input: &[u8]) {
    let attempt = Attempt(name, input);
    decode(attempt.1);
}
