//! Any bytes: the committed corpus, and seeded mutations of it.

use std::fs;

use crate::fuzz_one;

/// A small generator (xorshift), so that every run sees the same bytes.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

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

fn mutate(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    match dice.below(5) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..(at + dice.below(40)).min(bytes.len()))),
        2 if at < bytes.len() => bytes[at] = b' ' + dice.below(95) as u8,
        3 => {
            let from = dice.below(other.len());
            let piece = other[from..(from + dice.below(80)).min(other.len())].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        _ => drop(bytes.splice(at..at, PIECES[dice.below(PIECES.len())].bytes())),
    }
}

#[test]
fn any_bytes_are_answered() {
    let mut files: Vec<_> = fs::read_dir("corpus")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    corpus.iter().for_each(|bytes| fuzz_one(bytes));

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3000 {
        let mut bytes = corpus[dice.below(corpus.len())].clone();
        let other = &corpus[dice.below(corpus.len())];
        for _ in 0..=dice.below(4) {
            mutate(&mut bytes, other, &mut dice);
        }
        fuzz_one(&bytes);
    }
}
