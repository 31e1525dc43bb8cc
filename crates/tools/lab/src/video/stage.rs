//! A server, a link and a viewer, with one system between them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::VideoFigures;
use super::picture::{self, Film};
use super::systems::{VideoCommand, VideoPlace, VideoPrograms, VideoSystem};
use super::tap::{self, Tap};
use super::video_server::VideoServer;
use crate::emulator::Profile;
use crate::emulator::wire::{End, Wire};
use crate::pki::Pki;
use crate::process::Process;
use crate::topology::{Namespace, Topology};

pub(super) const SERVER: &str = "10.79.1.1";
pub(super) const VIEWER: &str = "10.79.1.2";

/// Where ffmpeg sends; where the system takes packets; where it gives them; where ffmpeg receives them.
const SENT: u16 = 4000;
pub(super) const ENTRY: u16 = 4010;
pub(super) const EXIT: u16 = 5000;
const PLAYED: u16 = 5010;

/// The port at the viewer's end of the link.
pub(super) const LINK_PORT: u16 = 6000;

/// Time for programs to begin to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Time for the last packets to come.
const LAST: Duration = Duration::from_millis(1500);

/// Time for ffmpeg to write its file to its end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A system between server and viewer.
pub(super) struct VideoStage {
    pub system: VideoSystem,
    delay: Duration,
    taps: [Tap; 2],
    receiver: Process,
    sender: Option<Child>,
    /// The server that is asked for the film; others send it by themselves.
    video_server: Option<VideoServer>,
    _nodes: Vec<Process>,
    _link: Wire,
    topology: Topology,
    folder: tempfile::TempDir,
}

impl VideoStage {
    /// Lays the link, and starts all but the sender.
    ///
    /// # Errors
    /// A namespace cannot be made, or a program does not listen.
    pub(super) fn lay(
        system: VideoSystem,
        programs: &VideoPrograms,
        profile: &Profile,
        seed: u64,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
        Pki::create(folder.path())?;
        let mut topology = Topology::new();
        for name in ["server", "viewer"] {
            topology.add(name)?;
        }
        let link = link(&topology, profile, seed)?;
        let server = topology.namespace("server")?;
        let viewer = topology.namespace("viewer")?;

        let (out, exit) = match system {
            VideoSystem::Direct => (address(VIEWER, EXIT)?, address("0.0.0.0", EXIT)?),
            _ => (address("127.0.0.1", ENTRY)?, address("127.0.0.1", EXIT)?),
        };
        let receiver = begin_receiver(viewer, folder.path())?;
        let taps = [
            Tap::begin(server, address("0.0.0.0", SENT)?, out)?,
            Tap::begin(viewer, exit, address("127.0.0.1", PLAYED)?)?,
        ];

        let nodes = start_nodes(system, programs, &topology, folder.path())?;
        let video_server = match system {
            VideoSystem::Paper => Some(VideoServer::begin(server)?),
            _ => None,
        };
        open(server, &taps[1]).with_context(|| {
            let logs = nodes.iter().map(Process::log);
            logs.collect::<Vec<_>>().join("\n")
        })?;
        Ok(Self {
            system,
            delay: profile.delay,
            taps,
            receiver,
            sender: None,
            video_server,
            _nodes: nodes,
            _link: link,
            topology,
            folder,
        })
    }

    /// Begins to send the film, once it was asked for.
    ///
    /// # Errors
    /// It cannot be asked for, or ffmpeg cannot be started.
    pub(super) fn play(&mut self, film: &Film) -> Result<()> {
        if let Some(video_server) = &self.video_server {
            video_server.ask(self.topology.namespace("viewer")?)?;
        }
        let server = self.topology.namespace("server")?;
        let mut command = server.command("ffmpeg");
        let command = command.args(film.sending(SENT));
        self.sender = Some(command.stdin(std::process::Stdio::null()).spawn()?);
        Ok(())
    }

