//! Any bytes are answered.

use hermes_corpus::Corpus;

use crate::fuzz_one;

/// Pieces that mean something in YAML or in our scalars.
const PIECES: [&str; 24] = [
    "[", "]", "{", "}", ": ", "- ", "\n", "\n  ", "*", "&a ", "!", "\"", "'", "|\n", "> ", "${A}",
    "${", "{user}", "~", "#", "\t", "? ", "---\n", "\u{fc}",
];

#[test]
fn the_corpus_and_mutations_of_it_are_answered() {
    let corpus = Corpus::read(&["corpus", "tests/golden", "tests/documents"]);
    let corpus = corpus.with_pieces(PIECES.map(str::as_bytes));
    corpus.test(4000, fuzz_one);
}
