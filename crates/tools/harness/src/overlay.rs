//! An overlay with a controller: processes as an operator and users start them, each with a folder of its own.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::etcd::Etcd;
use crate::eventually::eventually;
use crate::peak::peak;
use crate::{free, program, small_disk};

/// A controller, which is the node `hub`, too.
#[derive(Debug)]
pub struct Hub {
    /// It is the node `hub`.
    is_node: bool,
    folder: TempDir,
    agents: SocketAddr,
    exchanges: SocketAddr,
    /// Where it shares a store with others.
    store: Vec<String>,
    /// Bytes of the disk of its own that its state is on.
    disk: Option<usize>,
    process: Option<Child>,
}

/// A member of an overlay in a process of its own.
#[derive(Debug)]
pub struct Joined {
    folder: TempDir,
    /// Where programs of a device speak to it.
    pub web: SocketAddr,
    arguments: Vec<String>,
    machine: Machine,
    process: Option<Child>,
}

/// The machine that a member seems to run on.
#[derive(Debug, Clone, Copy)]
pub enum Machine {
    /// This one.
    Usual,
    /// One whose clock is so far off, such as `+1d`.
    WithClock(&'static str),
    /// One whose disk has so many bytes. As root.
    WithDisk(usize),
}

impl Hub {
    /// Starts one, and waits until it answers.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start() -> Self {
        Self::start_as(true, None, Vec::new())
    }

    /// The same of an overlay of this name.
    ///
    /// # Panics
    /// When it does not start.
    pub fn of_overlay(name: &str) -> Self {
        let arguments = ["--overlay", name].map(str::to_owned);
        Self::start_as(true, None, arguments.into())
    }

    /// Starts a controller that is no node.
    ///
    /// # Panics
    /// When it does not start.
    pub fn controller() -> Self {
        Self::start_as(false, None, Vec::new())
    }

    /// The same, whose state is on a disk of its own of so many bytes. As root.
    ///
    /// # Panics
    /// When it does not start.
    pub fn controller_on_disk(bytes: usize) -> Self {
        Self::start_as(false, Some(bytes), Vec::new())
    }

    /// Starts one of the controllers of an overlay in etcd.
    ///
    /// # Panics
    /// When it does not start.
    pub fn one_of(etcd: &Etcd, overlay: &str) -> Self {
        Self::start_as(false, None, etcd.arguments(overlay))
    }

    /// The same, which nodes reach at this address, free for any port of their own.
    ///
    /// # Panics
    /// When it does not start.
    pub fn one_of_at(etcd: &Etcd, overlay: &str, address: IpAddr) -> Self {
        let mut hub = Self::made(false, None, etcd.arguments(overlay));
        hub.agents.set_ip(address);
        hub.run();
        hub
    }

    fn start_as(is_node: bool, disk: Option<usize>, store: Vec<String>) -> Self {
        let mut hub = Self::made(is_node, disk, store);
        hub.run();
        hub
    }

    fn made(is_node: bool, disk: Option<usize>, store: Vec<String>) -> Self {
        Self {
            is_node,
            disk,
            folder: tempfile::tempdir().unwrap(),
            agents: free::tcp(),
            exchanges: free::tcp(),
            store,
            process: None,
        }
    }

    /// Starts its process.
    ///
    /// # Panics
    /// When it does not start.
    pub fn run(&mut self) {
        self.run_with(&[]);
    }

    fn run_with(&mut self, rest: &[&str]) {
        let url = self.url();
        let arguments = [
            "controller",
            "--listen",
            &self.agents.to_string(),
            "--url",
            &url,
            "--node-listen",
            &self.exchanges.to_string(),
            "--state",
            &self.state(),
        ];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        arguments.extend(self.store.iter().cloned());
        arguments.extend(rest.iter().map(|&rest| rest.to_owned()));
        if self.is_node {
            arguments.extend(["--node", "hub"].map(str::to_owned));
        }
        let command = match self.disk {
            None => program::command(),
            Some(bytes) => small_disk::command(&self.state_folder(), bytes),
        };
        self.process = Some(spawn_by(command, self.folder.path(), &arguments));
        eventually("the controller answers", || self.ask(&["nodes"]));
        if self.is_node {
            self.await_step("hub");
        }
    }

