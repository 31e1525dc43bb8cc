//! Any bytes: the committed corpus, and seeded mutations of it.

use std::fs;
use std::path::Path;

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

/// Pieces that mean something in YAML or in our scalars.
const PIECES: [&str; 24] = [
    "[", "]", "{", "}", ": ", "- ", "\n", "\n  ", "*", "&a ", "!", "\"", "'", "|\n", "> ", "${A}",
    "${", "{user}", "~", "#", "\t", "? ", "---\n", "\u{fc}",
];

fn corpus() -> Vec<Vec<u8>> {
    let folders = [
        Path::new("corpus"),
        Path::new("tests/golden"),
        Path::new("tests/documents"),
    ];
    let mut files: Vec<_> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap().flatten())
        .collect();
    files.sort_by_key(|entry| entry.path());
    files
        .iter()
        .map(|entry| fs::read(entry.path()).unwrap())
        .collect()
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    match dice.below(5) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..(at + dice.below(9)).min(bytes.len()))),
        2 if at < bytes.len() => bytes[at] = b' ' + dice.below(95) as u8,
        3 => {
            let from = dice.below(other.len());
            let piece = &other[from..(from + dice.below(40)).min(other.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        _ => drop(bytes.splice(at..at, PIECES[dice.below(PIECES.len())].bytes())),
    }
}

#[test]
fn the_corpus_is_answered() {
    let corpus = corpus();
    assert!(corpus.len() >= 8);
    corpus.iter().for_each(|bytes| fuzz_one(bytes));
}

#[test]
fn mutations_of_the_corpus_are_answered() {
    const ROUNDS: usize = 4000;
    let corpus = corpus();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..ROUNDS {
        let mut bytes = corpus[dice.below(corpus.len())].clone();
        for _ in 0..=dice.below(6) {
            let other = &corpus[dice.below(corpus.len())];
            mutate(&mut bytes, other, &mut dice);
        }
        fuzz_one(&bytes);
    }
}
