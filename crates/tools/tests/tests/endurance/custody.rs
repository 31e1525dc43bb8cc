//! Custody on disk: processes of a row are killed while downloads, uploads and tunnels pass, and no byte is wrong.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{scope, sleep};
use std::time::Duration;

use hermes_tests::nginx::Nginx;
use hermes_tests::{Node, free, program};
use tempfile::TempDir;

use crate::asked;

/// Kills, one in each round; `HERMES_CUSTODY_KILLS` asks for another number, `HERMES_SEED` for others.
const KILLS: usize = 6;

/// Bytes of a transfer.
const SIZE: usize = 5 << 20;

/// What curl sends and receives a second at most: a transfer takes a second.
const RATE: &str = "5M";

/// Tries of a client whose own node was killed.
const TRIES: usize = 20;

/// What can be killed, from the client to the origin.
const VICTIMS: [&str; 4] = ["alice", "core", "edge", "origin"];

/// Three nodes and an origin.
struct Row {
    nodes: [Node; 3],
    origin: Nginx,
    /// Alice's HTTP proxy.
    web: SocketAddr,
    content: Vec<u8>,
}

impl Row {
    fn start(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let content: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take(SIZE)
            .collect();
        let origin = Nginx::start(
            "location / { dav_methods PUT; client_max_body_size 10m; }",
            |root| fs::write(root.join("file"), &content).unwrap(),
        );

        let web = free::tcp();
        let hops = [free::udp(), free::udp()];
        let folders = VICTIMS[..3].iter().map(|_| tempfile::tempdir().unwrap());
        let folders: Vec<TempDir> = folders.collect();
        let keys: Vec<String> = folders.iter().map(|folder| key(folder.path())).collect();
        let neighbour = |name: &str, index: usize, at: Option<SocketAddr>| {
            let address = at.map_or(String::new(), |at| format!(", address: \"{at}\""));
            format!("{name}: {{ key: \"{}\"{address} }}", keys[index])
        };
        let document = |listener: String, neighbours: String, route: String| {
            format!(
                "defaults: {{ custody: {{ key_file: key, spool: {{ folder: spool }}, neighbours: {{ {neighbours} }} }} }}\n\
                 listeners: {{ in: {{ {listener} }} }}\nroutes: [ {route} ]\n\
                 upstreams: {{ next: {{ endpoints: [\"127.0.0.1:9\"] }} }}\n"
            )
        };
        let onward = "{ to: next, retry: { custody: true } }".to_owned();
        let end = format!(
            "{{ terminate: \"{}\", retry: {{ keep_for: 30s, per_try_timeout: 10s, keep_bytes: 8MiB, \
             on: [gateway-error, interrupted], backoff: {{ base: 50ms, max: 500ms }} }} }}",
            origin.address()
        );
        let hop = |index: usize| format!("udp: \"{}\", ingress: custody", hops[index]);
        let files = [
            document(
                format!("http: \"{web}\""),
                neighbour("next", 1, Some(hops[0])),
                onward.clone(),
            ),
            document(
                hop(0),
                format!(
                    "{}, {}",
                    neighbour("before", 0, None),
                    neighbour("next", 2, Some(hops[1]))
                ),
                onward,
            ),
            document(hop(1), neighbour("before", 1, None), end),
        ];
        let mut started = folders
            .into_iter()
            .zip(files)
            .zip(VICTIMS)
            .map(|((folder, yaml), name)| Node::start_in(folder, name, &yaml, &[]));
        Self {
            nodes: std::array::from_fn(|_| started.next().unwrap()),
            origin,
            web,
            content,
        }
    }

    /// A process is gone for a while.
    fn kill(&mut self, victim: usize, pause: Duration) {
        match self.nodes.get_mut(victim) {
            Some(node) => node.kill(),
            None => self.origin.kill(),
        }
        sleep(pause);
        match self.nodes.get_mut(victim) {
            Some(node) => node.restart(),
            None => self.origin.restart(),
        }
    }
}

fn key(folder: &Path) -> String {
    let said = program::command()
        .arg("custody-key")
        .arg(folder.join("key"))
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// A transfer by curl, which is made again where it broke off. How often it was tried; `None` if it never succeeded.
struct Transfer {
    arguments: Vec<String>,
}

impl Transfer {
    fn new(row: &Row, arguments: &[&str]) -> Self {
        let mut all = vec![
            "-sSf".to_owned(),
            "--limit-rate".to_owned(),
            RATE.to_owned(),
        ];
        all.extend(["-x".to_owned(), format!("http://{}", row.web)]);
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Self { arguments: all }
    }

    fn run(&self) -> Option<usize> {
        (1..=TRIES).find(|_| {
            let curl = Command::new("curl").args(&self.arguments).output().unwrap();
            if !curl.status.success() {
                sleep(Duration::from_millis(200));
            }
            curl.status.success()
        })
    }
}

/// The transfers of a round, and where they leave what came.
fn transfers(row: &Row, folder: &Path) -> ([Transfer; 3], [PathBuf; 3]) {
    let source = row.origin.root().join("file");
    let origin = row.origin.address();
    let kept = [
        folder.join("plain"),
        folder.join("tunnel"),
        row.origin.root().join("put"),
    ];
    let file = format!("http://{origin}/file");
    let [plain, tunnel] = [&kept[0], &kept[1]].map(|path| path.to_str().unwrap());
    let put = format!("http://{origin}/put");
    let all = [
        Transfer::new(row, &["-C", "-", "-o", plain, &file]),
        Transfer::new(row, &["-p", "-C", "-", "-o", tunnel, &file]),
        Transfer::new(row, &["-T", source.to_str().unwrap(), &put]),
    ];
    (all, kept)
}

#[test]
fn whichever_process_dies_while_custody_is_on_disk_no_byte_is_wrong() {
    let seed = asked("HERMES_SEED", 1) as u64;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut row = Row::start(seed);
    let mut tries = [[0; 3]; VICTIMS.len()];
    for round in 0..asked("HERMES_CUSTODY_KILLS", KILLS) {
        let victim = random.usize(..VICTIMS.len());
        let folder = tempfile::tempdir().unwrap();
        let (all, kept) = transfers(&row, folder.path());
        let tried = scope(|threads| {
            let running = all
                .each_ref()
                .map(|transfer| threads.spawn(|| transfer.run()));
            sleep(Duration::from_millis(random.u64(..1000)));
            row.kill(victim, Duration::from_millis(random.u64(..500)));
            running.map(|running| running.join().unwrap())
        });

        for (index, (path, tried)) in kept.iter().zip(tried).enumerate() {
            let what = format!("round {round}, {}, transfer {index}", VICTIMS[victim]);
            assert!(tried.is_some(), "{what}: it never succeeded");
            assert!(
                fs::read(path).unwrap() == row.content,
                "{what}: wrong bytes"
            );
            tries[victim][index] += tried.unwrap() - 1;
        }
        fs::remove_file(&kept[2]).unwrap();
    }

    for (victim, [plain, tunnel, put]) in VICTIMS.iter().zip(tries) {
        eprintln!(
            "{victim}: {plain} downloads, {tunnel} tunnels and {put} uploads were tried again"
        );
    }
    for (victim, [plain, _, _]) in VICTIMS.iter().zip(tries).skip(1) {
        assert_eq!(plain, 0, "a client has seen that {victim} died");
    }
}
