//! Many tunnels over one link, and the cost of one for the others.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use crate::Node;
use crate::h2c::{Client, Stream};
use crate::origins::{self, Origin, Request};
use crate::raw::{End, Raw};

/// Bytes that each stalled tunnel has to give, of which its client takes 4 KiB.
pub const STALLED_BYTES: usize = 16 * 1024;

/// The window of a client that does not read.
const NARROW: u32 = 4 * 1024;

/// Clients at once in [`Crowd::short_tunnels`].
const CLIENTS: usize = 8;

/// `entry`, one link, `end`, an origin.
#[derive(Debug)]
pub struct Crowd {
    /// Where clients come in.
    pub entry: Node,
    /// Where the link ends.
    pub end: Node,
    /// An HTTP server, which tunnels lead to.
    pub origin: Origin<Request>,
    echo: Origin<Vec<u8>>,
}

impl Default for Crowd {
    fn default() -> Self {
        Self::new()
    }
}

impl Crowd {
    /// Starts both nodes, one worker each, so that there is one link.
    pub fn new() -> Self {
        let end = Node::start(
            "end",
            r#"
            workers: 1
            listeners: { web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], limits: { streams: 2000 } } }
            routes: [ { terminate: true } ]
            egress: { allow: [127.0.0.0/8] }
            "#,
        );

        let entry = Node::start(
            "entry",
            &format!(
                r#"
                workers: 1
                listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ streams: 2000 }} }} }}
                routes: [ {{ to: end }} ]
                upstreams: {{ end: {{ endpoints: ["{}"], http: 2 }} }}
                "#,
                end.address("web")
            ),
        );

        Self {
            entry,
            end,
            origin: origins::http(),
            echo: origins::tcp_echo(),
        }
    }

    /// A client that takes 4 KiB of a stream and no more until it is read.
    pub fn narrow_client(&self) -> Client {
        Client::with_windows(self.entry.address("web"), NARROW, 1 << 30)
    }

    /// A tunnel in which this many bytes were asked for, and are not read.
    ///
    /// # Panics
    /// When it is refused.
    pub fn stalled(&self, client: &Client, bytes: usize) -> Stream {
        let origin = self.origin.address().to_string();
        let mut tunnel = client.tunnel(&origin, &[]).unwrap();
        tunnel.send(format!(
            "GET /bytes/{bytes} HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n"
        ));
        tunnel
    }

    /// So many bytes through a tunnel of its own, read to the end.
    ///
    /// # Panics
    /// When they do not come.
    pub fn fetch(&self, bytes: usize) {
        let origin = self.origin.address().to_string();
        let mut raw = Raw::tunnel(self.entry.address("web"), &origin, "").unwrap();
        raw.send(format!(
            "GET /bytes/{bytes} HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n"
        ));
        let (head, body) = raw.response();
        assert_eq!((head.status(), body.len()), (200, bytes));
    }

    /// Reads a stalled tunnel to its end: a head, and its bytes.
    ///
    /// # Panics
    /// When something is missing.
    pub fn finish(tunnel: &mut Stream, bytes: usize) {
        let all = tunnel.rest().unwrap();
        let content = all
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .map(|end| all.len() - end - 4);
        assert_eq!(content, Some(bytes));
    }

    /// Opens this many tunnels, a few at a time, says something in each, and ends it.
    ///
    /// # Panics
    /// When one is refused, reset, or says something else.
    pub fn short_tunnels(&self, count: usize) {
        let (proxy, echo) = (self.entry.address("web"), self.echo.address().to_string());
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let echo = &echo;
                scope.spawn(move || {
                    for number in (client..count).step_by(CLIENTS) {
                        let mut raw = Raw::tunnel(proxy, echo, "").unwrap();
                        raw.send(number.to_string());
                        raw.finish();
                        assert_eq!(raw.rest(), (number.to_string().into_bytes(), End::Closed));
                    }
                });
            }
        });
    }

    /// How many connections from `entry` the exchanges at `end` came on.
    pub fn links(&self) -> usize {
        let sources: BTreeSet<String> = self
            .end
            .access()
            .iter()
            .map(|record| record["source"].to_string())
            .collect();
        sources.len()
    }
}

/// Resident memory of a node, in bytes (proc(5), `VmRSS`).
///
/// # Panics
/// Where there is no such file.
pub fn resident(node: &Node) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();

    line.trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .unwrap()
        * 1024
}

/// Processor time that a node has used, in ticks (proc(5), fields 14 and 15 of `stat`).
///
/// # Panics
/// Where there is no such file.
pub fn ticks(node: &Node) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    [11, 12]
        .iter()
        .map(|at| fields[*at].parse::<u64>().unwrap())
        .sum()
}
