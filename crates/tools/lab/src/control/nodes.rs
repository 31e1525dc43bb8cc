//! The measurements with real nodes: revoked tunnels, exchanges under changes, and the memory of an agent.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermes_api::parts;
use hermes_harness::overlay::Hub;
use hermes_harness::{free, origins};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use super::journal::milliseconds;
use super::operator::Operator;
use super::paced;
use crate::process::Process;
use crate::report::{Figure, Sheet, quantile};
use crate::traffic::http::Buffer;

/// The column of the sheet.
pub(super) const REAL: &str = "real nodes";

/// Names of cases.
pub(super) const REVOKED: &str = "revoked under a tunnel";
pub(super) const UPDATED: &str = "exchanges under changes";
pub(super) const FOOTPRINT: &str = "memory of the agent";

/// Tunnels of each device that is revoked.
const TUNNELS: usize = 4;

/// How long a tunnel may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// How long a node is left alone before its memory is read.
const SETTLING: Duration = Duration::from_secs(4);

/// How often things are done.
#[derive(Debug, Clone, Copy)]
pub(super) struct RealCounts {
    /// Devices that are revoked.
    pub(super) revoked: usize,
    /// Pairs of exchanges with changes and without.
    pub(super) pairs: usize,
    /// Pairs of nodes with an agent and without.
    pub(super) footprints: usize,
    /// How long exchanges go on in each half of a pair.
    pub(super) time: Duration,
}

/// Devices are revoked while tunnels of theirs are open; the devices themselves stand still, so that the ingress has to end them.
///
/// # Errors
/// A tunnel does not open, or does not end.
pub(super) fn revoke(counts: RealCounts, sheet: &mut Sheet) -> Result<()> {
    let hub = Hub::start();
    let ends = Ends::listen()?;
    let address = ends.address.to_string();
    hub.ask(&["expose", "ECHO", &address, "--to", "alice"])
        .context("the service is not exposed")?;
    let operator = operator(&hub);
    let mut times = Vec::new();
    let mut answers = Vec::new();
    for number in 0..counts.revoked {
        let name = format!("device-{number}");
        let device = hub.device("alice", &name);
        let tunnels = open_tunnels(device.web)?;
        device.signal(Signal::STOP);

        let begin = Instant::now();
        let revoked = operator.post("/revoke", &json!({ "node": name }));
        answers.push(milliseconds(begin.elapsed()));
        let ended = (0..TUNNELS).map(|_| ends.ended.recv_timeout(END_LIMIT));
        let ended: Vec<_> = ended.collect();
        // It could not be ended otherwise.
        device.signal(Signal::CONT);
        revoked?;
        for end in ended {
            let end = end.context("a tunnel goes on")?;
            times.push(milliseconds(end - begin));
        }
        drop(tunnels);
    }
    let mut add = |name: &str, value| sheet.add(REVOKED, REAL, Figure::less(name, "ms"), value);
    add("tunnel ended, p50", quantile(&times, 0.5));
    add("tunnel ended, p99", quantile(&times, 0.99));
    add("controller's answer, p50", quantile(&answers, 0.5));
    Ok(())
}

fn operator(hub: &Hub) -> Operator {
    Operator {
        socket: PathBuf::from(hub.state()).join("controller.sock"),
    }
}

/// A server that says when its connections end.
struct Ends {
    address: SocketAddr,
    ended: Receiver<Instant>,
}

impl Ends {
    fn listen() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, ended) = channel();
        // It ends with the process: nothing else is left of it.
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let sender = sender.clone();
                thread::spawn(move || {
                    // However it ends.
                    drop(std::io::copy(&mut stream, &mut std::io::sink()));
                    let _ = sender.send(Instant::now());
                });
            }
        });
        Ok(Self { address, ended })
    }
}

