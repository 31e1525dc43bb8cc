//! `hermes convert --from FORMAT FILE`: a configuration of another program as one of ours, and a list of what it does not have.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use hermes_config::{Loaded, Problem, Problems};
use hermes_convert::{Converted, Format, LONGEST, NewFile, NewFileContent, Note};
use serde_json::{Value, json};

use super::passwd;
use crate::failure::Failure;
use crate::output::{Output, note};

/// The name of standard input and output.
const STANDARD: &str = "-";

/// A file with a configuration, which may name secrets, or with a secret itself, is for its owner.
const MODE: u32 = 0o600;

/// Passwords that are hashed: each takes a twentieth of a second.
#[doc(alias = "bound")]
const USERS: usize = 1000;

/// Arguments of `hermes convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// Whose configuration the file is: envoy, sing-box, wireguard or pac.
    #[arg(long, value_name = "FORMAT")]
    from: Format,
    /// The file; `-` is standard input.
    file: PathBuf,
    /// Where the configuration is written, with the files of keys and passwords that it names beside it. Default: standard output, and
    /// no other file.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Converts a file, and lists the parts that were left out.
///
/// # Errors
/// With exit code 1 if something was left out, or the result has to be mended; with 2 if the file cannot be read or converted.
pub fn run(command: &Convert, output: Output) -> Result<(), Failure> {
    let bytes = read(&command.file)?;
    let name = command.file.display().to_string();
    let beside = |named: &str| read_beside(&command.file, named);
    let converted = hermes_convert::convert_beside(command.from, &bytes, &beside);
    let mut converted = converted.map_err(|error| {
        let place = error
            .line
            .map(|line| format!("{line}: "))
            .unwrap_or_default();
        let reason = format!("{name}:{place}{}", error.reason);
        Failure::invalid(reason).remedy(format!("it has to be {}", command.from.title()))
    })?;

    let unreachable = unreachable(&problems(None, &converted.yaml()));
    converted.remove_unreachable(&unreachable);
    let yaml = converted.yaml();
    if let Some(to) = &command.to {
        write_all(to, &yaml, &converted.files)?;
    }
    let problems = problems(command.to.as_deref(), &yaml);
    match output.json {
        true => output.value(&as_json(command, &yaml, &converted, &problems)),
        false => show(command, &name, &yaml, &converted, &problems, output),
    }

    match converted.is_partial() || !problems.is_empty() {
        true => Err(Failure::told(1)),
        false => Ok(()),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::invalid(format!("{}: {error}", file.display()));
    let mut bytes = Vec::new();
    // One byte more than may be, which the converter refuses.
    let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX) + 1;
    match file == Path::new(STANDARD) {
        true => io::stdin().take(limit).read_to_end(&mut bytes),
        false => fs::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes)),
    }
    .map_err(failed)?;
    Ok(bytes)
}

/// A file that the source names: relative to it, if it says no folder of its own.
fn read_beside(source: &Path, named: &str) -> Result<Vec<u8>, String> {
    let folder = source.parent().unwrap_or(Path::new(""));
    let path = folder.join(named);
    let told = |error: io::Error| format!("{}: {error}", path.display());
    // A pipe might never end, and a device has no end.
    if !fs::metadata(&path).map_err(told)?.is_file() {
        return Err(format!("{}: it is not a file", path.display()));
    }
    let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX) + 1;
    let mut bytes = Vec::new();
    let opened = fs::File::open(&path).map_err(told)?;
    opened.take(limit).read_to_end(&mut bytes).map_err(told)?;
    Ok(bytes)
}

/// Writes the configuration and the files beside it, and replaces no file.
fn write_all(to: &Path, yaml: &str, files: &[NewFile]) -> Result<(), Failure> {
    let folder = to.parent().unwrap_or(Path::new(""));
    for file in files {
        let path = folder.join(&file.name);
        create(&path, &content(&file.content)?)?;
    }
    create(to, yaml)
}

fn create(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let failure = Failure::failed(format!("{}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::AlreadyExists => {
                failure.remedy("move it away, or write to another folder")
            }
            _ => failure,
        }
    })
}

fn content(content: &NewFileContent) -> Result<String, Failure> {
    let users = match content {
        NewFileContent::Secret(text) => return Ok(text.clone()),
        NewFileContent::Users(users) => users,
    };
    if users.len() > USERS {
        let reason = format!(
            "it has {} users; {USERS} are converted at most",
            users.len()
        );
        return Err(Failure::invalid(reason));
    }
    let mut lines = String::new();
    for user in users {
        passwd::check_user(&user.name)?;
        lines.push_str(&passwd::new_line(&user.name, &user.password)?);
        lines.push('\n');
    }
    Ok(lines)
}

/// The problems that `hermes check` finds in the result, with the files that it names where it was written to a file.
fn problems(to: Option<&Path>, yaml: &str) -> Vec<Problem> {
    let place = to.unwrap_or(Path::new("hermes.yaml"));
    let loaded = hermes_config::parse(place, yaml, &|_| None);
    let checked = loaded.and_then(|loaded| match to {
        Some(_) => crate::plugs::check(loaded),
        None => Err(linted(&loaded)),
    });
    match checked {
        Ok(()) => Vec::new(),
        Err(Problems(problems)) => problems,
    }
}

/// The problems in the meaning of a document, whatever is in the files that it names.
fn linted(loaded: &Loaded) -> Problems {
    let found = hermes_rules::lint(&loaded.document).into_iter();
    Problems(found.map(|problem| loaded.places.placed(problem)).collect())
}

/// The routes that `check` refuses because they can never match.
fn unreachable(problems: &[Problem]) -> Vec<usize> {
    let index = |problem: &Problem| {
        let index = problem.path.strip_prefix("routes[")?.strip_suffix(']')?;
        let never = problem.reason.starts_with("the route can never match");
        index.parse().ok().filter(|_| never)
    };
    problems.iter().filter_map(index).collect()
}

fn show(
    command: &Convert,
    name: &str,
    yaml: &str,
    converted: &Converted,
    problems: &[Problem],
    output: Output,
) {
    match &command.to {
        Some(to) => output.line(format_args!("wrote {}", to.display())),
        None => output.raw(yaml),
    }
    for one in &converted.notes {
        note(format_args!("{name}:{one}"));
    }
    for file in &converted.files {
        match &command.to {
            Some(to) => {
                let path = to.parent().unwrap_or(Path::new("")).join(&file.name);
                note(format_args!(
                    "wrote {}, which its owner alone may read",
                    path.display()
                ));
            }
            None => note(format_args!(
                "{} was not written: `--to FILE` does",
                file.name
            )),
        }
    }
    for problem in problems {
        note(format_args!("to mend: {problem}"));
    }
}

fn as_json(command: &Convert, yaml: &str, converted: &Converted, problems: &[Problem]) -> Value {
    let one = |note: &Note| json!({ "line": note.line, "loss": note.loss.word(), "subject": note.subject, "reason": note.reason });
    let notes: Vec<Value> = converted.notes.iter().map(one).collect();
    let files: Vec<&str> = converted
        .files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    json!({
        "from": command.from.word(),
        "file": command.file,
        "to": command.to,
        "config": yaml,
        "notes": notes,
        "files": files,
        "problems": problems,
        "complete": !converted.is_partial(),
    })
}
