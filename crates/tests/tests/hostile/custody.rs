//! Custody: a port that strangers flood, and uploads that no one takes.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hermes_tests::{Node, curl, eventually, free, origins, program};
use tempfile::TempDir;

use crate::standing::mute;

/// Requests of others while a port is flooded.
const OTHERS: usize = 10;

/// For how long a flood goes on if others are not served: far longer than they need.
const FLOOD: Duration = Duration::from_secs(60);

/// Uploads that no one takes, and the bytes of each.
const UPLOADS: usize = 120;
const UPLOAD: usize = 2 * 1024 * 1024;

/// Makes a node's key in its folder; its public part.
fn key(folder: &Path) -> String {
    let said = program::command()
        .arg("custody-key")
        .arg(folder.join("key"))
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// Two nodes, of which the first passes what it is asked for to the second in custody; the second has a listener of its own, too.
struct Hop {
    near: Node,
    far: Node,
    at: SocketAddr,
}

impl Hop {
    fn start() -> Self {
        let folders: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let keys = folders.each_ref().map(|folder| key(folder.path()));
        let at = free::udp();
        let [first, second] = folders;
        let far = format!(
            r#"
            workers: 1
            defaults: {{ custody: {{ key_file: key, neighbours: {{ near: {{ key: "{}" }} }} }} }}
            listeners: {{ hops: {{ udp: "{at}", ingress: custody }}, web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            keys[0]
        );
        let near = format!(
            r#"
            workers: 1
            defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: "{}", address: "{at}" }} }} }} }}
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: far, retry: {{ custody: true }} }} ]
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

    /// Processor time of both, in ticks of 10 ms.
    fn ticks(&self) -> u64 {
        ticks(self.near.pid()) + ticks(self.far.pid())
    }
}

/// Asks an origin by a node, as someone else does.
fn is_served(node: &Node, origin: impl std::fmt::Display) {
    let answer = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{origin}/bytes/1000"),
    ]);
    assert_eq!(
        (answer.status, answer.body.len()),
        (200, 1000),
        "{answer:?}"
    );
}

/// Processor time of a process, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = rest.split_whitespace().collect();
    let time = |index: usize| fields[index].parse::<u64>().unwrap();
    time(11) + time(12)
}

#[test]
fn a_flood_of_a_custody_port_leaves_others_their_turns() {
    let hop = Hop::start();
    let origin = origins::http();
    is_served(&hop.far, origin.address());

    let is_over = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let junk: [u8; 73] = std::array::from_fn(|at| if at == 0 { 0x14 } else { at as u8 });
            let until = Instant::now() + FLOOD;
            while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
                for _ in 0..100 {
                    drop(socket.send_to(&junk, hop.at));
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut served = 0;
        while served < OTHERS && !is_over.load(Ordering::Relaxed) {
            is_served(&hop.far, origin.address());
            served += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        served
    });
    assert_eq!(served, OTHERS, "while the port was flooded");
    // Then the neighbour is heard again.
    is_served(&hop.near, origin.address());
}

#[test]
fn uploads_in_custody_that_no_one_takes_cost_no_processor_and_stop_no_one() {
    let hop = Hop::start();
    let origin = origins::http();
    let mute = mute();
    is_served(&hop.near, origin.address());

    let body = vec![b'x'; UPLOAD];
    let head =
        format!("POST http://{mute}/ HTTP/1.1\r\nHost: {mute}\r\nContent-Length: {UPLOAD}\r\n\r\n");
    let near = hop.near.address("web");
    let uploads: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let head = head.clone();
            let body = body.clone();
            let stream = std::net::TcpStream::connect(near).unwrap();
            let writer = stream.try_clone().unwrap();
            std::thread::spawn(move || {
                use std::io::Write;
                let mut writer = writer;
                drop(writer.write_all(head.as_bytes()));
                // It ends when the connection is shut down.
                drop(writer.write_all(&body));
            });
            stream
        })
        .collect();
    eventually("the uploads", || {
        (hop.far.exchanges().len() == UPLOADS).then_some(())
    });

    // Nothing moves any more, and nothing is done.
    let mut looked = Instant::now();
    let mut before = hop.ticks();
    eventually("rest", || {
        if looked.elapsed() < Duration::from_secs(1) {
            return None;
        }
        let spent = hop.ticks() - before;
        before += spent;
        looked = Instant::now();
        (spent < 90).then_some(())
    });
    is_served(&hop.near, origin.address());
    is_served(&hop.far, origin.address());

    for upload in uploads {
        drop(upload.shutdown(std::net::Shutdown::Both));
    }
    hop.near.idle();
    hop.far.idle();
}
