//! A subscriber: curl, which goes on until it is stopped.

use std::fs;
use std::process::{Child, Command, Stdio};

use hermes_tests::eventually::{eventually, eventually_true};
use tempfile::TempDir;

/// A curl that subscribes.
pub struct Subscriber {
    child: Child,
    folder: TempDir,
}

impl Subscriber {
    /// Begins; the head of the answer is there when this returns.
    pub fn begin(url: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = std::env::var_os("HERMES_CURL").unwrap_or_else(|| "curl".into());
        let child = Command::new(program)
            .args(["-q", "-sSN", "--max-time", "60", "-D"])
            .arg(folder.path().join("head"))
            .arg("-o")
            .arg(folder.path().join("body"))
            .args(arguments)
            .arg(url)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let subscriber = Self { child, folder };
        eventually_true("the head of a subscription", || {
            subscriber.head().ends_with("\r\n\r\n")
        });
        subscriber
    }

    /// The head of the answer.
    pub fn head(&self) -> String {
        fs::read_to_string(self.folder.path().join("head")).unwrap_or_default()
    }

    /// A field of the answer.
    pub fn field(&self, name: &str) -> String {
        let head = self.head().to_ascii_lowercase();
        let lines = head.lines();
        let mut value = lines.filter_map(|line| line.strip_prefix(&format!("{name}: ")));
        value.next_back().unwrap_or_default().to_owned()
    }

    /// The path and query of the subscription.
    pub fn location(&self) -> String {
        let head = self.head();
        let lines = head.lines();
        let mut values = lines.filter_map(|line| line.split_once(": "));
        let found = values.find(|(name, _)| name.eq_ignore_ascii_case("content-location"));
        found.expect("a subscription has a location").1.to_owned()
    }

    /// What has come.
    pub fn text(&self) -> String {
        let read = fs::read(self.folder.path().join("body")).unwrap_or_default();
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Bytes that have come.
    pub fn length(&self) -> u64 {
        fs::metadata(self.folder.path().join("body")).map_or(0, |file| file.len())
    }

    /// Waits until this has come, somewhere.
    pub fn sees(&self, wanted: &str) -> String {
        eventually(wanted, || {
            let text = self.text();
            text.contains(wanted).then_some(text)
        })
    }

    /// Waits until the answer has ended.
    pub fn ends(&mut self) -> String {
        self.child.wait().unwrap();
        self.text()
    }

    /// Stops reading, as a program that hangs does.
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Goes on.
    pub fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
