//! The machines under hostile bytes.

use std::time::Instant;

use hermes_corpus::Corpus;

/// Mutations for each test.
const MUTATIONS: usize = 20_000;

#[test]
fn super_packets_keep_their_invariants() {
    Corpus::read(&["corpus/offload"]).test(MUTATIONS, crate::offload::fuzz_one);
}

#[test]
fn sessions_keep_their_invariants() {
    let session = Corpus::read(&["corpus/session"]);
    session.test(MUTATIONS, |data| crate::fuzz_session(data, Instant::now()));
}
