//! A node: `hermes run` on a file of its own.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually, found};
use crate::{named, peak, program};

/// Keys that every node needs; a test's own win.
const DEFAULTS: [(&str, &str); 5] = [
    ("version", "1"),
    // Without it, a test that is not root's could not count descriptors.
    ("debug", "{ core_dumps: true }"),
    ("admin", "{ socket: admin.sock }"),
    (
        "log",
        "{ level: \"hermes_proxy=debug,info\", access: { file: access.json } }",
    ),
    ("workers", "2"),
];

/// The file of [`Node::forward_proxy`].
const FORWARD_PROXY: &str = r#"
    listeners: { web: { http: 127.0.0.1:0 } }
    routes: [ { terminate: true } ]
    egress: { allow: [127.0.0.0/8, "::1/128"] }
"#;

/// A running node. Dropping it ends the process; if the test has failed, its log is shown.
#[derive(Debug)]
pub struct Node {
    name: String,
    folder: TempDir,
    process: Child,
    /// Bytes of records that were there when this process began.
    earlier: usize,
}

impl Node {
    /// Starts a node and waits until it is healthy.
    ///
    /// `yaml` may be indented. Keys that it lacks are added at its end: `version`, `node`, `admin`, `log` (with access
    /// records to a file), `workers`. Relative paths in it are relative to [`Self::folder`]. Listeners should ask for port 0.
    ///
    /// # Panics
    /// With the node's log when it does not start.
    pub fn start(name: &str, yaml: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), name, yaml, &[])
    }

    /// Starts a node with the listener `web`, which forwards for any client on this machine to any origin on it.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn forward_proxy() -> Self {
        Self::start("alice", FORWARD_PROXY)
    }

    /// As [`Self::start`], in a folder that the test has prepared, and with these variables in its environment.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_in(folder: TempDir, name: &str, yaml: &str, environment: &[(&str, &str)]) -> Self {
        let file = folder.path().join("node.yaml");
        fs::write(&file, complete(name, yaml)).unwrap();
        let process = spawn(folder.path(), environment);
        let mut node = Self {
            name: name.to_owned(),
            folder,
            process,
            earlier: 0,
        };

        node.await_health();
        node
    }

    /// As [`Self::start`], with these arguments after the file.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_with(name: &str, yaml: &str, arguments: &[&str]) -> Self {
        Self::start_with_by(program::command(), name, yaml, arguments)
    }

    /// As [`Self::start_with`], by a command that runs the program somewhere else.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_with_by(command: Command, name: &str, yaml: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("node.yaml"), complete(name, yaml)).unwrap();
        let process = spawn_with(command, folder.path(), &[], arguments);
        let mut node = Self {
            name: name.to_owned(),
            folder,
            process,
            earlier: 0,
        };

        node.await_health();
        node
    }

    /// As [`Self::start`], by a command that runs the program somewhere else, e.g. in a network namespace.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_by(command: Command, name: &str, yaml: &str) -> Self {
        Self::start_in_by(tempfile::tempdir().unwrap(), command, name, yaml)
    }

    /// As [`Self::start_by`], in a folder that the test has prepared.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_in_by(folder: TempDir, command: Command, name: &str, yaml: &str) -> Self {
        fs::write(folder.path().join("node.yaml"), complete(name, yaml)).unwrap();
        let process = spawn_by(command, folder.path(), &[]);
        let mut node = Self {
            name: name.to_owned(),
            folder,
            process,
            earlier: 0,
        };

        node.await_health();
        node
    }

    /// Kills it (SIGKILL).
    ///
    /// # Panics
    /// When it has ended already.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, in its folder and on its file, after it has ended.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn restart(&mut self) {
        self.earlier = self.bytes_written();
        self.process = spawn(self.folder.path(), &[]);
        self.await_health();
    }

    /// As [`Self::restart`], with these arguments after the file.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn restart_with(&mut self, arguments: &[&str]) {
        self.earlier = self.bytes_written();
        self.process = spawn_with(program::command(), self.folder.path(), &[], arguments);
        self.await_health();
    }

    /// As [`Self::restart`], by a command that runs the program somewhere else.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn restart_by(&mut self, command: Command) {
        self.earlier = self.bytes_written();
        self.process = spawn_by(command, self.folder.path(), &[]);
        self.await_health();
    }

    fn await_health(&mut self) {
        eventually("the node is healthy", || {
            let ended = self.process.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "node {} ended with {}:\n{}",
                self.name,
                ended.unwrap(),
                self.log()
            );

            self.try_ask("GET", "/healthz", "")
                .filter(|(status, _)| *status == 200)
        });
    }

    /// Where its file, its log and its admin socket are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its configuration file.
    pub fn file(&self) -> PathBuf {
        self.folder().join("node.yaml")
    }

    /// Its admin socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join("admin.sock")
    }

    /// Its process identifier.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where the listener is bound.
    ///
    /// # Panics
    /// When there is no listener of that name on an IP address.
    pub fn address(&self, listener: &str) -> SocketAddr {
        let status = self.status();
        let mut listeners = status["listeners"].as_array().into_iter().flatten();
        let found = listeners.find(|view| view["name"] == listener);
        let address = found.and_then(|view| view["address"].as_str()?.parse().ok());
        address.unwrap_or_else(|| panic!("no address of listener {listener} in {status:#}"))
    }

    /// `http://ADDRESS` of the listener, for `curl -x`.
    pub fn url(&self, listener: &str) -> String {
        format!("http://{}", self.address(listener))
    }

    /// The answer to `GET /status`.
    pub fn status(&self) -> Value {
        self.json("/status")
    }

    /// Live exchanges.
    pub fn exchanges(&self) -> Vec<Value> {
        self.json("/exchanges")["exchanges"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// The answer to `GET /metrics`.
    pub fn metrics(&self) -> String {
        self.ask("GET", "/metrics", "").1
    }

    /// Access records of all exchanges that have ended, in the order in which they did. The node writes them behind its
    /// traffic, so they are awaited.
    pub fn access(&self) -> Vec<Value> {
        let ended = self.ended();
        // The counter was read first: a file with as many records has all that had ended by then.
        let whole = || Some(self.written()).filter(|records| ends(records) >= ended);
        // Records that go elsewhere, or that a test has removed, do not come.
        whole()
            .or_else(|| self.records_to_a_file().then(|| found(whole)).flatten())
            .unwrap_or_else(|| self.written())
    }

    /// Waits for an access record for which `wanted` holds.
    ///
    /// # Panics
    /// When none comes.
    pub fn record(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually("an access record", || {
            self.written().into_iter().find(&wanted)
        })
    }

    /// The records that stand in the file by now.
    fn written(&self) -> Vec<Value> {
        self.written_after(0)
    }

    /// Those behind so many bytes.
    fn written_after(&self, earlier: usize) -> Vec<Value> {
        let text = fs::read_to_string(self.folder().join("access.json")).unwrap_or_default();
        let text = text.get(earlier..).unwrap_or_default();
        // The last line may be written in part by now.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Asked of the system: after a soak there are hundreds of thousands of records.
    fn bytes_written(&self) -> usize {
        let file = fs::metadata(self.folder().join("access.json"));
        file.map_or(0, |file| file.len() as usize)
    }

    fn records_to_a_file(&self) -> bool {
        self.folder().join("access.json").is_file()
    }

    /// Exchanges that have ended; empty once the node does not answer any more, as all is written then.
    fn ended(&self) -> u64 {
        let metrics = self
            .try_ask("GET", "/metrics", "")
            .map(|(_, metrics)| metrics)
            .unwrap_or_default();
        let counts = metrics
            .lines()
            .filter(|line| line.starts_with("hermes_exchanges_total{"));
        counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Its log so far. A thread of the node writes it: this waits until no more lines come.
    pub fn log(&self) -> String {
        let read = || fs::read_to_string(self.folder().join("stderr")).unwrap_or_default();
        let mut length = None;
        let whole = found(|| {
            let text = read();
            // Two equal lengths in a row stand for a writer that is done.
            (length.replace(text.len()) == Some(text.len())).then_some(text)
        });
        whole.unwrap_or_else(read)
    }

    /// The most memory that it has had so far, in bytes.
    ///
    /// # Panics
    /// When it has ended.
    pub fn peak(&self) -> usize {
        peak::peak(self.pid()).unwrap()
    }

    /// Its open descriptors.
    pub fn fds(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .unwrap()
            .count()
    }

    /// Puts another configuration in the file.
    pub fn write(&self, yaml: &str) {
        fs::write(self.file(), complete(&self.name, yaml)).unwrap();
    }

    /// Puts another configuration in the file and asks it to reload: status and answer.
    pub fn reload(&self, yaml: &str) -> (u16, Value) {
        self.write(yaml);
        let (status, body) = self.ask("POST", "/reload", "");
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Asks its admin interface: status and body.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.try_ask(method, path, body)
            .unwrap_or_else(|| panic!("{} does not answer {path}", self.name))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Tells it to stop (SIGTERM) and waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let ended = found(|| self.process.try_wait().unwrap());
        ended.unwrap_or_else(|| {
            let open = self.try_ask("GET", "/exchanges", "");
            panic!("waited in vain: {} ends; {open:?}", self.name)
        })
    }

    /// Waits until it has no live exchange.
    ///
    /// # Panics
    /// When it keeps one.
    pub fn idle(&self) {
        let idle = found(|| self.exchanges().is_empty().then_some(()));
        assert!(
            idle.is_some(),
            "waited in vain: {} keeps {:#?}",
            self.name,
            self.exchanges()
        );
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The status and body of the administration's answer; `None` without an answer.
    pub fn try_ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text, */*\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(
            !head.to_ascii_lowercase().contains("transfer-encoding"),
            "the admin answers with a length: {head}"
        );

        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Before it is killed: the figure goes with the process.
        let peak = peak::peak(self.pid()).filter(|_| peak::is_promised());
        if !std::thread::panicking() {
            // The process before it knew the others.
            named::check(self, &self.written_after(self.earlier));
        }
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());

        if std::thread::panicking() {
            let file = fs::read_to_string(self.file()).unwrap_or_default();
            let records = fs::read_to_string(self.folder().join("access.json")).unwrap_or_default();
            eprintln!(
                "--- {}: file\n{file}--- log\n{}--- access\n{records}---",
                self.name,
                self.log()
            );
        } else if let Some(peak) = peak {
            assert!(
                peak < peak::PROMISED,
                "node {} has had {peak} bytes of memory",
                self.name
            );
        }
    }
}

/// `hermes run` on the file in this folder.
fn spawn(folder: &Path, environment: &[(&str, &str)]) -> Child {
    spawn_by(program::command(), folder, environment)
}

fn spawn_by(command: Command, folder: &Path, environment: &[(&str, &str)]) -> Child {
    spawn_with(command, folder, environment, &[])
}

fn spawn_with(
    mut command: Command,
    folder: &Path,
    environment: &[(&str, &str)],
    arguments: &[&str],
) -> Child {
    let append = |name| {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(folder.join(name))
            .unwrap()
    };
    command
        .arg("run")
        .arg(folder.join("node.yaml"))
        // The node ends with this process, however that ends.
        .arg("--until-eof")
        .args(arguments)
        .env("STATE_DIRECTORY", folder.join("state"))
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(append("stdout"))
        .stderr(append("stderr"))
        .spawn()
        .unwrap()
}

/// How many records are of exchanges that have ended.
fn ends(records: &[Value]) -> u64 {
    records
        .iter()
        .filter(|record| record["event"] == "end" && record["kind"] != "flow")
        .count() as u64
}

/// The file as it is written: not indented, and with the keys that every node needs.
fn complete(name: &str, yaml: &str) -> String {
    let mut text = dedent(yaml);
    let named = ("node", name);
    for (key, value) in DEFAULTS.into_iter().chain([named]) {
        let given = text
            .lines()
            .any(|line| line.starts_with(key) && line[key.len()..].starts_with(':'));
        if !given {
            text.push_str(&format!("{key}: {value}\n"));
        }
    }

    text
}

/// `text` without the indentation that all its lines share, and without empty lines at its beginning.
pub fn dedent(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let depth = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(indentation)
        .min()
        .unwrap_or(0);

    let lines = text.lines().skip_while(|line| line.trim().is_empty());
    lines
        .map(|line| format!("{}\n", line.get(depth..).unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_the_test_wrote() {
        let text = complete("alice", "\n    listeners:\n      web: {}\n    workers: 1\n");
        assert!(
            text.starts_with("listeners:\n  web: {}\nworkers: 1\nversion: 1\n"),
            "{text}"
        );
        assert!(text.ends_with("node: alice\n"), "{text}");
    }
}
