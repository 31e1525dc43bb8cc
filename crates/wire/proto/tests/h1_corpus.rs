//! The committed corpus, and seeded mutations of it, break no promise of the HTTP/1.1 codec.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;

use bytes::BytesMut;
use hermes_proto::h1::{MessageLimits, decode_request, decode_response, fuzz_one};
use http::Method;

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
