//! The corpus of requests that two implementations might read differently: `crates/tools/tests/corpus/smuggling`.

use std::fs;
use std::path::Path;

/// The outcome of a case at Hermes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered with an error, and nothing of it goes on.
    Refused,
    /// Its head may have gone on before its content was found wrong; the exchange is broken off at both sides.
    Cut,
    /// This many requests go on.
    Passed(usize),
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its file, as `refused/cl-te.http`.
    pub name: String,
    /// The bytes to send.
    pub bytes: Vec<u8>,
    /// The expected outcome.
    pub verdict: Verdict,
    /// Whether it is HTTP/2.
    pub h2: bool,
}

/// All cases, in the order of their names.
///
/// # Panics
/// When the folder cannot be read.
pub fn smuggling() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/smuggling");
    let verdicts = [
        ("refused", Verdict::Refused),
        ("cut", Verdict::Cut),
        ("one", Verdict::Passed(1)),
        ("two", Verdict::Passed(2)),
    ];

    let mut cases = Vec::new();
    for (name, verdict) in verdicts {
        for entry in fs::read_dir(folder.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let h2 = file.ends_with(".h2");
            cases.push(Case {
                name: format!("{name}/{file}"),
                bytes: fs::read(&path).unwrap(),
                verdict,
                h2,
            });
        }
    }

    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}
