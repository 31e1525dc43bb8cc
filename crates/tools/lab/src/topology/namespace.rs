//! One network namespace and the process that holds it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The holder of the namespace: it prints a line once it is inside, then waits until its parent is gone.
const HOLDER: &str = "echo; exec cat";

/// A network namespace. It ends with this value, and with the programs that were started in it.
#[derive(Debug)]
pub struct Namespace {
    /// It has the other end of our pipe as its input, so it ends when we end, however that happens.
    holder: Child,
}

impl Namespace {
    /// A new one.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub(crate) fn new() -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", HOLDER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("unshare")?;

        let mut said = [0; 1];
        let output = holder.stdout.as_mut().context("the holder has no output")?;
        // The byte comes from inside: only now does /proc/PID/ns/net name the new namespace.
        if output.read(&mut said)? == 0 {
            let output = holder.wait_with_output()?;
            bail!(
                "a network namespace needs root: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }

        Ok(Self { holder })
    }

    /// The process that `ip` finds the namespace by.
    pub(super) fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// The file that stands for the namespace.
    pub fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// A command that runs `program` in the namespace. It ends with the thread that starts it, at the latest.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        let inside = format!("--net={}", self.path());
        command
            .args(["--pdeathsig", "KILL", "--", "nsenter", &inside, "--"])
            .arg(program);
        command
    }

    /// Runs a program in it to its end, and returns its output.
    ///
    /// # Errors
    /// With its output, when it fails.
    pub fn run<A: AsRef<OsStr>>(&self, words: &[A]) -> Result<String> {
        let (program, arguments) = words.split_first().context("no program is named")?;
        let mut command = self.command(program);
        finished(command.args(arguments), "")
    }

    /// Moves the calling thread into it, for good: sockets that it opens from now on are there.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn enter(&self) -> Result<()> {
        let file = File::open(self.path()).with_context(|| self.path())?;
        Ok(move_into_link_name_space(
            file.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    }

    /// Gives a device an address and takes it up.
    pub(crate) fn attach(&self, device: &str, address: &str) -> Result<()> {
        // No wait for duplicates of an address that no one else can have.
        let flags = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!(
            "addr add {address} dev {device}{flags}\nlink set dev {device} up\n"
        ))
    }

    /// Runs lines of `ip` in it.
    pub(crate) fn ip(&self, lines: &str) -> Result<()> {
        let mut command = self.command("ip");
        finished(command.args(["-batch", "-"]), lines).map(drop)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.holder.stdin.take());
        drop(self.holder.wait());
    }
}

/// Runs a command on some input and gives its output.
fn finished(command: &mut Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }

    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} on {input:?}: {said}{error}"
    );

    Ok(said.into_owned())
}
