//! Servers in Python for the telemetry of nodes: an OTLP collector with OpenTelemetry's own definitions, which `HERMES_PYTHON` has,
//! and a service that takes decisions.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// A running collector; it ends when this is dropped.
#[derive(Debug)]
pub struct Collector {
    process: Child,
    address: SocketAddr,
    said: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    /// Starts an OTLP collector.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start() -> Self {
        Self::run(include_str!("collector.py"))
    }

    /// Starts a service for decisions. It takes posts to `/logs`; `/wrong` answers 404, `/slow` never, and `/later` answers 503
    /// once.
    ///
    /// # Panics
    /// When it does not start.
    pub fn of_decisions() -> Self {
        Self::run(include_str!("decision_service.py"))
    }

    fn run(script: &str) -> Self {
        let mut process = python(script);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port: u16 = lines
            .next()
            .expect("the collector starts")
            .unwrap()
            .parse()
            .unwrap();

        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();

        // It ends with the process, whose output it reads.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().push(serde_json::from_str(&line).unwrap());
            }
        });

        Self {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            said,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that it was sent, as it says it.
    pub fn said(&self) -> Vec<Value> {
        self.said.lock().clone()
    }

    /// The messages to `path`, as it read them.
    ///
    /// # Panics
    /// When it could not read something.
    pub fn messages(&self, path: &str) -> Vec<Value> {
        let said = self.said.lock();
        said.iter()
            .for_each(|said| assert!(said["error"].is_null(), "{said:#}"));
        said.iter()
            .filter(|said| said["path"] == path)
            .map(|said| said["message"].clone())
            .collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The names of the metric families in OpenMetrics text, as the Prometheus project's own parser reads them.
///
/// # Panics
/// When it refuses the text.
pub fn openmetrics(text: &str) -> Vec<String> {
    let mut process = python(
        "import sys\n\
         from prometheus_client.openmetrics.parser import text_string_to_metric_families as families\n\
         print('\\n'.join(family.name for family in families(sys.stdin.read())))",
    );
    process
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();

    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "it refuses\n{text}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn python(script: &str) -> Child {
    let python = std::env::var_os("HERMES_PYTHON")
        .expect("HERMES_PYTHON names a Python with the packages of ./test");
    let mut command = Command::new(python);
    command
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}
