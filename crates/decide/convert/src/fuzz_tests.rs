//! Any bytes are answered.

use hermes_corpus::Corpus;

use crate::fuzz_one;

/// Pieces that mean something in one of the formats.
const PIECES: [&str; 24] = [
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n",
    ",",
    "\"",
    "'",
    "/*",
    "*/",
    "//",
    "*x",
    "&x ",
    "=",
    "[Peer]\n",
    "0.0.0.0/0",
    "-1",
    "~(",
    "%",
    "null",
    "1e9s",
    "\u{fc}",
];

#[test]
fn any_bytes_are_answered() {
    let corpus = Corpus::read(&["corpus"]).with_pieces(PIECES.map(str::as_bytes));
    corpus.test(3000, fuzz_one);
}
