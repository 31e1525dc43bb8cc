//! The paper's policy for databases: the address of a client decides whether its connection is carried, as POST, to MariaDB.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hermes_lab::topology::{Namespace, Plug, Topology};
use hermes_tests::eventually::eventually;
use hermes_tests::program;
use tempfile::TempDir;

use crate::overlay::{Deciding, Overlay, Plan};
use crate::row::Running;

/// The server, in a folder of its own. Dropping it ends it.
struct Database {
    process: Running,
    folder: TempDir,
}

/// Where it listens, in a network of its own.
const SERVER: &str = "127.0.0.1:3306";

/// Who may, and who may not, by the policy.
const CLIENT: &str = "192.168.252.20";
const OTHER: &str = "192.168.252.22";

/// What the node beside the clients listens at, and its address for each of them.
const ENTRY: &str = "0.0.0.0:10000";
const ENTRY_OF_CLIENT: &str = "192.168.252.21";
const ENTRY_OF_OTHER: &str = "192.168.252.23";

/// A row of the tables: lines of text, as base64 of anything would be.
const ROW: usize = 60_000;

/// Tables, and the bytes of their rows.
const TABLES: [(&str, usize); 4] = [
    ("data0", 0),
    ("data1", 1_000_000),
    ("data25", 25_000_000),
    ("data50", 50_000_000),
];

fn tool(variable: &str) -> OsString {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} names no program: ./test real sets it"))
}

impl Database {
    fn start(network: &Namespace) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = format!("--datadir={}", folder.path().join("data").display());
        let installed = Command::new(tool("HERMES_MARIADB_INSTALL_DB"))
            .args([
                "--no-defaults",
                "--user=root",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                &data,
            ])
            .output()
            .unwrap();
        assert!(installed.status.success(), "{}", said(&installed));

        let log = File::create(folder.path().join("log")).unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let process = network
            .command(tool("HERMES_MARIADBD"))
            .args([
                "--no-defaults",
                "--user=root",
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=0",
                &data,
            ])
            .args([
                "--bind-address=127.0.0.1",
                "--port=3306",
                "--max-allowed-packet=16M",
            ])
            .args([
                format!("--socket={}", at("sock")),
                format!("--pid-file={}", at("pid")),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();

        let mut database = Self {
            process: Running(process),
            folder,
        };
        database.ready();
        database
    }

    /// Waits until it answers, and makes its only user, whom it knows by the address of the last node.
    fn ready(&mut self) {
        let grant = "CREATE USER reader@127.0.0.1 IDENTIFIED BY 'secret'; \
                     CREATE DATABASE store; GRANT ALL ON store.* TO reader@127.0.0.1;";
        eventually("MariaDB answers", || {
            let ended = self.process.0.try_wait().unwrap();
            assert!(ended.is_none(), "MariaDB ended:\n{}", self.log());
            let done = self.by_its_root(grant);
            done.status.success().then_some(())
        });
    }

    fn by_its_root(&self, sql: &str) -> Output {
        let socket = format!("--socket={}", self.folder.path().join("sock").display());
        Command::new(tool("HERMES_MARIADB"))
            .args(["--no-defaults", "--user=root", &socket, "--execute", sql])
            .output()
            .unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- MariaDB: its log\n{}---", self.log());
        }
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .concat()
}

/// How clients reach a server: from a network, at an address.
struct Reach<'a> {
    network: &'a Namespace,
    host: &'a str,
    port: u16,
}

impl Reach<'_> {
    /// One of MariaDB's clients, as the user.
    fn client(&self, variable: &str) -> Command {
        let mut command = self.network.command(tool(variable));
        command
            .args([
                "--no-defaults",
                "--protocol=tcp",
                "--skip-ssl",
                "--user=reader",
                "--password=secret",
            ])
            .args([
                format!("--host={}", self.host),
                format!("--port={}", self.port),
            ])
            .stdin(Stdio::null());
        command
    }

    /// A dump of everything, into a file.
    fn dump(&self, to: &Path) -> Vec<u8> {
        let ended = self
            .client("HERMES_MARIADB_DUMP")
            .args([
                "--skip-comments",
                "--single-transaction",
                "--no-tablespaces",
                "store",
            ])
            .stdout(File::create(to).unwrap())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", said(&ended));
        fs::read(to).unwrap()
    }
}

