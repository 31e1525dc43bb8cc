//! The tuned build: `hermes` as `--profile dist` builds it, laid out by a profile of running nodes.
//!
//! A first build counts which branches are taken. The lab has its nodes carry exchanges, tunnels, datagrams, IP packets and decisions, and
//! the second build puts together what is needed often, and inlines it. A node is many small functions, of which an exchange takes a few
//! hundred, so that most of its time outside the kernel is waiting for code that lies far apart.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::say;

/// The load while nodes are profiled: words of the lab. Code outside this load is laid out to be small, not fast.
const LOADS: [&[&str]; 3] = [
    &[
        "overhead",
        "--systems",
        "hermes",
        "--only",
        "latency,burst,saturation,bulk,datagrams",
    ],
    &["policy", "--systems", "hermes,native10,rego"],
    &["ip", "--systems", "hermes-h2,hermes-h3,hermes-super"],
];

/// The share of all counts that hot code must cover, of a million.
const HOT: u32 = 999_000;

/// The folder of each step's output.
struct Steps {
    folder: PathBuf,
    /// The machine that is built for, as rustc names it.
    host: String,
    profdata: PathBuf,
}

/// Builds `target/tuned/hermes`.
///
/// # Errors
/// When a step fails: the reason, and the remedy.
pub fn run() -> Result<(), String> {
    let steps = Steps::new()?;
    say("1 of 4: a build that counts");
    let counting = steps.build_counting()?;

    say("2 of 4: the lab's loads on its nodes");
    for load in LOADS {
        steps.measure(load, &counting)?;
    }

    say("3 of 4: what was counted");
    let profile = steps.merge()?;

    say("4 of 4: the build that is laid out by it");
    let tuned = steps.build_by(&profile)?;
    say(&format!("{}", tuned.display()));
    Ok(())
}

impl Steps {
    fn new() -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let folder = std::path::absolute(Path::new(&target).join("tuned"));
        let folder = folder.map_err(|error| format!("{}: {error}", target.display()))?;

        // Said before the first build, not after it.
        if said_by("id", &["-u"])?.trim() != "0" {
            return Err("the lab lays networks of its own: run this as root".to_owned());
        }

        let said = said_by("rustc", &["-vV"])?;
        let host = said.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or("rustc -vV names no host")?.to_owned();
        let root = said_by("rustc", &["--print", "sysroot"])?;
        let tools = Path::new(root.trim()).join("lib/rustlib").join(&host);
        let profdata = tools.join("bin/llvm-profdata");
        if !profdata.exists() {
            let missing = profdata.display();
            return Err(format!(
                "{missing} is missing: rustup component add llvm-tools"
            ));
        }

        Ok(Self {
            folder,
            host,
            profdata,
        })
    }

    /// Where the nodes leave their counts.
    fn counts(&self) -> String {
        self.folder.join("counts").display().to_string()
    }

    fn build_counting(&self) -> Result<PathBuf, String> {
        let counts = self.counts();
        if Path::new(&counts).exists() {
            fs::remove_dir_all(&counts).map_err(|error| format!("{counts}: {error}"))?;
        }

        let flags = format!("-Cprofile-generate={counts}");
        self.build("hermes-counting", &flags, &[])
    }

    /// Code of an exchange runs ten thousand times, while a checksum counts by the byte: with the usual hundredth left out, exchanges
    /// are just at the bound of what is hot.
    ///
    /// The names of functions, by which counts are found again, are those of the first build, as the profile of cargo is the same. So
    /// the program as a whole is optimised by rustc's own flags.
    fn build_by(&self, profile: &Path) -> Result<PathBuf, String> {
        let flags = format!(
            "-Cprofile-use={} -Cembed-bitcode=yes -Cllvm-args=-profile-summary-cutoff-hot={HOT}",
            profile.display()
        );
        self.build("hermes", &flags, &["-Clto=fat"])
    }

    /// Builds with these flags for all crates and those for the last, and gives the program a name of its own.
    fn build(&self, name: &str, flags: &str, last: &[&str]) -> Result<PathBuf, String> {
        let given = std::env::var("RUSTFLAGS").unwrap_or_default();
        let mut cargo = Command::new("cargo");
        cargo.args(["rustc", "--profile", "tuned", "-p", "hermes"]);
        // With `--target`, build scripts and macros are built as usual.
        cargo.args(["--bin", "hermes", "--target", &self.host]);
        cargo.arg("--target-dir").arg(&self.folder);
        cargo.arg("--").args(last);
        succeeded(cargo.env("RUSTFLAGS", format!("{given} {flags}")))?;

        let built = self.folder.join(&self.host).join("tuned/hermes");
        let named = self.folder.join(name);
        let copied = fs::copy(&built, &named);
        copied.map_err(|error| format!("{}: {error}", built.display()))?;
        Ok(named)
    }

    /// Has the lab put a load on nodes of this build.
    fn measure(&self, load: &[&str], build: &Path) -> Result<(), String> {
        let mut lab = Command::new("cargo");
        lab.args(["run", "--release", "-p", "hermes-lab", "--"]);
        lab.args(load).args(["--short", "--repeats", "1"]);
        lab.arg("--hermes").arg(build);
        lab.env("LLVM_PROFILE_FILE", self.folder.join("counts/%p.profraw"));
        succeeded(&mut lab)
    }

    /// Merges the counts of all nodes.
    fn merge(&self) -> Result<PathBuf, String> {
        let counts = self.counts();
        let read = fs::read_dir(&counts).map_err(|error| format!("{counts}: {error}"))?;
        let files: Vec<OsString> = read
            .flatten()
            .map(|entry| entry.path().into_os_string())
            .filter(|path| path.to_string_lossy().ends_with(".profraw"))
            .collect();
        if files.is_empty() {
            return Err(format!("{counts} is empty: no node came to a proper end"));
        }

        let profile = self.folder.join("counts.profdata");
        let mut merge = Command::new(&self.profdata);
        succeeded(merge.args(["merge", "-o"]).arg(&profile).args(files))?;
        Ok(profile)
    }
}

/// Runs a program to its end, with its output on the terminal.
fn succeeded(program: &mut Command) -> Result<(), String> {
    let name = program.get_program().to_string_lossy().into_owned();
    match program.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

fn said_by(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