    /// Waits for its end, and decodes the received film.
    ///
    /// # Errors
    /// A program failed.
    pub(super) fn end(mut self, film: &Film) -> Result<VideoFigures> {
        let mut sender = self.sender.take().context("no film was sent")?;
        anyhow::ensure!(sender.wait()?.success(), "ffmpeg does not send");
        std::thread::sleep(LAST);
        let bytes = sent_bytes(self.topology.namespace("server")?)?;
        self.receiver.end(END_LIMIT);
        let [before, behind] = self.taps;
        let sent = before.end()?;
        let came = behind.end()?;
        let missed = sent.gaps();
        anyhow::ensure!(
            missed == 0,
            "{missed} packets are lost at the sender's own machine"
        );
        let delays = tap::delays(&sent, &came);
        let received = picture::look(&picture::received(self.folder.path()), film.frames)?;

        let at = |part: usize| {
            let place = (delays.len() * part / 100).min(delays.len().saturating_sub(1));
            let delay = delays.get(place).copied().unwrap_or_default();
            delay.saturating_sub(self.delay)
        };
        Ok(VideoFigures {
            frames: f64::from(received.frames) / f64::from(film.frames),
            broken: received.broken,
            lost: tap::lost(&sent, &came),
            overtaken: came.overtaken(),
            bytes: bytes as f64 / film.bytes as f64,
            delay: at(50),
            latest: at(99),
        })
    }
}

fn address(host: &str, port: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(host.parse()?, port))
}

fn link(topology: &Topology, profile: &Profile, seed: u64) -> Result<Wire> {
    let addresses = [format!("{SERVER}/24"), format!("{VIEWER}/24")];
    let [near, far] = &addresses;
    let end = |at, address| -> Result<End<'_>> {
        Ok(End {
            namespace: topology.namespace(at)?,
            device: "link",
            address,
            profile,
        })
    };
    Wire::lay(end("server", near)?, end("viewer", far)?, seed)
}

fn start(namespace: &Namespace, command: &VideoCommand, folder: &Path) -> Result<Process> {
    let name = format!("node-{}", command.port);
    Process::start_in(
        Some(namespace),
        &name,
        folder,
        &command.program,
        &command.words,
    )
}

/// Starts the program that plays the film, and waits until it listens.
fn begin_receiver(viewer: &Namespace, folder: &Path) -> Result<Process> {
    let words = picture::receiving(PLAYED, folder)?;
    let program = Path::new("ffmpeg");
    let mut receiver = Process::start_in(Some(viewer), "receiver", folder, program, &words)?;
    listens(viewer, PLAYED, &mut receiver)?;
    Ok(receiver)
}

/// Starts the programs of a system, each where it belongs, and waits until they listen.
fn start_nodes(
    system: VideoSystem,
    programs: &VideoPrograms,
    topology: &Topology,
    folder: &Path,
) -> Result<Vec<Process>> {
    let started = system.commands(programs, folder)?.into_iter();
    let started = started.map(|command| {
        let namespace = topology.namespace(match command.place {
            VideoPlace::Server => "server",
            VideoPlace::Viewer => "viewer",
        })?;
        let mut node = start(namespace, &command, folder)?;
        listens(namespace, command.port, &mut node)?;
        Ok(node)
    });
    started.collect()
}

/// Sends small packets until one has come out: a film that waits for its tunnel would come as a burst that no such link carries.
fn open(server: &Namespace, exit: &Tap) -> Result<()> {
    let packet = format!("printf x > /dev/udp/127.0.0.1/{SENT}");
    let step = Duration::from_millis(100);
    for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
        server.run(&["bash", "-c", &packet])?;
        std::thread::sleep(step);
        if exit.is_open() {
            return Ok(());
        }
    }
    bail!("no packet comes through")
}

/// Waits until a program has its port.
fn listens(namespace: &Namespace, port: u16, process: &mut Process) -> Result<()> {
    let step = Duration::from_millis(50);
    for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
        process.check()?;
        let filter = format!("sport = :{port}");
        if !namespace.run(&["ss", "-Htuan", &filter])?.trim().is_empty() {
            return Ok(());
        }
        std::thread::sleep(step);
    }
    bail!("{} does not listen:\n{}", process.name(), process.log())
}

/// Bytes that the server has sent into the link.
fn sent_bytes(server: &Namespace) -> Result<u64> {
    let counted = server.run(&["cat", "/proc/net/dev"])?;
    let line = counted
        .lines()
        .find_map(|line| line.trim().strip_prefix("link:"))
        .context("the server has no link")?;
    let sent = line.split_whitespace().nth(8);
    Ok(sent.context("the link counts nothing")?.parse()?)
}