    /// A controller with the state of a backup, in the place of this one, whose state is lost.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn restored(self, backup: &Path) -> Self {
        self.restored_into(Vec::new(), backup)
    }

    /// As [`restored`](Self::restored), with a store that these arguments name.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn restored_into(mut self, store: Vec<String>, backup: &Path) -> Self {
        self.kill();
        std::fs::remove_dir_all(self.state()).unwrap();
        let mut restored = Self {
            is_node: self.is_node,
            disk: self.disk,
            folder: tempfile::tempdir().unwrap(),
            agents: self.agents,
            exchanges: self.exchanges,
            store,
            process: None,
        };
        restored.run_with(&["--restore", backup.to_str().unwrap()]);
        restored
    }

    /// The controller as nodes reach it.
    pub fn url(&self) -> String {
        format!("https://{}", self.agents)
    }

    /// Its folder for state.
    pub fn state(&self) -> String {
        self.state_folder().display().to_string()
    }

    fn state_folder(&self) -> PathBuf {
        self.folder.path().join("controller")
    }

    /// Fills the disk that its state is on.
    ///
    /// # Panics
    /// When it does not run, or has no disk of its own.
    pub fn fill_disk(&self) {
        small_disk::fill(self.process.as_ref().unwrap().id(), &self.state_folder());
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// As [`fill_disk`](Self::fill_disk).
    pub fn empty_disk(&self) {
        small_disk::empty(self.process.as_ref().unwrap().id(), &self.state_folder());
    }

    /// Where nodes and devices reach the node `hub`.
    pub fn exchanges(&self) -> SocketAddr {
        self.exchanges
    }

    /// Where agents reach it.
    pub fn agents(&self) -> SocketAddr {
        self.agents
    }

    /// Runs a command for operators with `--json`; `None` if it fails.
    pub fn ask(&self, arguments: &[&str]) -> Option<Value> {
        let said = self.say(arguments);
        (said.code == 0).then(|| serde_json::from_str(&said.stdout).unwrap_or_default())
    }

    /// Runs a command for operators with `--json`.
    pub fn say(&self, arguments: &[&str]) -> program::Said {
        let arguments = self.for_operators(arguments);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        program::run(&arguments)
    }

    /// Its socket for operators, also where its disk is its own.
    fn socket(&self) -> String {
        let socket = format!("{}/controller.sock", self.state());
        match (&self.disk, &self.process) {
            (Some(_), Some(process)) => format!("/proc/{}/root{socket}", process.id()),
            _ => socket,
        }
    }

    /// A command for operators, whose answer is `--json`.
    fn for_operators(&self, arguments: &[&str]) -> Vec<String> {
        let socket = self.socket();
        let rest = ["--controller", &socket, "--json"];
        let arguments = arguments.iter().copied().chain(rest);
        arguments.map(str::to_owned).collect()
    }

    /// A member as `hermes nodes` lists it.
    pub fn node(&self, name: &str) -> Option<Value> {
        let nodes = self.ask(&["nodes"])?;
        let mut nodes = nodes.as_array()?.iter();
        nodes.find(|node| node["node"] == name).cloned()
    }

    /// A token for a device of this user.
    ///
    /// # Panics
    /// When there is none.
    pub fn token(&self, user: &str) -> String {
        let made = self.ask(&["token", "create", "--user", user]).unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    /// A device of this user, which runs and is in step.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn device(&self, user: &str, name: &str) -> Joined {
        let token = self.token(user);
        let joined = Joined::start(&self.url(), &token, name);
        self.await_step(name);
        joined
    }

    /// A node of the overlay's own, which runs and is in step.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn member(&self, name: &str) -> Joined {
        self.member_at(name, &self.url())
    }

    /// The same, which reaches the controller at this URL.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn member_at(&self, name: &str, url: &str) -> Joined {
        let made = self.ask(&["token", "create", "--name", name]).unwrap();
        let joined = Joined::start(url, made["token"].as_str().unwrap(), name);
        self.await_step(name);
        joined
    }

    /// Applies a text of resources.
    ///
    /// # Panics
    /// When the controller refuses it.
    pub fn apply(&self, text: &str, arguments: &[&str]) {
        let said = self.try_apply(text, arguments);
        assert_eq!(said.code, 0, "{said:?}");
    }

    /// Applies a text of resources, if the controller takes it.
    ///
    /// # Panics
    /// When the text cannot be written to a file.
    pub fn try_apply(&self, text: &str, arguments: &[&str]) -> program::Said {
        let file = self.file_of(text);
        self.say(&[&["apply", &file], arguments].concat())
    }

    /// Begins to apply a text of resources.
    ///
    /// # Panics
    /// When no process can be started.
    pub fn begin_apply(&self, text: &str, arguments: &[&str]) -> Child {
        let file = self.file_of(text);
        let arguments = self.for_operators(&[&["apply", &file], arguments].concat());
        spawn(self.folder.path(), &arguments)
    }

    fn file_of(&self, text: &str) -> String {
        let file = self.folder.path().join("overlay.yaml");
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Waits until a member has what it should have.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn await_step(&self, name: &str) {
        eventually("a member is in step", || self.node(name).filter(in_step));
    }

    /// Whether a member has what it should have.
    pub fn is_in_step(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| in_step(&node))
    }

    /// Sends its process a signal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: Signal) {
        send(self.process.as_ref().unwrap(), signal);
    }

    /// The most memory that its process has had, in bytes.
    ///
    /// # Panics
    /// When it does not run.
    pub fn peak(&self) -> usize {
        peak(self.process.as_ref().unwrap().id()).unwrap()
    }

    /// Kills its process, without a chance to tidy up.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

