//! What is forecast is what the node does: random configurations and exchanges, with a whole node in this process.

mod generator;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hermes_admit::refusals::account::Account;
use hermes_config::load;
use serde_json::Value;
use tempfile::TempDir;

use crate::node::Proxy;
use crate::process::LogFilter;
use generator::{Issuer, Sent, configuration, exchange};

/// How many exchanges are tried: `HERMES_FORECASTS`, else this many.
const EXCHANGES: usize = 400;

/// Exchanges with one configuration.
const BATCH: usize = 25;

/// How long records may take to be written.
const WRITTEN: Duration = Duration::from_secs(30);

/// Nothing is logged.
struct Silent;

impl LogFilter for Silent {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// An origin, or a next proxy, that answers everything with 404 and no word.
fn nothing_here() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });

    address
}

fn answer_all(mut stream: TcpStream) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(1..) = stream.peek(&mut chunk) {
        let length = stream.read(&mut chunk).unwrap_or(0);
        buffer.extend_from_slice(&chunk[..length]);
        while let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            buffer.drain(..end + 4);
            let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// A node on a file of its own.
struct Whole {
    proxy: Proxy,
    folder: TempDir,
    file: PathBuf,
    /// How far its records were read, in bytes.
    read: u64,
    /// Records since the last comparison.
    records: Vec<Value>,
}

impl Whole {
    /// `None` where the file is not sound.
    fn start(text: &str, folder: TempDir) -> Option<Self> {
        let file = folder.path().join("edge.yaml");
        std::fs::write(&file, text).unwrap();
        let loaded = load(&file, &|_| None).unwrap();
        let plugs = crate::builtin::plugs();
        let proxy = Proxy::start(loaded, file.clone(), Box::new(Silent), Vec::new(), plugs).ok()?;
        Some(Self {
            proxy,
            folder,
            file,
            read: 0,
            records: Vec::new(),
        })
    }

    fn address(&self, listener: &str) -> SocketAddr {
        let views = self.proxy.listeners();
        let view = views.iter().find(|view| view.name == listener).unwrap();
        view.address.parse().unwrap()
    }

    /// Sends an exchange, and waits until it is over.
    fn send(&mut self, listener: &str, sent: &Sent) {
        let address = self.address(listener);
        match sent {
            Sent::Request(request) => {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                let mut answer = Vec::new();
                let mut byte = [0];
                while !answer.ends_with(b"\r\n\r\n")
                    && stream.read(&mut byte).is_ok_and(|read| read > 0)
                {
                    answer.extend(byte);
                }
                assert!(!answer.is_empty(), "no answer to {request}");
                // A tunnel that was opened lasts until its client ends it.
                let opened = [&b"HTTP/1.1 101 "[..], b"HTTP/1.1 200 "];
                if opened.iter().any(|status| answer.starts_with(status)) {
                    stream.shutdown(Shutdown::Both).unwrap();
                }
                let _ = stream.read_to_end(&mut answer);
                self.await_record();
            }
            Sent::Connection => {
                let mut stream = TcpStream::connect(address).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
                self.await_record();
            }
            Sent::Datagram => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                socket.send_to(b"?", address).unwrap();
                self.await_record();
            }
        }
    }

    /// Waits for the record of one more exchange.
    fn await_record(&mut self) {
        let wanted = self.records.len() + 1;
        let began = Instant::now();
        while self.records.len() < wanted {
            assert!(began.elapsed() < WRITTEN, "no record");
            assert!(self.proxy.node.shared.telemetry.flush_access(WRITTEN));
            self.read_records();
            std::thread::yield_now();
        }
    }

    fn read_records(&mut self) {
        let mut file = File::open(self.folder.path().join("access.json")).unwrap();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        // A line may not be whole yet.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = text[..whole].lines();
        let records = lines.map(|line| serde_json::from_str(line).unwrap());
        // Of tunnels, the beginning is told, too.
        let ended = records.filter(|record: &Value| record["event"] != "begin");
        self.records.extend(ended);
        self.read += whole as u64;
    }
}