fn open_tunnels(web: SocketAddr) -> Result<Vec<std::net::TcpStream>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut tunnels = Vec::new();
        for _ in 0..TUNNELS {
            let mut stream = TcpStream::connect(web).await?;
            let request = b"CONNECT ECHO:7 HTTP/1.1\r\nHost: ECHO:7\r\n\r\n";
            Buffer::default().exchange(&mut stream, request).await?;
            tunnels.push(stream.into_std()?);
        }
        Ok(tunnels)
    })
}

/// Exchanges of a device through the ingress, alternately while both are changed several times a second and while nothing changes.
///
/// # Errors
/// Nothing can be exchanged, or a change fails.
pub(super) fn update(counts: RealCounts, sheet: &mut Sheet) -> Result<()> {
    let origin = origins::http();
    let hub = Hub::start();
    let operator = operator(&hub);
    let resources = operator.get("/resources?Node")?;
    let node = resources["yaml"].as_str().context("no resources")?;
    let changes = HubChanges {
        operator: operator.clone(),
        node: node.to_owned(),
        origin: origin.address(),
    };
    changes.begin()?;
    let device = hub.device("alice", "laptop");

    // The first exchanges open connections.
    paced::exchanges(device.web, Duration::from_secs(1))?;
    for pair in 0..counts.pairs {
        // Which half comes first alternates, too.
        let halves = match pair % 2 {
            0 => [true, false],
            _ => [false, true],
        };
        for is_changing in halves {
            let done = half(&changes, device.web, counts.time, is_changing)?;
            let system = match is_changing {
                true => "with changes",
                false => "without",
            };
            let mut add = |name: &str, unit, value| {
                let figure = Figure::less(format!("{name} {system}"), unit);
                sheet.add(UPDATED, REAL, figure, value);
            };
            add("p50", "ms", quantile(&done.times, 0.5));
            add("p99", "ms", quantile(&done.times, 0.99));
            add("failed", "", done.failed as f64);
            if is_changing {
                add("documents", "", done.changes as f64);
                add("exchanges", "", done.times.len() as f64);
            }
        }
    }
    Ok(())
}

/// The exchanges of one half of a pair.
struct Half {
    times: Vec<f64>,
    failed: usize,
    changes: usize,
}

fn half(changes: &HubChanges, web: SocketAddr, time: Duration, is_changing: bool) -> Result<Half> {
    let begin = Instant::now();
    let exchanging = thread::spawn(move || paced::exchanges(web, time));
    let mut made = 0;
    while is_changing && begin.elapsed() < time {
        changes.make(made)?;
        made += 1;
        thread::sleep(HubChanges::PACE);
    }
    let done = exchanging
        .join()
        .map_err(|_| anyhow::anyhow!("the thread of the exchanges panicked"))??;
    Ok(Half {
        times: done.times,
        failed: done.failed,
        changes: made,
    })
}

/// Changes of the ingress and of the device behind it.
struct HubChanges {
    operator: Operator,
    /// The ingress's own resource.
    node: String,
    origin: SocketAddr,
}

impl HubChanges {
    /// Between two changes.
    const PACE: Duration = Duration::from_millis(200);

    fn begin(&self) -> Result<()> {
        let text = format!(
            "{OVERLAY}{}{}{}{}",
            named("Service", "web", &self.at()),
            named("Name", "web", "{ name: web.lab, service: web }"),
            named("Policy", "all", "{ rules: [{ allow: true }] }"),
            self.other(0)
        );
        let revision = self.operator.apply(&text)?;
        self.operator.in_force(&revision)
    }

    fn at(&self) -> String {
        format!("{{ at: [{{ node: hub, address: \"{}\" }}] }}", self.origin)
    }

    /// Another service beside the one that is asked, at another port each time: the ingress gets another document.
    fn other(&self, number: usize) -> String {
        let spec = format!(
            "{{ at: [{{ node: hub, address: \"127.0.0.1:{}\" }}] }}",
            9000 + number
        );
        let name = named("Name", "other", "{ service: other }");
        named("Service", "other", &spec) + &name
    }

