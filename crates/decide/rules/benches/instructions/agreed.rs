//! The counts that were agreed on, in `counts.txt`, and the build they hold for.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitCode};
use std::{env, fs};

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/instructions/counts.txt"
);

/// The command that writes the file anew.
const RENEW: &str = "cargo bench --profile count -p hermes-rules --bench instructions -- renew";

/// By how much a count may differ, in hundredths: other memory functions of the C library, other versions of crates.
const TOLERANCE: u64 = 5;

/// The conditions that counts depend on besides our code: the compiler, and the kind of machine.
#[derive(PartialEq, Eq)]
pub struct Build(String);

impl Build {
    /// The build of this program.
    pub fn this() -> Self {
        let compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .arg("-V")
            .output()
            .unwrap();
        let compiler = String::from_utf8(compiler.stdout).unwrap();
        Self(format!("{}, {}", compiler.trim(), env::consts::ARCH))
    }
}

/// The content of the file.
pub struct Agreed {
    build: Build,
    counts: BTreeMap<String, u64>,
}

/// Writes the file.
pub fn write(build: &Build, counts: &[(&str, u64)]) {
    let lines: String = counts
        .iter()
        .map(|(name, count)| format!("{name} {count}\n"))
        .collect();
    let head = format!(
        "# Instructions of one round of each path. Written by:\n# {RENEW}\n# {}\n",
        build.0
    );
    fs::write(FILE, head + &lines).unwrap();
    println!("{lines}written to {FILE}");
}

impl Agreed {
    /// Reads the file: the last line of its head names the build.
    pub fn read() -> Self {
        let text = fs::read_to_string(FILE).unwrap();
        let mut head = text.lines().filter_map(|line| line.strip_prefix("# "));
        let counts = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_once(' ').unwrap());
        Self {
            build: Build(head.next_back().unwrap_or_default().to_owned()),
            counts: counts
                .map(|(name, count)| (name.to_owned(), count.parse().unwrap()))
                .collect(),
        }
    }

    /// Prints every path. Fails for one that takes more than was agreed, and also for one that
    /// takes less: otherwise a gain could be lost again unseen.
    pub fn compare(&self, build: &Build, counts: &[(&str, u64)]) -> ExitCode {
        let known: BTreeSet<&str> = counts.iter().map(|(name, _)| *name).collect();
        let gone: Vec<&String> = self
            .counts
            .keys()
            .filter(|name| !known.contains(name.as_str()))
            .collect();
        gone.iter()
            .for_each(|name| println!("{name}: in the file, but not counted any more"));
        let failed = counts
            .iter()
            .filter(|(name, count)| !self.holds(name, *count))
            .count()
            + gone.len();
        println!("{} paths counted, {failed} not as agreed", counts.len());
        if failed == 0 {
            return ExitCode::SUCCESS;
        }
        if self.build != *build {
            println!(
                "The file was counted with {}; this is {}. The difference may be theirs.",
                self.build.0, build.0
            );
        }
        println!(
            "If this is meant, renew the file and say in the commit what the cost buys, or what saved it:\n{RENEW}"
        );
        ExitCode::FAILURE
    }

    fn holds(&self, name: &str, is: u64) -> bool {
        let Some(&was) = self.counts.get(name) else {
            println!("{name}: is {is}, and not in the file");
            return false;
        };
        let holds = is.abs_diff(was) * 100 <= was * TOLERANCE;
        let verdict = match holds {
            true => "as agreed",
            false if is > was => "MORE",
            false => "LESS",
        };
        let percent = (is as f64 / was as f64 - 1.0) * 100.0;
        println!("{name:24} was {was:7}, is {is:7} ({percent:+.1} %): {verdict}");
        holds
    }
}
