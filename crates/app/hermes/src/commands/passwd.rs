//! `hermes passwd FILE USER`: a line of the file that `auth.basic` names.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Output, note};

/// Cost of a hash: some 50 ms of a processor for each check.
const COST: u32 = 10;

/// The longest password: bcrypt reads no more of it.
const LONGEST: usize = 72;

/// Arguments of `hermes passwd`.
#[derive(Debug, Args)]
pub struct Passwd {
    /// The file of users, as `auth.basic.file` of a listener names it; it is made if need be.
    file: PathBuf,
    /// The user.
    user: String,
    /// Remove the user instead.
    #[arg(long)]
    remove: bool,
}

/// Adds a user, changes a password, or removes a user. The password is asked for at a terminal, else it is the first line of standard
/// input.
///
/// # Errors
/// The name or the password cannot be used, or the file cannot be read or written.
pub fn run(command: &Passwd, output: Output) -> Result<(), Failure> {
    check_user(&command.user)?;
    let before = read(&command.file)?;
    let is_known = before.lines().any(|line| is_of(line, &command.user));
    if command.remove && !is_known {
        let reason = format!("{} has no user {}", command.file.display(), command.user);
        return Err(Failure::failed(reason));
    }

    let line = match command.remove {
        true => None,
        false => Some(new_line(&command.user, &password()?)?),
    };
    let after = with_line(&before, &command.user, line.as_deref());
    write(&command.file, &after)?;

    let done = match (command.remove, is_known) {
        (true, _) => "removed",
        (false, true) => "changed",
        (false, false) => "added",
    };
    if output.json {
        output.value(&json!({ "file": command.file, "user": command.user, "action": done }));
    } else {
        output.line(format_args!(
            "{done} {} in {}",
            command.user,
            command.file.display()
        ));
    }
    Ok(())
}

/// A user stands before the first colon of a line, in visible ASCII.
pub(super) fn check_user(user: &str) -> Result<(), Failure> {
    let is_plain = user
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b':');
    if is_plain && (1..=256).contains(&user.len()) && !user.starts_with('#') {
        return Ok(());
    }
    Err(Failure::invalid(
        "a user is 1 to 256 visible ASCII characters without a colon, and does not begin with #",
    ))
}

fn read(file: &Path) -> Result<String, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed(file, &error)),
    }
}

pub(super) fn new_line(user: &str, password: &str) -> Result<String, Failure> {
    if password.is_empty() || password.len() > LONGEST {
        let reason = format!("a password has 1 to {LONGEST} bytes");
        return Err(Failure::invalid(reason));
    }

    let hash = bcrypt::hash(password, COST).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(format!("{user}:{hash}"))
}

/// The text with the user's line changed, added or left out; other lines and comments stay as they are.
fn with_line(before: &str, user: &str, line: Option<&str>) -> String {
    let mut lines: Vec<&str> = before.lines().collect();
    match (lines.iter().position(|known| is_of(known, user)), line) {
        (Some(at), Some(line)) => lines[at] = line,
        (Some(at), None) => drop(lines.remove(at)),
        (None, Some(line)) => lines.push(line),
        (None, None) => {}
    }

    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn is_of(line: &str, user: &str) -> bool {
    line.split_once(':')
        .is_some_and(|(known, _)| known.trim() == user)
}

/// Replaces the file as a whole, readable by its owner alone if it is new.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let io_failed = |error: io::Error| failed(file, &error);
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut new =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(io_failed)?;
    let mode = fs::metadata(file).map_or(0o600, |known| known.permissions().mode());
    let permissions = fs::Permissions::from_mode(mode);
    new.as_file()
        .set_permissions(permissions)
        .map_err(io_failed)?;
    new.write_all(text.as_bytes()).map_err(io_failed)?;
    new.as_file().sync_all().map_err(io_failed)?;
    new.persist(file)
        .map_err(|error| failed(file, &error.error))?;

    Ok(())
}

fn failed(file: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", file.display()))
}

fn password() -> Result<String, Failure> {
    let unread =
        |error: io::Error| Failure::failed(format!("the password cannot be read: {error}"));
    if !io::stdin().is_terminal() {
        return first_line().map_err(unread);
    }

    let first = asked("Password: ").map_err(unread)?;
    let again = asked("Once more: ").map_err(unread)?;
    if first == again {
        Ok(first)
    } else {
        Err(Failure::failed("the two passwords differ"))
    }
}

fn first_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Asks at the terminal, with its echo off.
fn asked(prompt: &str) -> io::Result<String> {
    let before = tcgetattr(io::stdin())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    write!(io::stderr(), "{prompt}")?;
    tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
    let line = first_line();
    tcsetattr(io::stdin(), OptionalActions::Flush, &before)?;
    // The line's end was not shown either.
    note("");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_changed_and_removed_and_the_others_stay() {
        let one = with_line("# users\nbob:x\n", "alice", Some("alice:y"));
        assert_eq!(one, "# users\nbob:x\nalice:y\n");
        assert_eq!(
            with_line(&one, "bob", Some("bob:z")),
            "# users\nbob:z\nalice:y\n"
        );
        assert_eq!(with_line(&one, "bob", None), "# users\nalice:y\n");
    }

    #[test]
    fn a_hash_is_one_that_listeners_take() {
        let line = new_line("alice", "secret").unwrap();
        let hash = line.strip_prefix("alice:").unwrap();
        assert!(hash.starts_with("$2b$10$") && bcrypt::verify("secret", hash).unwrap());
        assert!(new_line("alice", "").is_err());
        assert!(new_line("alice", &"x".repeat(LONGEST + 1)).is_err());
    }

    #[test]
    fn names_that_no_line_can_have_are_refused() {
        for user in ["", "a:b", "a b", "#a", "\u{e9}"] {
            assert!(check_user(user).is_err(), "{user}");
        }
        assert!(check_user("alice@example.com").is_ok());
    }
}