/// Statements that make the tables and fill them.
fn fill(file: &Path) {
    let mut to = BufWriter::new(File::create(file).unwrap());
    let mut state = 1u64;
    for (table, size) in TABLES {
        writeln!(
            to,
            "CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, body MEDIUMTEXT);"
        )
        .unwrap();
        let mut left = size;
        while left > 0 {
            let length = left.min(ROW);
            writeln!(
                to,
                "INSERT INTO {table} (body) VALUES ('{}');",
                text(length, &mut state)
            )
            .unwrap();
            left -= length;
        }
    }
    to.flush().unwrap();
}

/// Letters that do not repeat.
fn text(length: usize, state: &mut u64) -> String {
    let mut text = String::with_capacity(length);
    for _ in 0..length {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        text.push(char::from(b'a' + u8::try_from(*state % 26).unwrap()));
    }
    text
}

fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["overlay", "client", "other"] {
        topology.add(name).unwrap();
    }
    for (name, from, to) in [
        ("client", CLIENT, ENTRY_OF_CLIENT),
        ("other", OTHER, ENTRY_OF_OTHER),
    ] {
        let addresses = [format!("{from}/31"), format!("{to}/31")];
        let plug = |namespace, address| Plug { namespace, address };
        topology
            .cable(plug(name, &addresses[0]), plug("overlay", &addresses[1]))
            .unwrap();
    }
    topology
}

fn overlay(topology: &Topology, deciding: Deciding) -> Overlay {
    Overlay::start(&Plan {
        deciding,
        servers: ["127.0.0.1:1", "127.0.0.1:1", SERVER],
        database: ENTRY,
        command: &|| {
            topology
                .namespace("overlay")
                .unwrap()
                .command(program::path())
        },
    })
}

#[test]
fn the_address_of_a_client_decides_whether_it_reaches_the_database() {
    let topology = networks();
    let inside = topology.namespace("overlay").unwrap();
    let _database = Database::start(inside);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fill(&file("fill.sql"));

    let direct = Reach {
        network: inside,
        host: "127.0.0.1",
        port: 3306,
    };
    let client = Reach {
        network: topology.namespace("client").unwrap(),
        host: ENTRY_OF_CLIENT,
        port: 10_000,
    };
    let other = Reach {
        network: topology.namespace("other").unwrap(),
        host: ENTRY_OF_OTHER,
        port: 10_000,
    };

    for deciding in Deciding::BOTH {
        let overlay = overlay(&topology, deciding);
        if deciding == Deciding::BOTH[0] {
            load(&client, &file("fill.sql"));
        }

        let expected = direct.dump(&file("direct"));
        assert!(
            expected.len() > 76_000_000,
            "a dump of {} bytes",
            expected.len()
        );
        let got = client.dump(&file("through"));
        assert!(
            got == expected,
            "{deciding:?}: {} and {} bytes",
            got.len(),
            expected.len()
        );

        refused(&overlay, &other, deciding);
    }
}

/// The tables come through the overlay, too: contents flow in both directions.
fn load(client: &Reach<'_>, file: &PathBuf) {
    let loaded = client
        .client("HERMES_MARIADB")
        .arg("store")
        .stdin(File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(loaded.status.success(), "{}", said(&loaded));
}

/// The client is told that there is no connection, at once; the operator gets the reason at each node.
fn refused(overlay: &Overlay, other: &Reach<'_>, deciding: Deciding) {
    let got = other
        .client("HERMES_MARIADB")
        .args(["store", "--execute", "SELECT 1"])
        .output()
        .unwrap();
    assert!(!got.status.success(), "{deciding:?}: {}", said(&got));
    assert!(
        said(&got).contains("Lost connection"),
        "{deciding:?}: {}",
        said(&got)
    );

    let entry = overlay.dp.record(|record| {
        record["source"]
            .as_str()
            .is_some_and(|source| source.starts_with(OTHER))
    });
    assert_eq!(entry["status"], 403, "{entry}");
    let gate = overlay.gate.record(|record| record["status"] == 403);
    let name = gate["refusal"].as_str().unwrap();
    let why = why(overlay, name);
    let decided = match deciding {
        Deciding::Rules => "policy.default",
        Deciding::Rego => "prototype",
    };
    assert!(why.contains(decided), "{deciding:?}: {why}");
}

/// What the gate says about a refusal.
fn why(overlay: &Overlay, name: &str) -> String {
    let socket = overlay.gate.socket();
    let output = Command::new(program::path())
        .args(["why", name, "--admin"])
        .arg(socket)
        .output()
        .unwrap();
    said(&output)
}
