//! curl, as a user has it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::head::Head;

/// A response as curl saw it.
#[derive(Debug, Clone)]
pub struct Output {
    /// curl's exit code: 0 when it got a response.
    pub exit: i32,
    /// Status of the last response; 0 if there was none.
    pub status: u16,
    /// Every head, in order: proxies' answers to CONNECT and interim responses too.
    pub heads: Vec<Head>,
    /// Content of the response.
    pub body: Vec<u8>,
    /// HTTP version of the last response: `1.1`, `2`.
    pub version: String,
    /// Connections that were opened, by all transfers of the run.
    pub connects: usize,
    /// Status of the proxy's answer to CONNECT; 0 if there was none.
    pub connect_status: u16,
    /// Standard error of curl.
    pub stderr: String,
}

impl Output {
    /// The content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The content as JSON.
    ///
    /// # Panics
    /// When the content is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A field of the last head; several lines are joined.
    pub fn field(&self, name: &str) -> Option<String> {
        self.heads.last().and_then(|head| head.field(name))
    }
}

/// Runs curl; with several URLs, the figures are those of the last, and further `-o` must be given. E.g. `curl(&["-x", &node.url("web"), "http://video/"])`.
///
/// # Panics
/// When curl cannot be run.
pub fn curl(arguments: &[&str]) -> Output {
    const FIGURES: &str = "%{http_code} %{http_version} %{num_connects} %{http_connect}\\n";
    let folder = tempfile::tempdir().unwrap();
    let (heads, body) = (folder.path().join("heads"), folder.path().join("body"));
    let program = std::env::var_os("HERMES_CURL").unwrap_or_else(|| "curl".into());
    let mut command = Command::new(program);
    command
        .args(["-q", "-sS", "--max-time", "30", "-w", FIGURES, "-D"])
        .arg(&heads)
        .arg("-o")
        .arg(&body);

    for name in [
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
    ] {
        command.env_remove(name);
    }

    let ended = command.args(arguments).output().expect("curl runs");
    let figures = String::from_utf8_lossy(&ended.stdout).into_owned();
    let figure = |position| {
        figures
            .lines()
            .last()
            .unwrap_or_default()
            .split(' ')
            .nth(position)
            .unwrap_or_default()
    };

    let connects = figures
        .lines()
        .filter_map(|line| line.split(' ').nth(2)?.parse::<usize>().ok())
        .sum();
    let heads = fs::read(&heads).unwrap_or_default();
    let heads = String::from_utf8_lossy(&heads).into_owned();

    Output {
        exit: ended.status.code().unwrap_or(-1),
        status: figure(0).parse().unwrap_or(0),
        heads: heads
            .split("\r\n\r\n")
            .filter(|text| !text.trim().is_empty())
            .map(Head::parse)
            .collect(),
        body: fs::read(&body).unwrap_or_default(),
        version: figure(1).to_owned(),
        connects,
        connect_status: figure(3).parse().unwrap_or(0),
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}
