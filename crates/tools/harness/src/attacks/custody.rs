//! A port of custody, flooded by a stranger.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Attack, CALM, Effort, Party, Place, Stage};
use crate::{Node, free, origins, program};

/// For how long the lab floods.
const TIME: Duration = Duration::from_secs(4);

/// Bytes of each datagram: those of a HELLO.
const JUNK: usize = 73;

/// Datagrams that no neighbour has sent, as fast as one process sends.
pub(super) const FLOOD: Attack = Attack {
    name: "custody-flood",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "73 bytes of junk to a custody port, as fast as one process sends, for 4 s",
    prepare: stage,
    run,
};

/// The second of two nodes, with its custody port `hops`.
///
/// # Panics
/// When the nodes do not start.
pub fn stage() -> Stage {
    let origin = origins::http();
    let hop = Hop::beside(&origin, HopEnd::default());
    Stage::of(hop.far).keeping(hop.near).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    let begin = Instant::now();
    let sent = flood(stage.node.address("hops"), || begin.elapsed() >= TIME);
    Effort {
        bytes: sent * JUNK as u64,
        attempts: sent,
        ..Effort::default()
    }
}

/// Sends junk to a port until it is over; how many datagrams.
///
/// # Panics
/// When there is no socket.
pub fn flood(at: SocketAddr, is_over: impl Fn() -> bool) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let junk: [u8; JUNK] = std::array::from_fn(|at| if at == 0 { 0x14 } else { at as u8 });
    let mut sent = 0;
    while !is_over() {
        for _ in 0..100 {
            sent += u64::from(socket.send_to(&junk, at).is_ok());
        }
    }
    sent
}

/// Makes a node's key in its folder; its public part.
fn key(folder: &Path) -> String {
    let said = program::command()
        .arg("custody-key")
        .arg(folder.join("key"))
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// Two nodes: the first passes its requests to the second in custody; the second has a listener of its own, too.
pub struct Hop {
    /// Whom clients ask.
    pub near: Node,
    /// The next.
    pub far: Node,
    /// The custody port of that.
    pub at: SocketAddr,
}

/// Additions to the second node, as the inside of YAML collections.
#[derive(Debug, Clone, Copy, Default)]
pub struct HopEnd<'a> {
    /// Routes, each with a comma behind it.
    pub routes: &'a str,
    /// Upstreams.
    pub upstreams: &'a str,
    /// Where the first node asks it, if not at its port: someone stands between them.
    pub asked_at: Option<SocketAddr>,
}

impl Hop {
    /// As [`Self::start`], with a bystander's listener at each, for exchanges with this origin.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn beside<T: Clone>(origin: &origins::Origin<T>, end: HopEnd<'_>) -> Self {
        Self::start(
            &format!("{CALM}: {{ http: 127.0.0.1:0 }},"),
            &format!(
                "{{ match: {{ listener: {CALM} }}, terminate: \"{}\" }},",
                origin.address()
            ),
            end,
        )
    }

    /// Starts both, each with these listeners and routes before its own, given as the inside of their YAML collections; the second has
    /// more of them.
    ///
    /// # Panics
    /// When they do not start.
    pub fn start(listeners: &str, routes: &str, end: HopEnd<'_>) -> Self {
        let HopEnd {
            routes: further,
            upstreams,
            asked_at,
        } = end;
        let folders: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let keys = folders.each_ref().map(|folder| key(folder.path()));
        let at = free::udp();
        let asked_at = asked_at.unwrap_or(at);
        let [first, second] = folders;
        let far = format!(
            r#"
            workers: 1
            defaults: {{ custody: {{ key_file: key, neighbours: {{ near: {{ key: "{}" }} }} }} }}
            listeners: {{ {listeners} hops: {{ udp: "{at}", ingress: custody }}, web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {routes} {further} {{ terminate: true }} ]
            upstreams: {{ {upstreams} }}
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            keys[0]
        );
        let near = format!(
            r#"
            workers: 1
            defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: "{}", address: "{asked_at}" }} }} }} }}
            listeners: {{ {listeners} web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {routes} {{ to: far, retry: {{ custody: true }} }} ]
            upstreams: {{ far: {{ endpoints: ["127.0.0.1:9"] }} }}
            "#,
            keys[1]
        );
        Self {
            far: Node::start_in(second, "far", &far, &[]),
            near: Node::start_in(first, "near", &near, &[]),
            at,
        }
    }
}
