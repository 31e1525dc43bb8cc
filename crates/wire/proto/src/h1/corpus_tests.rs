//! The committed corpus, and seeded mutations of it, break no promise of the HTTP/1.1 codec.

use std::path::Path;

use bytes::BytesMut;
use http::Method;
use proptest::collection::vec;
use proptest::prelude::{Just, any, prop_oneof, proptest};

use super::{MessageLimits, decode_request, decode_response, fuzz_one};

/// The files of a corpus folder, by name.
fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn seeds() -> Vec<Vec<u8>> {
    ["h1_request", "h1_response"]
        .into_iter()
        .flat_map(corpus)
        .map(|(_, bytes)| bytes)
        .collect()
}

#[test]
fn requests_named_bad_are_refused_and_others_are_read() {
    let files = corpus("h1_request");
    assert!(files.len() >= 25, "only {} files", files.len());
    for (name, bytes) in files {
        let result = decode_request(&mut BytesMut::from(&bytes[..]), &MessageLimits::default());
        let refused_later = name.starts_with("badbody-");
        assert_eq!(
            result.is_err(),
            name.starts_with("bad-"),
            "{name}: {result:?}"
        );
        assert!(!refused_later || result.is_ok(), "{name}");
    }
}

#[test]
fn responses_named_bad_are_refused_and_others_are_read() {
    for (name, bytes) in corpus("h1_response") {
        let mut buf = BytesMut::from(&bytes[..]);
        let result = decode_response(&mut buf, &MessageLimits::default(), &Method::GET);
        assert_eq!(
            result.is_err(),
            name.starts_with("bad-"),
            "{name}: {result:?}"
        );
    }
}

#[test]
fn the_corpus_breaks_no_promise() {
    seeds().iter().for_each(|seed| fuzz_one(seed));
}

#[test]
fn twenty_thousand_mutations_break_no_promise() {
    let seeds = seeds();
    let mut random = fastrand::Rng::with_seed(9112);
    for _ in 0..20_000 {
        let mut data = random.choice(&seeds).unwrap().clone();
        for _ in 0..random.usize(1..4) {
            mutate(&mut data, &seeds, &mut random);
        }
        fuzz_one(&data);
    }
}

/// Changes, inserts, removes or doubles a little, or continues with another seed.
fn mutate(data: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut fastrand::Rng) {
    const TELLING: &[u8] = b"\r\n\t :;,0159afAF/?#@[]*\0\x7f\xff";
    let at = random.usize(..=data.len());
    let until = (at + random.usize(..8)).min(data.len());
    let byte = *random.choice(TELLING).unwrap();
    match random.u8(..6) {
        0 if at < data.len() => data[at] = byte,
        1 if at < data.len() => data[at] ^= 1 << random.u8(..8),
        2 => drop(data.drain(at..until)),
        3 => data.extend_from_within(at..until),
        4 => {
            let other = random.choice(seeds).unwrap();
            data.truncate(at);
            data.extend_from_slice(&other[at.min(other.len())..]);
        }
        _ => data.insert(at, byte),
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_break_no_promise(data in vec(any::<u8>(), 0..400)) {
        fuzz_one(&data);
    }

    #[test]
    fn bytes_that_look_like_http_break_no_promise(
        data in vec(prop_oneof![
            Just("GET / HTTP/1.1\r\n"), Just("POST http://a HTTP/1.1\r\n"), Just("HTTP/1.1 200 OK\r\n"),
            Just("Host: a\r\n"), Just("\r\n"), Just("\n"), Just("\r"), Just(" "), Just(":"), Just(","), Just(";"),
            Just("Content-Length: 3\r\n"), Just("Transfer-Encoding: chunked\r\n"), Just("Connection: close\r\n"),
            Just("3\r\nabc\r\n"), Just("0\r\n"), Just("0\r\n\r\n"), Just("a: b\r\n"), Just("abc"),
        ], 0..14)
    ) {
        fuzz_one(data.concat().as_bytes());
    }
}
