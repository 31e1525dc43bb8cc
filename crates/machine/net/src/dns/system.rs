//! The name servers and hosts in the machine's files, followed as they change: a laptop that joins
//! another network, a VPN that comes up, a container whose files are written after its start.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::Hosts;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::system_conf::parse_resolv_conf;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::answer::{DnsError, DnsErrorKind};
use super::sockets::Sockets;
use crate::clock;

/// How long a server may take before it is asked again.
#[doc(alias = "bound")]
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the files are looked at, where there are lookups.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_secs(1);

/// How long a lookup waits for such a look; a file system that stands still costs no more.
#[doc(alias = "bound")]
const LOOK_TIME: Duration = Duration::from_millis(250);

/// How long the absence of a name is cached, even if its zone allows more: a new name must not take
/// a day to be found.
#[doc(alias = "bound")]
const NEGATIVE_TTL: Duration = Duration::from_secs(60);

/// Bytes of a file that are read; blocklists of a hundred thousand hosts fit.
#[doc(alias = "bound")]
const FILE_BYTES: u64 = 16 << 20;

/// The files that name servers and hosts.
#[derive(Debug, Clone)]
pub struct SystemFiles {
    /// As `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// As `/etc/hosts`.
    pub hosts: PathBuf,
    /// Name servers that are not asked: this process itself.
    pub except: Vec<IpAddr>,
}

impl SystemFiles {
    /// The sources of this machine.
    #[must_use]
    pub fn new(except: &[IpAddr]) -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            except: except.to_owned(),
        }
    }
}

/// The current sources of lookups.
pub(super) struct NameSources {
    /// The resolver of name servers; an error without a server.
    pub(super) dns: Result<hickory_resolver::Resolver<Sockets>, DnsError>,
    pub(super) hosts: Hosts,
    pub(super) servers: Vec<NameServerConfig>,
    stamps: [Option<Stamp>; 2],
}

/// Tells whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Where [`NameSources`] comes from.
pub(super) struct Source {
    /// `None`: the files are not followed.
    files: Option<SystemFiles>,
    current: Mutex<Arc<NameSources>>,
    look: Mutex<Looking>,
}

struct Looking {
    last: Instant,
    /// One is under way; where a file system stands still it is the last.
    running: bool,
}

impl Source {
    /// A source that never changes.
    pub(super) fn fixed(server: NameServerConfig) -> Result<Self, NetError> {
        let servers = vec![server];
        let dns = build(servers.clone(), ResolverOpts::default())?;
        Ok(Self::new(
            None,
            NameSources {
                dns: Ok(dns),
                hosts: Hosts::default(),
                servers,
                stamps: [None, None],
            },
        ))
    }

    /// A source that follows these files. While they name no server, lookups that need one fail.
    pub(super) fn follow(files: SystemFiles) -> Self {
        let current = read(&files);
        if let Err(error) = &current.dns {
            tracing::warn!(%error, "names cannot be looked up in DNS until this is mended");
        }
        Self::new(Some(files), current)
    }

    fn new(files: Option<SystemFiles>, current: NameSources) -> Self {
        Self {
            files,
            current: Mutex::new(Arc::new(current)),
            look: Mutex::new(Looking {
                last: Instant::now(),
                running: false,
            }),
        }
    }

    /// The current sources. The files are read once in a while, on a thread of its own.
    pub(super) async fn current(self: &Arc<Self>) -> Arc<NameSources> {
        if self.files.is_some() && self.begins_look(LOOK) {
            let source = self.clone();
            let looked = tokio::task::spawn_blocking(move || source.look());
            let _ = timeout(LOOK_TIME, looked).await;
        }
        self.known()
    }

    /// The sources in force, without a look at the files.
    pub(super) fn known(&self) -> Arc<NameSources> {
        self.current.lock().clone()
    }

