//! Two cases of policy from the paper: requests with a role reach a site or its administration, beside nginx; and a database is dumped by those
//! whose address may, beside a direct connection.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};

use super::PaperBench;
use super::sheet::{PageHead, PaperGoal, Sheet};
use crate::experiment::Figure;
use crate::origin;
use crate::peers::ports;
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::progress::Progress;

pub(super) const HEAD: PageHead = PageHead {
    title: "Two cases of policy",
    command: "cases",
    words: "Requests: who has the role of an administrator reaches the site and its administration, a member the site alone, and no one else anything; \
            the time of a download by curl, through a pair of nodes of Hermes under mutual TLS, through a pair of nginx with the same rules, and from the \
            origin. Database: mariadb-dump of tables of this size, through a node that lets in by the client's address and carries the connection \
            as POST to another one, and directly.",
};

/// Megabytes of a download, and of a table.
const LONG: &[u64] = &[1, 25, 50];
const SHORT: &[u64] = &[1, 10];

/// How long a system may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(50);

/// Roles, and whether each reaches the site and its administration.
const MATRIX: [(&str, [bool; 2]); 3] = [
    ("member", [true, false]),
    ("admin", [true, true]),
    ("guest", [false, false]),
];

/// The sites.
const SITES: [&str; 2] = ["web.lab", "admin.lab"];

/// The address of clients that may reach the database, and one of those that may not.
const CLIENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER_CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);

/// Bytes of a row of a table.
const ROW: usize = 60_000;

pub(super) fn measure(bench: &PaperBench<'_>) -> Result<Sheet> {
    let sizes = if bench.options.short { SHORT } else { LONG };
    let pki = Pki::create(bench.folder())?;
    let mut sheet = Sheet::default();
    let mut progress = Progress::new(2 * bench.options.repeats as usize);
    requests(bench, &pki, (sizes, &mut progress), &mut sheet)?;
    database(bench, &pki, (sizes, &mut progress), &mut sheet)?;
    progress.end();
    Ok(sheet)
}

/// Where clients enter a system.
struct SiteEntry {
    name: &'static str,
    address: SocketAddr,
    /// Whether it asks for a role.
    has_policy: bool,
}

fn requests(
    bench: &PaperBench<'_>,
    pki: &Pki,
    (sizes, progress): (&[u64], &mut Progress),
    sheet: &mut Sheet,
) -> Result<()> {
    let (_origin, origin) = origin::start(bench.folder())?;
    let hermes = [ports::free()?, ports::free()?];
    let nginx = [ports::free()?, ports::free()?];
    let mut processes = vec![
        bench.node(None, "gate", &gate(pki, hermes[1], origin.http))?,
        bench.node(None, "entry", &entry(pki, hermes))?,
    ];
    processes.extend(nginx_pair(bench, nginx, origin.http)?);
    let entries = [
        SiteEntry {
            name: "direct",
            address: origin.http,
            has_policy: false,
        },
        SiteEntry {
            name: "nginx",
            address: nginx[0],
            has_policy: true,
        },
        SiteEntry {
            name: "hermes",
            address: hermes[0],
            has_policy: true,
        },
    ];

    for entry in &entries {
        ready(entry, &mut processes)?;
        if entry.has_policy {
            check_matrix(entry)?;
        }
    }
    for round in 0..bench.options.repeats {
        progress.step(&format!("requests, round {round}"));
        for size in sizes {
            for entry in &entries {
                let (status, took) = curl(entry.address, (SITES[0], "member"), size << 20)?;
                ensure!(status == 206, "{}: answered with {status}", entry.name);
                let case = format!("request of {size} MB");
                sheet.add(&case, entry.name, Figure::less("time", "ms"), took);
            }
        }
    }
    Ok(())
}