/// Whether a member has what it should have.
fn in_step(node: &Value) -> bool {
    node["attends"] == true && node["state"] == "in step"
}

impl Joined {
    /// Joins and runs.
    pub fn start(url: &str, token: &str, name: &str) -> Self {
        Self::start_with(url, token, name, &[])
    }

    /// The same, with these arguments, too.
    pub fn start_with(url: &str, token: &str, name: &str, rest: &[&str]) -> Self {
        Self::start_as(Machine::Usual, url, token, name, rest)
    }

    /// The same, on this machine.
    pub fn start_on(machine: Machine, url: &str, token: &str, name: &str) -> Self {
        Self::start_as(machine, url, token, name, &[])
    }

    fn start_as(machine: Machine, url: &str, token: &str, name: &str, rest: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let web = free::tcp();
        let state = folder.path().join("node");
        let arguments = [
            "join",
            url,
            "--token",
            token,
            "--name",
            name,
            "--web",
            &web.to_string(),
            "--state",
            &state.display().to_string(),
        ];
        let mut joined = Self {
            web,
            arguments: arguments
                .into_iter()
                .chain(rest.iter().copied())
                .map(str::to_owned)
                .collect(),
            machine,
            folder,
            process: None,
        };
        joined.run();
        joined
    }

    /// Starts its process with the same command.
    pub fn run(&mut self) {
        let command = match self.machine {
            Machine::Usual => program::command(),
            Machine::WithClock(off) => clocked(off),
            Machine::WithDisk(bytes) => small_disk::command(&self.state(), bytes),
        };
        self.process = Some(spawn_by(command, self.folder.path(), &self.arguments));
    }

    /// Fills the disk that its state is on.
    ///
    /// # Panics
    /// When it does not run, or has no disk of its own.
    pub fn fill_disk(&self) {
        small_disk::fill(self.process.as_ref().unwrap().id(), &self.state());
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// As [`fill_disk`](Self::fill_disk).
    pub fn empty_disk(&self) {
        small_disk::empty(self.process.as_ref().unwrap().id(), &self.state());
    }

    /// Starts its process as one that has joined.
    pub fn run_again(&mut self) {
        let state = self.state().display().to_string();
        self.arguments = ["join", "--state", &state].map(str::to_owned).to_vec();
        self.run();
    }

    /// Kills its process, without a chance to tidy up.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Sends its process a signal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: Signal) {
        send(self.process.as_ref().unwrap(), signal);
    }

    /// The folder of its state.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("node")
    }

    /// What its process wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The exit code, once it has ended by itself.
    pub fn ended(&mut self) -> Option<i32> {
        let ended = self.process.as_mut()?.try_wait().ok()??;
        ended.code()
    }
}

fn send(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

/// Runs the program with a clock that is so far off; nothing else of the machine is changed.
fn clocked(clock: &str) -> Command {
    let faketime = std::env::var_os("HERMES_FAKETIME").unwrap_or_else(|| "faketime".into());
    // The library that it puts before others; under `faketime` itself the program would be a child, which no signal reaches.
    let library = Command::new(faketime)
        .args(["-f", clock, "sh", "-c", "printf %s \"$LD_PRELOAD\""])
        .output()
        .unwrap();
    let mut command = program::command();
    command
        .env("LD_PRELOAD", String::from_utf8(library.stdout).unwrap())
        .env("FAKETIME", clock);
    command
}

fn spawn(folder: &Path, arguments: &[String]) -> Child {
    spawn_by(program::command(), folder, arguments)
}

fn spawn_by(mut command: Command, folder: &Path, arguments: &[String]) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    command
        .args(arguments)
        .env("XDG_RUNTIME_DIR", folder)
        .env("XDG_STATE_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().unwrap()
}

/// Ends a process kindly; where the test has failed, its log is shown.
fn end(process: Option<Child>, folder: &Path) {
    if std::thread::panicking() {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        eprintln!("{}:\n{log}", folder.display());
    }
    let Some(mut process) = process else {
        return;
    };
    if let Some(pid) = Pid::from_raw(process.id().cast_signed()) {
        // One that has ended needs no signal.
        let _ = kill_process(pid, Signal::TERM);
    }
    let _ = process.wait();
}

impl Drop for Hub {
    fn drop(&mut self) {
        end(self.process.take(), self.folder.path());
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        end(self.process.take(), self.folder.path());
    }
}
