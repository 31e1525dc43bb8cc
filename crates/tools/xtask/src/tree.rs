//! The repository as the checks see it: its text files, parsed Rust views, and cargo's metadata.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::rust::Rust;

/// Everything the checks look at, read once.
pub struct Tree {
    /// The repository's top folder.
    pub root: PathBuf,
    /// Every text file that git tracks or would track.
    pub files: Vec<File>,
    /// `cargo metadata --no-deps`.
    pub metadata: Value,
}

/// One text file.
pub struct File {
    /// Path relative to the repository, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
    /// Its lexical views, when it is Rust.
    pub rust: Option<Rust>,
}

impl File {
    /// A file with its views.
    pub fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs").then(|| Rust::scan(text));
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            rust,
        }
    }

    /// Is this Rust code that ships, in contrast to code that only tests use?
    pub fn is_production(&self) -> bool {
        let test_only = self.path.starts_with("crates/tools/tests/")
            || self.path.starts_with("crates/tools/harness/")
            || ["/tests/", "/benches/", "/examples/", "/fuzz/"]
                .iter()
                .any(|folder| self.path.contains(folder))
            || ["/tests.rs", "/fuzz.rs"]
                .iter()
                .any(|name| self.path.ends_with(name))
            || self.path.ends_with("_tests.rs");
        self.rust.is_some() && self.in_src() && !test_only
    }

    /// Is this a source file of a crate?
    pub fn in_src(&self) -> bool {
        self.path.starts_with("crates/") && self.path.contains("/src/")
    }
}

impl Tree {
    /// Reads the repository that this crate stands in.
    ///
    /// # Errors
    /// A sentence, when cargo or git cannot be run or a file cannot be read.
    pub fn read() -> Result<Self, String> {
        let metadata = metadata()?;
        let root = metadata["workspace_root"]
            .as_str()
            .ok_or("cargo metadata names no workspace_root")?;
        let root = PathBuf::from(root);
        let files = tracked(&root)?
            .into_iter()
            .filter_map(|path| read(&root, &path).transpose());

        Ok(Self {
            files: files.collect::<Result<_, _>>()?,
            root,
            metadata,
        })
    }
}

fn metadata() -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let output = run(command.args(["metadata", "--format-version", "1", "--no-deps"]))?;
    serde_json::from_slice(&output).map_err(|error| format!("cargo metadata is not JSON: {error}"))
}

/// Files in git's index, and new ones that are not ignored: the content of the next commit.
fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new("git");
    command.current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);

    let output = String::from_utf8(run(&mut command)?)
        .map_err(|_| "git lists a file name that is not UTF-8")?;
    Ok(output.split_terminator('\0').map(str::to_owned).collect())
}

/// The file, or nothing where it was deleted or is not text.
fn read(root: &Path, path: &str) -> Result<Option<File>, String> {
    let full = root.join(path);
    if !full.is_file() {
        return Ok(None);
    }

    let bytes = std::fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
    Ok(String::from_utf8(bytes)
        .ok()
        .map(|text| File::new(path, &text)))
}

/// Runs a command, and returns its output.
///
/// # Errors
/// A sentence, with the command's standard error.
pub fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }

    Err(format!(
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shipped_rust_is_production() {
        let production = |path| File::new(path, "").is_production();
        assert!(production("crates/wire/proto/src/lib.rs"));
        assert!(production("crates/wire/proto/src/h1/decoder.rs"));
        for path in [
            "crates/wire/proto/src/h1/tests.rs",
            "crates/wire/proto/src/tests/decoder.rs",
            "crates/wire/proto/tests/vectors.rs",
            "crates/tools/tests/src/lib.rs",
            "crates/wire/proto/Cargo.toml",
            "README.md",
        ] {
            assert!(!production(path), "{path}");
        }
    }
}
