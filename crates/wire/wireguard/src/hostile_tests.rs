//! An interface under hostile bytes: a committed corpus and seeded mutations of it.
//!
//! A failure prints the input; add it to `corpus/<name>/` with the fix.

use std::fs;
use std::path::Path;
use std::time::Instant;

use fastrand::Rng;

/// How many mutations it sees.
const MUTATIONS: usize = 5_000;

/// Where mutations start; fixed, so that every run is the same.
const SEED: u64 = 0x6865_726d_6573;

/// Mutated inputs are cut to this many bytes.
const MAX_INPUT: usize = 4096;

#[test]
fn interfaces_keep_their_invariants() {
    run("interface", |data| crate::fuzz_one(data, Instant::now()));
}

fn run(name: &str, examine: fn(&[u8])) {
    let corpus = corpus(name);
    for input in &corpus {
        attempt(name, examine, input);
    }
    let mut rng = Rng::with_seed(SEED);
    for _ in 0..MUTATIONS {
        let mut input = rng.choice(&corpus).cloned().unwrap_or_default();
        for _ in 0..rng.usize(1..=4) {
            mutate(&mut input, &mut rng);
        }
        input.truncate(MAX_INPUT);
        attempt(name, examine, &input);
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds inputs", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Most bytes are changed in place: most insertions only make lengths wrong.
fn mutate(input: &mut Vec<u8>, rng: &mut Rng) {
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

/// Prints the input when an invariant breaks.
struct Attempt<'a>(&'a str, &'a [u8]);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fails on \"{}\"", self.0, self.1.escape_ascii());
        }
    }
}

fn attempt(name: &str, examine: fn(&[u8]), input: &[u8]) {
    let attempt = Attempt(name, input);
    examine(attempt.1);
}
