//! Dumps of a database, through nodes that let in by the client's address, and directly.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};

use super::super::bench::PaperBench;
use super::bench::{CaseBench, START_LIMIT, STEP, client_tls, server_tls};
use crate::peers::ports;
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::Figure;
use crate::report::Sheet;

/// The address of clients that may reach the database, and one of those that may not.
const CLIENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);

/// Bytes of a row of a table.
const ROW: usize = 60_000;

/// MariaDB, in a folder of its own.
struct Database {
    folder: PathBuf,
    port: SocketAddr,
    process: Process,
}

pub(super) fn measure(
    case: &CaseBench<'_>,
    progress: &mut Progress,
    sheet: &mut Sheet,
) -> Result<()> {
    let CaseBench {
        papers: bench,
        pki,
        sizes,
    } = *case;
    let mut database = Database::start(bench)?;
    database.ready()?;
    for size in sizes {
        database.fill(*size)?;
    }

    let [listen, next] = [ports::free()?, ports::free()?];
    let _nodes = [
        bench.node(None, "db-gate", &database_gate(pki, next, database.port))?,
        bench.node(None, "db-entry", &database_entry(pki, listen, next))?,
    ];
    let begin = Instant::now();
    while database.dump(listen, sizes[0]).is_err() {
        ensure!(begin.elapsed() < START_LIMIT, "no dump through the nodes");
        std::thread::sleep(STEP);
    }

    // The policy is in force, or the figures are those of an open door.
    ensure!(
        hears_nothing(listen, OTHER_CLIENT)?,
        "a client at another address reaches the database"
    );
    for round in 0..bench.options.rounds.repeats {
        progress.step(&format!("database, round {round}"));
        for size in sizes {
            let case = format!("dump of {size} MB");
            let direct = database.dump(database.port, *size)?;
            let through = database.dump(listen, *size)?;
            let time = || Figure::less("time", "ms");
            sheet.add(&case, "direct", time(), direct.as_secs_f64() * 1e3);
            sheet.add(&case, "hermes", time(), through.as_secs_f64() * 1e3);
        }
    }
    Ok(())
}

/// Whether a connection from this address ends before the greeting of the database.
fn hears_nothing(at: SocketAddr, from: Ipv4Addr) -> Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&at.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(START_LIMIT))?;
    let mut greeting = [0; 64];
    Ok(!matches!(stream.read(&mut greeting), Ok(1..)))
}

fn database_entry(pki: &Pki, listen: SocketAddr, next: SocketAddr) -> String {
    format!(
        "fields: [user, clientip]\nlisteners: {{ db: {{ tcp: \"{listen}\", target: \"db.lab:3306\", set: {{ clientip: \"{{peer.address}}\" }} }} }}\n\
         routes: [ {{ tunnel: {{ post: /org/db/ }}, to: gate }} ]\n\
         upstreams: {{ gate: {{ endpoints: [\"{next}\"], http: 2, tls: {{ {} }} }} }}\n",
        client_tls(pki)
    )
}

fn database_gate(pki: &Pki, listen: SocketAddr, database: SocketAddr) -> String {
    format!(
        "fields: [user, clientip]\nlisteners: {{ overlay: {{ http: \"{listen}\", auth: mtls, tls: {{ {} }} }} }}\n\
         peers: {{ entry: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\n\
         routes: [ {{ match: {{ method: POST, path: /org/db/, fields: {{ clientip: {CLIENT} }} }}, tunnel: post, terminate: db }} ]\n\
         upstreams: {{ db: {{ endpoints: [\"{database}\"] }} }}\n",
        server_tls(pki)
    )
}

impl Database {
    fn start(bench: &PaperBench<'_>) -> Result<Self> {
        let folder = bench.folder().join("database");
        fs::create_dir(&folder)?;
        let data = format!("--datadir={}", folder.join("data").display());
        let installed = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--user=root", "--skip-test-db"])
            .args(["--auth-root-authentication-method=normal", &data])
            .stdin(Stdio::null())
            .output()
            .context("mariadb-install-db")?;
        ensure!(
            installed.status.success(),
            "{}",
            String::from_utf8_lossy(&installed.stderr)
        );

        let port = ports::free()?;
        let words = [
            "--no-defaults".to_owned(),
            "--user=root".to_owned(),
            "--skip-name-resolve".to_owned(),
            data,
            format!("--bind-address={}", port.ip()),
            format!("--port={}", port.port()),
            format!("--socket={}", folder.join("sock").display()),
            format!("--pid-file={}", folder.join("pid").display()),
        ];
        let process = Process::start("mariadbd", bench.folder(), Path::new("mariadbd"), &words)?;
        Ok(Self {
            folder,
            port,
            process,
        })
    }

    /// Waits until the server answers, and creates its user and its database.
    fn ready(&mut self) -> Result<()> {
        let grant = "CREATE USER reader@'127.0.0.%' IDENTIFIED BY 'secret'; CREATE DATABASE store; GRANT ALL ON store.* TO reader@'127.0.0.%';";
        let begin = Instant::now();
        while self.run_as_root(grant.as_bytes()).is_err() {
            self.process.check()?;
            ensure!(begin.elapsed() < START_LIMIT, "{}", self.process.log());
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn run_as_root(&self, sql: &[u8]) -> Result<()> {
        let file = self.folder.join("statements.sql");
        fs::write(&file, sql)?;
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--user=root"])
            .arg(format!("--socket={}", self.folder.join("sock").display()))
            .stdin(File::open(&file)?)
            .output()
            .context("mariadb")?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Creates a table of so many megabytes.
    fn fill(&self, megabytes: u64) -> Result<()> {
        let mut sql = Vec::new();
        writeln!(
            sql,
            "CREATE TABLE store.t{megabytes} (id INT PRIMARY KEY AUTO_INCREMENT, body MEDIUMTEXT);"
        )?;
        let mut random = fastrand::Rng::with_seed(megabytes);
        let mut left = megabytes as usize * 1_000_000;
        while left > 0 {
            let row: String = (0..left.min(ROW)).map(|_| random.lowercase()).collect();
            writeln!(
                sql,
                "INSERT INTO store.t{megabytes} (body) VALUES ('{row}');"
            )?;
            left -= row.len();
        }
        self.run_as_root(&sql)
    }

    /// The time that a dump of a table takes.
    fn dump(&self, at: SocketAddr, megabytes: u64) -> Result<Duration> {
        let begin = Instant::now();
        let output = Command::new("mariadb-dump")
            .args(["--no-defaults", "--protocol=tcp", "--skip-ssl"])
            .args(["--user=reader", "--password=secret", "--no-tablespaces"])
            .args([
                format!("--host={}", at.ip()),
                format!("--port={}", at.port()),
            ])
            .args(["--single-transaction", "store", &format!("t{megabytes}")])
            .stdin(Stdio::null())
            .output()
            .context("mariadb-dump")?;
        let least = megabytes as usize * 1_000_000;
        ensure!(
            output.status.success() && output.stdout.len() > least,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(begin.elapsed())
    }
}
