//! An interface under hostile bytes.

use std::time::Instant;

use hermes_corpus::Corpus;

/// Mutations for the test.
const MUTATIONS: usize = 5_000;

#[test]
fn interfaces_keep_their_invariants() {
    let interface = Corpus::read(&["corpus/interface"]);
    interface.test(MUTATIONS, |data| crate::fuzz_one(data, Instant::now()));
}