    /// Reads the files now, and forgets all DNS answers. It may block.
    pub(super) fn forget(&self) {
        if self.begins_look(Duration::ZERO) {
            self.look();
        }
        if let Ok(dns) = &self.known().dns {
            dns.clear_cache();
        }
    }

    fn begins_look(&self, pause: Duration) -> bool {
        let mut look = self.look.lock();
        let now = clock::now();
        let is_due = !look.running && now.saturating_duration_since(look.last) >= pause;
        if is_due {
            look.running = true;
            look.last = now;
        }
        is_due
    }

    fn look(&self) {
        if let Some(files) = &self.files
            && stamps(files) != self.known().stamps
        {
            self.change(files, read(files));
        }
        self.look.lock().running = false;
    }

    fn change(&self, files: &SystemFiles, mut new: NameSources) {
        let before = self.known();
        let file = files.resolv_conf.display();
        if let (Err(error), Ok(dns)) = (&new.dns, &before.dns) {
            // The file may be read between two writes, or the machine be between two networks.
            tracing::warn!(%error, "{file} was changed and names no server: those before are asked");
            new.dns = Ok(dns.clone());
            new.servers.clone_from(&before.servers);
        } else if addresses(&new.servers) != addresses(&before.servers) {
            let servers = addresses(&new.servers);
            tracing::info!(?servers, "{file} was changed: other name servers are asked");
        }
        *self.current.lock() = Arc::new(new);
    }
}

/// The addresses of name servers.
pub(super) fn addresses(servers: &[NameServerConfig]) -> Vec<IpAddr> {
    servers.iter().map(|server| server.ip).collect()
}

fn stamps(files: &SystemFiles) -> [Option<Stamp>; 2] {
    [&files.resolv_conf, &files.hosts].map(|file| {
        let metadata = fs::metadata(file).ok()?;
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        })
    })
}

fn read(files: &SystemFiles) -> NameSources {
    // Before the files: a change in between is seen at the next look.
    let stamps = stamps(files);
    let configured = name_servers(files);
    let (dns, servers) = match configured {
        Ok((servers, options)) => (build(servers.clone(), options), servers),
        Err(error) => (Err(error), Vec::new()),
    };

    let broken = |error: NetError| DnsError {
        kind: DnsErrorKind::Failed,
        name: files.resolv_conf.display().to_string(),
        rcode: None,
        detail: Some(error.to_string()),
    };
    let mut hosts = Hosts::default();
    if let Ok(text) = read_file(&files.hosts) {
        // An unreadable line is ignored.
        let _ = hosts.read_hosts_conf(&text[..]);
    }

    NameSources {
        dns: dns.map_err(broken),
        hosts,
        servers,
        stamps,
    }
}

fn name_servers(files: &SystemFiles) -> Result<(Vec<NameServerConfig>, ResolverOpts), NetError> {
    let (config, mut options) = parse_resolv_conf(read_file(&files.resolv_conf)?)?;
    options.timeout = options.timeout.min(QUERY_TIMEOUT);

    let (_, _, mut servers) = config.into_parts();
    servers.retain(|server| !files.except.contains(&server.ip));
    if servers.is_empty() {
        return Err(NetError::Message(
            "no name server is listed but this node itself",
        ));
    }
    Ok((servers, options))
}

fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut text = Vec::new();
    fs::File::open(file)?
        .take(FILE_BYTES)
        .read_to_end(&mut text)?;
    Ok(text)
}

fn build(
    servers: Vec<NameServerConfig>,
    mut options: ResolverOpts,
) -> Result<hickory_resolver::Resolver<Sockets>, NetError> {
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    // The hosts file is asked here, so that a name in it is never asked of a server for the other family.
    options.use_hosts_file = ResolveHosts::Never;
    options.negative_max_ttl = Some(NEGATIVE_TTL);
    hickory_resolver::Resolver::builder_with_config(config, Sockets::default())
        .with_options(options)
        .build()
}