/// Whether what decides in this phase is known by its place.
fn by_rules(phase: &str) -> bool {
    ["policy", "authorize"].contains(&phase)
}

/// What a record says of an exchange is what was forecast.
fn compare(forecast: &Account, record: &Value, node: &Proxy) {
    let shown = || format!("{forecast:#?}\n{record:#}");
    let reason = record["reason"].as_str().unwrap();
    assert_eq!(
        record["route"].as_str(),
        forecast.route.as_deref(),
        "{}",
        shown()
    );
    if forecast.route.is_some() {
        assert_eq!(
            record["user"].as_str(),
            forecast.user.as_deref(),
            "{}",
            shown()
        );
    }

    let prohibited = reason.starts_with("destination_ip_prohibited");
    let is_prohibited = forecast.route.is_some() && !forecast.allowed;
    assert_eq!(prohibited, is_prohibited, "{}", shown());
    if let Some(status) = forecast.status {
        assert_eq!(record["status"], status, "{}", shown());
    }

    // What was refused by a rule is remembered with the step that was forecast last.
    let Some(name) = record["refusal"].as_str() else {
        assert_eq!(forecast.refused, None, "{}", shown());
        return;
    };
    let account = node.why(name).unwrap();
    let last = account.steps.last().unwrap();
    assert!(last.place.is_some(), "{account:#?}");

    let forecast_last = forecast.steps.last();
    if let Some(step) =
        forecast_last.filter(|_| forecast.refused.is_some() && by_rules(&last.phase))
    {
        assert_eq!(
            (&step.path, &step.place),
            (&last.path, &last.place),
            "{}",
            shown()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forecast_is_what_the_node_does() {
    let asked = std::env::var("HERMES_FORECASTS").ok();
    let wanted = asked.map_or(EXCHANGES, |asked| asked.parse().unwrap());
    let far = nothing_here();
    let issuer = Issuer::new();
    let mut rng = Rng::with_seed(0x9e37_79b9);
    let mut node: Option<Whole> = None;
    let mut compared = 0;
    let mut unsound = 0;
    let mut kinds = [0; 4];
    let mut by_filters = 0;

    while compared < wanted {
        let folder = tempfile::tempdir().unwrap();
        let home = node.as_ref().map_or(&folder, |node| &node.folder);
        let text = configuration(&mut rng, home, far);
        let whole = match &mut node {
            None => {
                issuer.write(folder.path());
                match Whole::start(&text, folder) {
                    Some(whole) => node.insert(whole),
                    None => continue,
                }
            }
            Some(whole) => {
                std::fs::write(&whole.file, &text).unwrap();
                if whole.proxy.handle().reload().is_err() {
                    unsound += 1;
                    continue;
                }
                whole
            }
        };

        let mut forecasts = Vec::new();
        for _ in 0..BATCH {
            let (supposed, sent) = exchange(&mut rng, &issuer);
            // Asking a filter blocks.
            let forecast = tokio::task::block_in_place(|| whole.proxy.suppose(&supposed));
            whole.send(supposed.listener.as_deref().unwrap(), &sent);
            forecasts.push(forecast.unwrap());
        }

        let records = std::mem::take(&mut whole.records);
        assert_eq!(records.len(), forecasts.len());
        for (forecast, record) in forecasts.iter().zip(&records) {
            compare(forecast, record, &whole.proxy);
            let denied = forecast.steps.last().filter(|_| forecast.refused.is_some());
            by_filters += usize::from(denied.is_some_and(|step| step.phase == "authorize"));
            let kind = match (&forecast.refused, &forecast.egress) {
                (Some(_), _) => 0,
                (None, Some(_)) if !forecast.allowed => 1,
                (None, _) if forecast.status.is_some() => 2,
                _ => 3,
            };
            kinds[kind] += 1;
        }
        compared += forecasts.len();
    }

    // Refused by rules, by egress, answered here, and sent on.
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    assert!(unsound * BATCH < compared, "{unsound} were not sound");
    assert!(by_filters > 0, "no policy in Rego denied anything");
    println!(
        "{compared} exchanges: {kinds:?}, {by_filters} denied by Rego, {unsound} configurations were not sound"
    );
}
