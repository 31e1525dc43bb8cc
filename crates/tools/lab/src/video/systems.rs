//! The carriers of packets from the server to the viewer.

use std::fmt;
use std::path::{Path, PathBuf};

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
    /// SRT.
    Srt,
}

/// Where the programs are.
pub(super) struct VideoPrograms {
    pub hermes: PathBuf,
    pub srt: PathBuf,
}

/// A program at one end of the link.
pub(super) struct VideoCommand {
    pub program: PathBuf,
    pub words: Vec<String>,
    /// A configuration, which is written to the file that the words name.
    pub configuration: Option<(PathBuf, String)>,
}

/// How long systems wait for a lost packet, in milliseconds.
const WITHIN: u32 = 300;

impl VideoSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Direct,
        Self::Http2,
        Self::Http3,
        Self::Retransmit,
        Self::Parity,
        Self::Auto,
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

    /// The programs at the server's end and at the viewer's; none for packets that go by themselves.
    pub(super) fn commands(
        self,
        programs: &VideoPrograms,
        folder: &Path,
    ) -> Option<[VideoCommand; 2]> {
        let (http, loss) = match self {
            Self::Direct => return None,
            Self::Srt => return Some(srt(programs)),
            Self::Http2 => (2, "plain"),
            Self::Http3 => (3, "plain"),
            Self::Retransmit => (3, "retransmit"),
            Self::Parity => (3, "parity"),
            Self::Auto => (3, "auto"),
        };
        // CUBIC takes the link's losses for congestion, and would send less than the film has.
        let congestion = if http == 3 { "congestion: off, " } else { "" };
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
        let node = |name: &str, yaml: String| {
            let file = folder.join(format!("{name}.yaml"));
            VideoCommand {
                program: programs.hermes.clone(),
                words: vec!["run".to_owned(), file.to_string_lossy().into_owned()],
                configuration: Some((
                    file,
                    format!(
                        "version: 1\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\nworkers: 1\n{yaml}"
                    ),
                )),
            }
        };
        Some([node("server", server), node("viewer", viewer)])
    }
}

fn loss_key(word: &str) -> String {
    match word {
        "plain" => word.to_owned(),
        word => format!("{{ by: {word}, within: {WITHIN}ms }}"),
    }
}

fn srt(programs: &VideoPrograms) -> [VideoCommand; 2] {
    let command = |from: String, to: String| VideoCommand {
        program: programs.srt.clone(),
        words: vec!["-quiet".to_owned(), from, to],
        configuration: None,
    };
    [
        command(
            format!("udp://127.0.0.1:{ENTRY}"),
            format!("srt://{VIEWER}:{LINK_PORT}?latency={WITHIN}"),
        ),
        command(
            format!("srt://:{LINK_PORT}?mode=listener&latency={WITHIN}"),
            format!("udp://127.0.0.1:{EXIT}"),
        ),
    ]
}

impl fmt::Display for VideoSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
