//! Hostile bytes for the tests of decoders and machines: committed inputs, and seeded mutations of them.
//!
//! A failure prints its input: add that to the corpus with the fix.
//!
//! What it is not: a fuzzer that learns. Every run tries the same inputs, and takes a second.
//!
//! Specifications: none.
//!
//! Begin reading in [`Corpus::test`].

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// The seed of mutations; fixed, so that every run is the same.
const SEED: u64 = 0x6865_726d_6573;

/// Mutated inputs are cut to this many bytes.
const MAX_INPUT: usize = 4096;

/// Mutations of one input.
const MOST_CHANGES: usize = 6;

/// Bytes copied or removed at once.
const MOST_MOVED: usize = 80;

/// Committed inputs, and the pieces that mutations of them insert.
#[derive(Debug)]
pub struct Corpus {
    inputs: Vec<Vec<u8>>,
    pieces: Vec<Vec<u8>>,
}

impl Corpus {
    /// Reads all files of these folders, which lie in the crate under test.
    ///
    /// # Panics
    /// When a folder or a file cannot be read, or there is no file.
    pub fn read(folders: &[&str]) -> Self {
        let read = |folder: &&str| {
            let files = fs::read_dir(Path::new(folder));
            let files = files.unwrap_or_else(|error| panic!("{folder}: {error}"));
            files.flatten().map(|file| file.path())
        };
        let mut files: Vec<_> = folders.iter().flat_map(read).collect();
        files.sort();
        let content = |file| fs::read(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let inputs: Vec<_> = files.iter().map(content).collect();
        assert!(!inputs.is_empty(), "{folders:?} hold inputs");

        Self {
            inputs,
            pieces: Vec::new(),
        }
    }

    /// The corpus of a grammar, in which these pieces have a meaning: mutations insert and move parts of inputs. Inputs without pieces are
    /// binary, and most mutations change a byte in place, as most insertions only make lengths wrong.
    #[must_use]
    pub fn with_pieces<'a>(mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.pieces = pieces.into_iter().map(<[u8]>::to_vec).collect();
        self
    }

    /// Gives a decoder every input, and then so many mutations of them.
    pub fn test(&self, mutations: usize, decode: impl Fn(&[u8])) {
        for input in &self.inputs {
            attempt(&decode, input);
        }

        // Several changes an input: a single one rarely passes the first check of a decoder and meets the second.
        let mut rng = Rng::with_seed(SEED);
        for _ in 0..mutations {
            let mut input = any_of(&self.inputs, &mut rng).to_vec();
            for _ in 0..rng.usize(1..=MOST_CHANGES) {
                if self.pieces.is_empty() {
                    change(&mut input, &mut rng);
                } else {
                    self.edit(&mut input, &mut rng);
                }
            }
            input.truncate(MAX_INPUT);
            attempt(&decode, &input);
        }
    }

    /// Mutates an input of a grammar.
    fn edit(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let at = rng.usize(0..=input.len());
        let part = |from: &[u8], rng: &mut Rng| {
            let begin = rng.usize(0..=from.len());
            let end = (begin + rng.usize(0..MOST_MOVED)).min(from.len());
            from[begin..end].to_vec()
        };
        let inserted = match rng.u8(0..8) {
            0 => vec![rng.u8(..)],
            1 | 2 => any_of(&self.pieces, rng).to_vec(),
            3 => part(any_of(&self.inputs, rng), rng),
            4 => part(input, rng),
            5 => return input.truncate(at),
            6 => {
                let end = (at + rng.usize(0..MOST_MOVED)).min(input.len());
                return drop(input.drain(at..end));
            }
            _ => return change(input, rng),
        };
        drop(input.splice(at..at, inserted));
    }
}

/// Mutates a binary input.
fn change(input: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.usize(0..=input.len());
    match rng.u8(0..8) {
        0 => input.insert(at, rng.u8(..)),
        1 => input.truncate(at),
        _ if at == input.len() => {}
        2 => drop(input.drain(at..rng.usize(at..=input.len()))),
        3 | 4 => input[at] ^= 1 << rng.u8(0..8),
        5 => input[at] = input[at].wrapping_add(1),
        6 => input[at] = 0,
        _ => input[at] = rng.u8(..),
    }
}

fn any_of<'a>(all: &'a [Vec<u8>], rng: &mut Rng) -> &'a [u8] {
    rng.choice(all).map_or(&[], Vec::as_slice)
}

/// Prints the input when a decoder panics.
struct Attempt<'a>(&'a [u8]);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the decoder fails on \"{}\"", self.0.escape_ascii());
        }
    }
}

fn attempt(decode: &impl Fn(&[u8]), input: &[u8]) {
    let attempt = Attempt(input);
    decode(attempt.0);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn seen(corpus: &Corpus) -> Vec<Vec<u8>> {
        let seen = RefCell::new(Vec::new());
        corpus.test(500, |input| seen.borrow_mut().push(input.to_vec()));
        seen.into_inner()
    }

    #[test]
    fn inputs_come_first_and_every_run_is_the_same() {
        let corpus = || Corpus::read(&["src"]);
        let inputs = seen(&corpus());
        assert_eq!(inputs.len(), 501);
        assert_eq!(inputs[0], fs::read("src/lib.rs").unwrap());
        assert!(inputs[1..].iter().all(|input| input.len() <= MAX_INPUT));
        assert_eq!(inputs, seen(&corpus()));
    }

    #[test]
    fn pieces_of_a_grammar_are_inserted() {
        let piece = b"\0piece\0".as_slice();
        let has_piece = |corpus: Corpus| {
            let inputs = seen(&corpus);
            inputs
                .iter()
                .any(|input| input.windows(7).any(|part| part == piece))
        };
        assert!(has_piece(Corpus::read(&["src"]).with_pieces([piece])));
        assert!(!has_piece(Corpus::read(&["src"])));
    }
}