    /// Every other change is one of the ingress's zone, which is in the documents of devices, too.
    fn make(&self, number: usize) -> Result<()> {
        let text = match number % 2 {
            0 => self.other(number),
            _ => {
                let zone = format!("spec:\n  zone: zone-{number}\n");
                self.node.replacen("spec:\n", &zone, 1)
            }
        };
        let revision = self.operator.apply(&text)?;
        self.operator.in_force(&revision)
    }
}

/// Changes are measured, and not the time for which an operator wants their first nodes looked at.
pub(super) const OVERLAY: &str = "apiVersion: hermes/v1\nkind: Overlay\nmetadata: { name: hermes }\nspec: { rollout: { bake: 0s } }\n";

fn named(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: hermes/v1\nkind: {kind}\nmetadata: {{ name: {name} }}\nspec: {spec}\n"
    )
}

/// A device with its agent, and a node without one that has the same document: the memory of each, one after the other.
///
/// # Errors
/// One of them does not start.
pub(super) fn footprint(program: &Path, counts: RealCounts, sheet: &mut Sheet) -> Result<()> {
    let hub = Hub::start();
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("node");
    let web = free::tcp().to_string();
    let token = hub.token("alice");
    let joining = [
        "join",
        &hub.url(),
        "--token",
        &token,
        "--name",
        "laptop",
        "--web",
        &web,
        "--state",
        &state.display().to_string(),
    ];
    for _ in 0..counts.footprints {
        let member = Process::start("member", folder.path(), program, &joining)?;
        hub.await_step("laptop");
        thread::sleep(SETTLING);
        let with = member.memory() as f64;
        drop(member);

        let alone = without_agent(program, folder.path(), &state, &web)?;
        thread::sleep(SETTLING);
        let without = alone.memory() as f64;
        let mut add = |name: &str, bytes: f64| {
            let value = bytes / f64::from(1 << 20);
            sheet.add(FOOTPRINT, REAL, Figure::less(name, "MiB"), value);
        };
        add("device with it", with);
        add("the same without", without);
        add("difference", with - without);
    }
    Ok(())
}

/// A node that runs by a file with the document of a member.
fn without_agent(program: &Path, folder: &Path, state: &Path, web: &str) -> Result<Process> {
    let current = fs::read_to_string(state.join("current.json"))?;
    let current: Value = serde_json::from_str(&current)?;
    let statement = current["statement"].as_str().context("no statement")?;
    let statement: Value = serde_json::from_str(statement)?;
    let part = |name: &str| {
        let hash = statement["parts"][name].as_str();
        hash.map(|hash| state.join("parts").join(hash))
            .with_context(|| format!("the statement has no {name}"))
    };
    let file = folder.join("alone.yaml");
    fs::copy(part(parts::DOCUMENT)?, &file)?;

    let variables = [
        "HERMES_NODE=laptop".to_owned(),
        "HERMES_USER=alice".to_owned(),
        format!("HERMES_WEB={web}"),
        "HERMES_CONTROLLER=127.0.0.1".to_owned(),
        format!("HERMES_IDENTITY={}", state.display()),
        format!("HERMES_AUTHORITIES={}", part(parts::AUTHORITIES)?.display()),
        format!("HERMES_REVOKED={}", part(parts::REVOKED)?.display()),
        // Its administrator's socket is apart from those of others.
        format!("XDG_RUNTIME_DIR={}", folder.display()),
        program.display().to_string(),
        "run".to_owned(),
        file.display().to_string(),
    ];
    let mut alone = Process::start("alone", folder, Path::new("/usr/bin/env"), &variables)?;
    thread::sleep(Duration::from_millis(500));
    alone.check()?;
    ensure!(
        std::net::TcpStream::connect(web).is_ok(),
        "the node without an agent does not listen:\n{}",
        alone.log()
    );
    Ok(alone)
}
