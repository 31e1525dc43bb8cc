//! The carriers of packets from the server to the viewer.

use std::fmt;
use std::path::{Path, PathBuf};

use super::paper;
use super::stage::{ENTRY, EXIT, LINK_PORT, VIEWER};
use crate::pki::{PROXY, Pki};

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum VideoSystem {
    /// RTP over UDP, by itself.
    Direct,
    /// A tunnel over HTTP/2, as in the paper.
    Http2,
    /// A tunnel over HTTP/3 that mends nothing.
    Http3,
    /// The same that sends lost datagrams again.
    Retransmit,
    /// The same with parity.
    Parity,
    /// The same that chooses by itself.
    Auto,
    /// The same with BBR instead of no congestion control.
    AutoBbr,
    /// The same as `auto`, with a stream of QUIC for each group of datagrams.
    Groups,
    /// The topology of the paper, over HTTP/2: authorised names, two distributors that decide, and a way back by `attach`.
    Paper,
    /// SRT.
    Srt,
}

/// Where the programs are.
pub(super) struct VideoPrograms {
    pub hermes: PathBuf,
    pub srt: PathBuf,
}

/// An end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VideoPlace {
    Server,
    Viewer,
}

/// A program at one end of the link.
pub(super) struct VideoCommand {
    pub place: VideoPlace,
    /// The port that it listens at.
    pub port: u16,
    pub program: PathBuf,
    pub words: Vec<String>,
}

/// A node at one end of the link.
pub(super) struct VideoNode {
    place: VideoPlace,
    name: String,
    port: u16,
    yaml: String,
}

impl VideoNode {
    /// A node that listens at this port, among others.
    pub(super) fn at(place: VideoPlace, name: &str, port: u16, yaml: &str) -> Self {
        Self {
            place,
            name: name.to_owned(),
            port,
            yaml: format!(
                "version: 1\nnode: {name}\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\nworkers: 1\n{yaml}"
            ),
        }
    }

    /// Writes its file: the command that runs it.
    fn command(self, programs: &VideoPrograms, folder: &Path) -> std::io::Result<VideoCommand> {
        let file = folder.join(format!("{}.yaml", self.name));
        std::fs::write(&file, self.yaml)?;
        Ok(VideoCommand {
            place: self.place,
            port: self.port,
            program: programs.hermes.clone(),
            words: vec!["run".to_owned(), file.to_string_lossy().into_owned()],
        })
    }
}

/// How long systems wait for a lost packet, in milliseconds.
const WITHIN: u32 = 300;

impl VideoSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Direct,
        Self::Http2,
        Self::Http3,
        Self::Retransmit,
        Self::Parity,
        Self::Auto,
        Self::AutoBbr,
        Self::Groups,
        Self::Paper,
        Self::Srt,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Http2 => "http2",
            Self::Http3 => "http3",
            Self::Retransmit => "retransmit",
            Self::Parity => "parity",
            Self::Auto => "auto",
            Self::AutoBbr => "auto-bbr",
            Self::Groups => "groups",
            Self::Paper => "paper",
            Self::Srt => "srt",
        }
    }

    /// The systems that can be measured here; the others are named.
    pub(super) fn installed(programs: &VideoPrograms) -> Vec<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has_srt = std::env::split_paths(&path).any(|at| at.join(&programs.srt).is_file());
        if !has_srt {
            eprintln!("hermes-lab: srt-live-transmit is not installed, and not measured");
        }
        let is_there = |system: &Self| *system != Self::Srt || has_srt;
        Self::ALL.into_iter().filter(is_there).collect()
    }

    /// The programs at both ends, in the order of their start; none for packets that go by themselves.
    ///
    /// # Errors
    /// A configuration cannot be written.
    pub(super) fn commands(
        self,
        programs: &VideoPrograms,
        folder: &Path,
    ) -> std::io::Result<Vec<VideoCommand>> {
        let nodes = match self {
            Self::Direct => Vec::new(),
            Self::Srt => return Ok(srt(programs).into()),
            Self::Paper => paper::nodes(folder)?,
            tunnel => tunnel.nodes(folder),
        };
        let commands = nodes.into_iter();
        commands
            .map(|node| node.command(programs, folder))
            .collect()
    }

    /// The two nodes of a tunnel.
    fn nodes(self, folder: &Path) -> Vec<VideoNode> {
        let (http, loss) = match self {
            Self::Direct | Self::Srt | Self::Paper => return Vec::new(),
            Self::Http2 => (2, "plain"),
            Self::Http3 => (3, "plain"),
            Self::Retransmit => (3, "retransmit"),
            Self::Parity => (3, "parity"),
            Self::Auto | Self::AutoBbr => (3, "auto"),
            Self::Groups => (3, "groups"),
        };
        // CUBIC takes the link's losses for congestion, and would send less than the film has.
        let congestion = match self {
            Self::AutoBbr => "congestion: bbr, ",
            _ if http == 3 => "congestion: off, ",
            _ => "",
        };
        let pki = Pki::open(folder);
        let server = format!(
            "listeners: {{ rtp: {{ udp: \"127.0.0.1:{ENTRY}\", target: \"127.0.0.1:{EXIT}\", datagrams: {{ hold_bytes: 1MiB }} }} }}\n\
             routes: [ {{ to: viewer, tunnel: {{ loss: {} }} }} ]\n\
             upstreams: {{ viewer: {{ endpoints: [\"{VIEWER}:{LINK_PORT}\"], http: {http}, {congestion}tls: {{ ca_file: {}, server_name: {PROXY} }} }} }}\n",
            loss_key(loss),
            pki.ca().display(),
        );
        let viewer = format!(
            "listeners: {{ web: {{ http: \"{VIEWER}:{LINK_PORT}\", public: true, tls: {{ cert_file: {}, key_file: {} }} }} }}\n\
             routes: [ {{ terminate: true }} ]\negress: {{ allow: [127.0.0.0/8] }}\n",
            pki.cert(PROXY).display(),
            pki.key(PROXY).display(),
        );
        vec![
            VideoNode::at(VideoPlace::Viewer, "viewer", LINK_PORT, &viewer),
            VideoNode::at(VideoPlace::Server, "server", ENTRY, &server),
        ]
    }
}

fn loss_key(word: &str) -> String {
    match word {
        "plain" => word.to_owned(),
        word => format!("{{ by: {word}, within: {WITHIN}ms }}"),
    }
}

fn srt(programs: &VideoPrograms) -> [VideoCommand; 2] {
    let command = |place, port, from: String, to: String| VideoCommand {
        place,
        port,
        program: programs.srt.clone(),
        words: vec!["-quiet".to_owned(), from, to],
    };
    [
        command(
            VideoPlace::Viewer,
            LINK_PORT,
            format!("srt://:{LINK_PORT}?mode=listener&latency={WITHIN}"),
            format!("udp://127.0.0.1:{EXIT}"),
        ),
        command(
            VideoPlace::Server,
            ENTRY,
            format!("udp://127.0.0.1:{ENTRY}"),
            format!("srt://{VIEWER}:{LINK_PORT}?latency={WITHIN}"),
        ),
    ]
}

impl fmt::Display for VideoSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