fn ready(entry: &SiteEntry, processes: &mut [Process]) -> Result<()> {
    let begin = Instant::now();
    while !matches!(curl(entry.address, (SITES[0], "member"), 1), Ok((206, _))) {
        for process in processes.iter_mut() {
            process.check()?;
        }
        let logs: String = processes.iter().map(Process::log).collect();
        ensure!(
            begin.elapsed() < START_LIMIT,
            "{} does not start: {logs}",
            entry.name
        );
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// Every role gets what the rules say.
fn check_matrix(entry: &SiteEntry) -> Result<()> {
    for (role, allowed) in MATRIX {
        for (site, is_allowed) in SITES.into_iter().zip(allowed) {
            let (status, _) = curl(entry.address, (site, role), 1)?;
            let expected = if is_allowed { 206 } else { 403 };
            ensure!(
                status == expected,
                "{}: {role} at {site}: {status}, not {expected}",
                entry.name
            );
        }
    }
    Ok(())
}

/// A download by curl: the status, and how long it took in milliseconds, from the connection on.
fn curl(to: SocketAddr, (site, role): (&str, &str), bytes: u64) -> Result<(u16, f64)> {
    let output = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code} %{time_total}"])
        .args(["-x", &format!("http://{to}")])
        .args(["-H", &format!("x-role: {role}")])
        .args(["-r", &format!("0-{}", bytes - 1)])
        .arg(format!("http://{site}/bulk"))
        .stdin(Stdio::null())
        .output()
        .context("curl")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (status, time) = said.split_once(' ').context(said.clone())?;
    Ok((status.parse()?, time.parse::<f64>()? * 1e3))
}

/// The node beside the clients. The role stands for a login that the paper's clients have, in all systems alike.
fn entry(pki: &Pki, [listen, next]: [SocketAddr; 2]) -> String {
    format!(
        "fields: [user, x-role]\nlisteners: {{ web: {{ http: \"{listen}\", accepts: [x-role] }} }}\nroutes: [ {{ to: gate }} ]\n\
         upstreams: {{ gate: {{ endpoints: [\"{next}\"], http: 1, tls: {{ {} }} }} }}\n",
        client_tls(pki)
    )
}

/// The node beside the site.
fn gate(pki: &Pki, listen: SocketAddr, site: SocketAddr) -> String {
    format!(
        "fields: [user, x-role]\nlisteners: {{ overlay: {{ http: \"{listen}\", auth: mtls, tls: {{ {} }} }} }}\n\
         peers: {{ entry: {{ certificate: {PROXY}, speaks_for: [\"*\"] }} }}\n\
         policy:\n  default: deny\n  rules:\n    \
         - {{ name: members, match: {{ target: web.lab, fields: {{ x-role: member }} }}, allow: true }}\n    \
         - {{ name: admins, match: {{ fields: {{ x-role: admin }} }}, allow: true }}\n\
         routes: [ {{ terminate: site }} ]\nupstreams: {{ site: {{ endpoints: [\"{site}\"] }} }}\n",
        server_tls(pki)
    )
}

fn client_tls(pki: &Pki) -> String {
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let ca = pki.ca();
    format!(
        "ca_file: {}, cert_file: {}, key_file: {}, server_name: {PROXY}",
        ca.display(),
        cert.display(),
        key.display()
    )
}

fn server_tls(pki: &Pki) -> String {
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let ca = pki.ca();
    format!(
        "client_ca_file: {}, cert_file: {}, key_file: {}",
        ca.display(),
        cert.display(),
        key.display()
    )
}

/// Two nginx, the second of which has the rules.
fn nginx_pair(
    bench: &PaperBench<'_>,
    [first, second]: [SocketAddr; 2],
    site: SocketAddr,
) -> Result<Vec<Process>> {
    let rules = "  map \"$http_x_role $host\" $is_allowed { default 0; \"member web.lab\" 1; \"admin web.lab\" 1; \"admin admin.lab\" 1; }\n";
    let pair = [
        ("nginx-entry", first, second, ""),
        ("nginx-gate", second, site, rules),
    ];
    let mut processes = Vec::new();
    for (name, listen, to, rules) in pair {
        let home = bench.folder().join(name);
        fs::create_dir(&home)?;
        let check = if rules.is_empty() {
            ""
        } else {
            "if ($is_allowed = 0) { return 403; }"
        };
        let file = home.join("nginx.conf");
        fs::write(&file, nginx_file(&home, (listen, to), (rules, check)))?;
        let words = [
            "-p".as_ref(),
            home.as_os_str(),
            "-c".as_ref(),
            file.as_os_str(),
        ];
        processes.push(Process::start(
            name,
            bench.folder(),
            Path::new("nginx"),
            &words,
        )?);
    }
    Ok(processes)
}

fn nginx_file(
    home: &Path,
    (listen, to): (SocketAddr, SocketAddr),
    (rules, check): (&str, &str),
) -> String {
    let home = home.display();
    format!(
        "daemon off;\npid {home}/pid;\nerror_log {home}/error.log;\nworker_processes 2;\nevents {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {home}/body;\n  proxy_temp_path {home}/proxy;\n  \
         fastcgi_temp_path {home}/fastcgi;\n  uwsgi_temp_path {home}/uwsgi;\n  scgi_temp_path {home}/scgi;\n{rules}  \
         upstream next {{ server {to}; keepalive 64; }}\n  server {{\n    listen {listen};\n    location / {{\n      {check}\n      \
         proxy_pass http://next;\n      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      \
         proxy_set_header Host $host;\n      proxy_max_temp_file_size 0;\n    }}\n  }}\n}}\n"
    )
}

/// MariaDB, in a folder of its own.
struct Database {
    folder: PathBuf,
    port: SocketAddr,
    process: Process,
}

fn database(
    bench: &PaperBench<'_>,
    pki: &Pki,
    (sizes, progress): (&[u64], &mut Progress),
    sheet: &mut Sheet,
) -> Result<()> {
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

    ensure!(
        hears_nothing(listen, OTHER_CLIENT)?,
        "a client at another address hears the database"
    );
    for round in 0..bench.options.repeats {
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

/// Whether a connection from this address ends before the database has said anything.
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

    /// Waits until it answers, and makes its user and its database.
    fn ready(&mut self) -> Result<()> {
        let grant = "CREATE USER reader@'127.0.0.%' IDENTIFIED BY 'secret'; CREATE DATABASE store; GRANT ALL ON store.* TO reader@'127.0.0.%';";
        let begin = Instant::now();
        while self.by_its_root(grant.as_bytes()).is_err() {
            self.process.check()?;
            ensure!(begin.elapsed() < START_LIMIT, "{}", self.process.log());
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn by_its_root(&self, sql: &[u8]) -> Result<()> {
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

    /// Makes a table of so many megabytes.
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
        self.by_its_root(&sql)
    }

    /// Dumps a table: how long that took.
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

/// What the paper compares with: nginx for requests, a direct connection for the database.
pub(super) fn goals(sheet: &Sheet) -> Vec<PaperGoal> {
    let mut goals = Vec::new();
    for (case, other, most) in LONG.iter().flat_map(|size| {
        [
            (format!("request of {size} MB"), "nginx", 1.2),
            (format!("dump of {size} MB"), "direct", 1.2),
        ]
    }) {
        let of = |system| sheet.of(&case, system, "time");
        if let (Some(own), Some(theirs)) = (of("hermes"), of(other)) {
            let value = own.median / theirs.median;
            goals.push(PaperGoal {
                words: format!("{case}: time to that of {other}, at most {most}"),
                value,
                is_reached: value <= most,
            });
        }
    }
    goals
}
