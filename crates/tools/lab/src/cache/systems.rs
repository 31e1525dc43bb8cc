//! The caches: one process each, before one origin.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peers::ports;
use crate::process::Process;

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CacheSystem {
    /// Hermes.
    Hermes,
    /// nginx with `proxy_cache` and revalidation.
    Nginx,
    /// Varnish with its built-in rules.
    Varnish,
    /// Squid as an accelerator.
    Squid,
}

/// How long a process may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Bytes of memory of each cache.
pub(super) const MEMORY: u64 = 64 << 20;

impl CacheSystem {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Hermes, Self::Nginx, Self::Varnish, Self::Squid];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::Squid => "squid",
        }
    }

    /// Those whose programs are there; the others are named.
    pub(super) fn installed(hermes: &Path) -> Vec<Self> {
        let is_there = |system: &Self| system.program(hermes).is_file();
        let (there, missing): (Vec<_>, Vec<_>) = Self::ALL.into_iter().partition(is_there);
        for system in missing {
            let name = system.name();
            eprintln!("hermes-lab: {name} is not installed, and not measured");
        }
        there
    }

    fn program(self, hermes: &Path) -> PathBuf {
        match self {
            Self::Hermes => hermes.to_owned(),
            Self::Nginx => "/usr/sbin/nginx".into(),
            Self::Varnish => "/usr/sbin/varnishd".into(),
            Self::Squid => "/usr/sbin/squid".into(),
        }
    }
}

/// A cache that is ready.
pub(super) struct RunningCache {
    pub address: SocketAddr,
    pub process: Process,
}

impl RunningCache {
    /// Starts a cache before this origin.
    ///
    /// # Errors
    /// When its program is missing, or does not listen.
    pub(super) async fn start(
        system: CacheSystem,
        hermes: &Path,
        folder: &Path,
        origin: SocketAddr,
    ) -> Result<Self> {
        let folder = folder.join(system.name());
        fs::create_dir_all(&folder)?;
        if matches!(system, CacheSystem::Varnish | CacheSystem::Squid) {
            // Those that root starts go on as users of their own.
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        }
        let address = ports::free()?;
        let home = folder.to_string_lossy().into_owned();
        let file = folder.join("configuration").to_string_lossy().into_owned();
        let (text, words) = match system {
            CacheSystem::Hermes => (
                of_hermes(address, origin),
                vec!["run".to_owned(), file.clone()],
            ),
            CacheSystem::Nginx => (
                of_nginx(address, origin, &home),
                words(&["-p", &home, "-c", &file]),
            ),
            CacheSystem::Varnish => (of_varnish(origin), of_varnish_words(address, &home, &file)),
            CacheSystem::Squid => (
                of_squid(address, origin, &home),
                words(&["-N", "-f", &file]),
            ),
        };
        fs::write(&file, text).context(file)?;

        let program = system.program(hermes);
        let mut process = Process::start_in(None, system.name(), &folder, &program, &words)?;
        let step = Duration::from_millis(20);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            process.check()?;
            let is_open = TcpStream::connect(address).await.is_ok();
            tokio::time::sleep(step).await;
            if is_open && answers(address).await {
                return Ok(Self { address, process });
            }
        }
        bail!("{} does not listen:\n{}", system.name(), process.log())
    }
}

/// Whether it answers: to listen is not to be ready.
async fn answers(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return false;
    };
    let request = format!("GET /ready/0 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let sent = stream.write_all(request.as_bytes()).await;
    sent.is_ok() && stream.read_to_end(&mut answer).await.is_ok() && !answer.is_empty()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn of_hermes(address: SocketAddr, origin: SocketAddr) -> String {
    format!(
        "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\nworkers: 1\n\
         memory: {{ total: 512MiB }}\nplugs: {{ cache: {{ memory: {MEMORY}B }} }}\n\
         listeners: {{ web: {{ http: \"{address}\", gateway: true }} }}\n\
         upstreams: {{ origin: {{ endpoints: [\"{origin}\"] }} }}\n\
         routes: [{{ terminate: origin, through: [cache] }}]\n"
    )
}

fn of_nginx(address: SocketAddr, origin: SocketAddr, home: &str) -> String {
    format!(
        "daemon off;\npid {home}/pid;\nerror_log {home}/error.log;\nworker_processes 1;\nevents {{ worker_connections 4096; }}\nhttp {{\n  \
         access_log off;\n  keepalive_requests 1000000000;\n  client_body_temp_path {home}/body;\n  proxy_temp_path {home}/proxy;\n  \
         fastcgi_temp_path {home}/fastcgi;\n  uwsgi_temp_path {home}/uwsgi;\n  scgi_temp_path {home}/scgi;\n  \
         proxy_cache_path {home}/cache keys_zone=z:16m max_size={MEMORY} inactive=1h use_temp_path=off;\n  \
         upstream origin {{ server {origin}; keepalive 64; }}\n  \
         server {{\n    listen {address};\n    location / {{\n      proxy_pass http://origin;\n      proxy_http_version 1.1;\n      \
         proxy_set_header Connection \"\";\n      proxy_set_header Host $host;\n      proxy_cache z;\n      proxy_cache_revalidate on;\n      \
         proxy_cache_lock on;\n    }}\n  }}\n}}\n"
    )
}

fn of_varnish(origin: SocketAddr) -> String {
    format!(
        "vcl 4.1;\nbackend default {{ .host = \"{}\"; .port = \"{}\"; }}\n",
        origin.ip(),
        origin.port()
    )
}

fn of_varnish_words(address: SocketAddr, home: &str, file: &str) -> Vec<String> {
    let at = address.to_string();
    let memory = format!("malloc,{MEMORY}");
    let state = format!("{home}/state");
    words(&[
        "-F",
        "-a",
        &at,
        "-f",
        file,
        "-n",
        &state,
        "-s",
        &memory,
        "-p",
        "default_grace=0",
        "-p",
        "default_keep=3600",
    ])
}

fn of_squid(address: SocketAddr, origin: SocketAddr, home: &str) -> String {
    format!(
        "http_port {address} accel defaultsite=origin.example\n\
         cache_peer {} parent {} 0 no-query originserver no-digest no-netdb-exchange\n\
         http_access allow all\ncache_mem {} MB\nmaximum_object_size_in_memory 8 MB\npid_filename {home}/pid\ncache_log {home}/cache.log\n\
         access_log none\ncoredump_dir {home}\nvisible_hostname lab\nshutdown_lifetime 0 seconds\npinger_enable off\n",
        origin.ip(),
        origin.port(),
        MEMORY >> 20
    )
}
