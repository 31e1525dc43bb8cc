//! Any bytes are answered.

use hermes_corpus::Corpus;

use crate::fuzz_one;

/// Pieces that mean something in a file of areas.
const PIECES: [&str; 16] = [
    "areas:\n",
    "functions:\n",
    "links:\n",
    "  a: ",
    "{ has: [x] }",
    "{ adds: [x], removes: [y] }",
    "needs: [x]",
    "at: [a, b]",
    "cost: -1",
    "capacity: 0",
    "between: [a, a]",
    "version: 1\n",
    "[",
    "}",
    "null",
    "\u{fc}",
];

#[test]
fn any_bytes_are_answered() {
    let corpus = Corpus::read(&["corpus"]).with_pieces(PIECES.map(str::as_bytes));
    corpus.test(3000, fuzz_one);
}
