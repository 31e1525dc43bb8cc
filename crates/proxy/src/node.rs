//! The running process: workers, sockets, administration, and the change from one configuration to the next.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hermes_config::model::{Document, ListenAddress};
use hermes_config::{Loaded, Problem, Problems, child, read};
use hermes_net::drain::Ended;
use hermes_net::worker::{self, Workers};
use hermes_net::{Drain, Resolver};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::task::TaskTracker;

use crate::admin::{self, Control};
use crate::listeners::table::{BindError, Changes, ListenerView, Prepared};
use crate::listeners::{self, Door, ListenerTable};
use crate::seeing::{AccessSink, Seeing};
use crate::snapshot::{Snapshot, node_name};
use crate::worker::{Shared, Worker};

/// How long an administrator's request may take when the process ends.
const ADMIN_END: Duration = Duration::from_secs(1);

/// Sets the log filter at run time.
pub type SetLog = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A running proxy.
pub struct Proxy {
    node: Arc<Node>,
    drain: Drain,
    /// Administration ends after the data plane, so that one can see how that drains.
    admin: Drain,
    workers: Option<Workers>,
}

/// What administration works on.
struct Node {
    shared: Arc<Shared>,
    file: PathBuf,
    admin_socket: PathBuf,
    /// Where metrics are served over TCP; set once, at the start.
    own_metrics: Option<SocketAddr>,
    started: Instant,
    set_log: SetLog,
    changing: Mutex<Changing>,
    drain: Drain,
}

/// What only one change at a time may touch.
struct Changing {
    table: ListenerTable,
    /// Tells the workers of new sockets; emptied to end them.
    doors: Vec<UnboundedSender<Door>>,
}

/// What a reload did.
#[derive(Debug, Clone, Serialize)]
pub struct ReloadReport {
    /// Number of the snapshot now in force.
    pub revision: u64,
    /// What happened to the listeners.
    pub listeners: Changes,
    /// Upstreams whose configuration changed, or that are new.
    pub upstreams_changed: Vec<String>,
    /// Routes now in force.
    pub routes: usize,
    /// Keys that changed and are in force only after a restart.
    pub needs_restart: Vec<&'static str>,
}

/// Everything that is wrong with a configuration and the files it names.
///
/// # Errors
/// The problems, each with its place, in their order.
pub fn check(loaded: Loaded) -> Result<(), Problems> {
    let files = loaded.files.clone();
    let built = Snapshot::build(loaded, None, &Seeing::new("check", AccessSink::off()));
    built.map(drop).map_err(|problems| problems.in_order(&files))
}

impl Proxy {
    /// Starts a proxy: binds every listener, then serves. To be called inside a runtime, where administration lives; the data
    /// plane has threads of its own.
    ///
    /// # Errors
    /// What is wrong with the configuration, or cannot be bound.
    pub fn start(loaded: Loaded, file: PathBuf, set_log: SetLog) -> Result<Self, Problems> {
        let access = AccessSink::open(&loaded.document.log.access).map_err(|error| one("log.access", &error))?;
        let seeing = Seeing::new(&node_name(&loaded), access);
        let places = loaded.places.clone();
        let snapshot = Snapshot::build(loaded, None, &seeing)?;
        seeing.users(snapshot.document.metrics.users);
        let count = worker_count(&snapshot);
        let table = ListenerTable::default();
        let prepared = table.prepare(&snapshot.document, count).map_err(|errors| unbound(errors, &places))?;
        let metrics = metrics_listener(&snapshot)?;
        let own_metrics = metrics.as_ref().and_then(|listener| listener.local_addr().ok());
        let snapshot = Arc::new(snapshot.own(&own_addresses(&table, &prepared, own_metrics)));
        let admin_socket = admin_socket(&snapshot);
        let shared = Arc::new(Shared {
            snapshot: ArcSwap::new(snapshot.clone()),
            seeing,
            targets: hermes_upstream::Budget::default(),
        });
        let drain = Drain::new();
        let resolver = Resolver::system().map_err(|error| one("", &error))?;
        let (workers, doors) =
            start_workers(count, &shared, resolver, &drain).map_err(|error| one("workers", &error))?;
        let mut changing = Changing { table, doors };
        changing.table.apply(prepared, &changing.doors, &drain.watch());
        let (changing, started) = (Mutex::new(changing), Instant::now());
        let node = Node { shared, file, admin_socket, own_metrics, started, set_log, changing, drain: drain.clone() };
        let proxy = Self { node: Arc::new(node), drain, admin: Drain::new(), workers: Some(workers) };
        proxy.serve_admin(metrics)?;
        Ok(proxy)
    }

    fn serve_admin(&self, metrics: Option<TcpListener>) -> Result<(), Problems> {
        let (node, watch) = (self.node.clone(), self.admin.watch());
        let seeing = node.shared.seeing.clone();
        let socket = admin::bind(&node.admin_socket).map_err(|error| {
            let remedy = "give each node a name of its own (`node:`), or set `admin.socket`";
            let Problems(mut problems) = one("admin.socket", &error);
            problems.iter_mut().for_each(|problem| problem.remedy = Some(remedy.to_owned()));
            Problems(problems)
        })?;
        watch.spawn(admin::serve_unix(socket, node, seeing.clone(), watch.clone()));
        watch.spawn(seeing.clone().watch_long(watch.clone()));
        let shared = self.node.shared.clone();
        let config = move || shared.snapshot.load().document.trace.clone();
        watch.spawn(seeing.clone().export(config, watch.clone()));
        if let Some(listener) = metrics {
            watch.spawn(admin::serve_metrics(listener, seeing, watch.clone()));
        }
        Ok(())
    }

    /// The listeners and where they are bound.
    pub fn listeners(&self) -> Vec<ListenerView> {
        let snapshot = self.node.shared.snapshot.load();
        self.node.changing.lock().table.views(&snapshot.document)
    }

    /// The Unix socket of administration.
    pub fn admin_socket(&self) -> &Path {
        &self.node.admin_socket
    }

    /// The node's name.
    pub fn node(&self) -> Arc<str> {
        self.node.shared.snapshot.load().node.clone()
    }

    /// Reads the configuration again and puts it in force.
    ///
    /// # Errors
    /// What is wrong with it; then nothing has changed.
    pub fn reload(&self) -> Result<ReloadReport, Problems> {
        self.node.reload()
    }

    /// Ends the proxy: nothing new is accepted, what is open may finish within `deadline`, the rest is cut off.
    /// Called again, with another deadline, it goes on from where it was.
    pub async fn drain(&mut self, deadline: Duration) -> Ended {
        let ended = self.drain.drain(deadline).await;
        self.node.changing.lock().doors.clear();
        if let Some(workers) = self.workers.take() {
            // A worker ends at once now; its thread is waited for so that the last records are written.
            let _ = tokio::task::spawn_blocking(|| workers.join()).await;
        }
        self.node.shared.seeing.flush_access(ADMIN_END);
        self.admin.drain(ADMIN_END).await;
        ended
    }
}

fn metrics_listener(snapshot: &Snapshot) -> Result<Option<TcpListener>, Problems> {
    match &snapshot.document.admin.metrics {
        Some(ListenAddress::Ip(address)) => {
            TcpListener::bind(address).map(Some).map_err(|error| one("admin.metrics", &error))
        }
        Some(ListenAddress::Unix(_)) | None => Ok(None),
    }
}

/// The addresses that no request may choose, because this process listens there.
fn own_addresses(table: &ListenerTable, prepared: &Prepared, metrics: Option<SocketAddr>) -> Vec<SocketAddr> {
    table.addresses(prepared).into_iter().chain(metrics).collect()
}

fn worker_count(snapshot: &Snapshot) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    snapshot.document.workers.map_or_else(processors, usize::from)
}

fn admin_socket(snapshot: &Snapshot) -> PathBuf {
    let configured = snapshot.document.admin.socket.as_ref().map(|socket| socket.0.clone());
    configured.unwrap_or_else(|| admin::default_socket(&snapshot.node))
}

type Doors = Vec<UnboundedSender<Door>>;

fn start_workers(
    count: usize,
    shared: &Arc<Shared>,
    resolver: Resolver,
    drain: &Drain,
) -> std::io::Result<(Workers, Doors)> {
    let (senders, receivers): (Doors, Vec<UnboundedReceiver<Door>>) = (0..count).map(|_| unbounded_channel()).unzip();
    let receivers = Arc::new(Mutex::new(receivers));
    let (shared, resolver, watch) = (shared.clone(), Arc::new(resolver), drain.watch());
    let workers = worker::spawn(count, "worker", move |_| {
        let (shared, resolver, watch) = (shared.clone(), resolver.clone(), watch.clone());
        let doors = receivers.lock().pop();
        async move {
            // Kept connections are no exchanges: the drain does not wait for them.
            let worker = Worker::new(shared, resolver, TaskTracker::new());
            if let Some(doors) = doors {
                listeners::run(worker, doors, watch).await;
            }
        }
    })?;
    Ok((workers, senders))
}

impl Node {
    fn reload(&self) -> Result<ReloadReport, Problems> {
        let reloaded = self.change();
        self.shared.seeing.reload(if reloaded.is_ok() { "applied" } else { "refused" });
        reloaded
    }

    fn change(&self) -> Result<ReloadReport, Problems> {
        let mut changing = self.changing.lock();
        let loaded = read(&self.file, &|name| std::env::var(name).ok()).map_err(|flawed| flawed.judged(check))?;
        let (places, files) = (loaded.places.clone(), loaded.files.clone());
        let previous = self.shared.snapshot.load_full();
        let snapshot = Snapshot::build(loaded, Some(&previous), &self.shared.seeing);
        let snapshot = snapshot.map_err(|problems| problems.in_order(&files))?;
        let prepared = changing.table.prepare(&snapshot.document, changing.doors.len());
        let prepared = prepared.map_err(|errors| unbound(errors, &places))?;
        let snapshot = Arc::new(snapshot.own(&own_addresses(&changing.table, &prepared, self.own_metrics)));
        let unchanged = |name: &String| {
            let (old, new) = (previous.upstreams.get(name), snapshot.upstreams.get(name));
            old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new))
        };
        let upstreams_changed = snapshot.upstreams.keys().filter(|name| !unchanged(name)).cloned().collect();
        // New rules first: a new listener must find them.
        self.shared.snapshot.store(snapshot.clone());
        let Changing { table, doors } = &mut *changing;
        let listeners = table.apply(prepared, doors, &self.drain.watch());
        let routes = snapshot.document.routes.len();
        self.shared.seeing.users(snapshot.document.metrics.users);
        self.follow_log(&previous.document, &snapshot.document);
        let needs_restart = needs_restart(&previous.document, &snapshot.document);
        Ok(ReloadReport { revision: snapshot.revision, listeners, upstreams_changed, routes, needs_restart })
    }
}

impl Node {
    /// Logs as the new document says. What cannot be opened or read leaves the log as it was, and says so there.
    fn follow_log(&self, old: &Document, new: &Document) {
        if old.log.access != new.log.access {
            match AccessSink::open(&new.log.access) {
                Ok(sink) => self.shared.seeing.redirect_access(sink),
                Err(error) => tracing::error!(%error, "access records go on where they went"),
            }
        }
        if let Some(level) = new.log.level.as_deref().filter(|level| old.log.level.as_deref() != Some(level))
            && let Err(error) = (self.set_log)(level)
        {
            tracing::error!(error, "the log level stays as it was");
        }
    }
}

/// Keys that a running process cannot follow.
fn needs_restart(old: &Document, new: &Document) -> Vec<&'static str> {
    let changed =
        [("node", old.node != new.node), ("workers", old.workers != new.workers), ("admin", old.admin != new.admin)];
    changed.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}

impl Control for Node {
    fn status(&self) -> Value {
        let snapshot = self.shared.snapshot.load();
        let changing = self.changing.lock();
        let upstreams: Vec<_> = snapshot
            .document
            .upstreams
            .keys()
            .filter_map(|name| Some(snapshot.upstreams.get(name)?.status()))
            .collect();
        json!({
            "node": &*snapshot.node,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "config": { "file": self.file, "revision": snapshot.revision, "routes": snapshot.document.routes.len() },
            "workers": changing.doors.len(),
            "listeners": changing.table.views(&snapshot.document),
            "upstreams": upstreams,
            "exchanges": { "live": self.shared.seeing.live_count() },
            "draining": self.drain.watch().is_draining(),
        })
    }

    fn reload(&self) -> Result<Value, Value> {
        Self::reload(self).map(|report| json!(report)).map_err(|problems| json!({ "problems": problems }))
    }

    fn log_level(&self, filter: &str) -> Result<(), String> {
        (self.set_log)(filter)
    }
}

/// A problem that has no place in a file.
fn one(path: &str, error: &dyn std::fmt::Display) -> Problems {
    Problems(vec![Problem { place: None, path: path.to_owned(), reason: error.to_string(), remedy: None }])
}

fn unbound(errors: Vec<BindError>, places: &hermes_config::Places) -> Problems {
    let problem = |error: BindError| {
        let path = child("listeners", &error.name);
        Problem {
            place: places.locate(&path),
            path,
            reason: format!("cannot be bound: {}", error.reason),
            remedy: None,
        }
    };
    Problems(errors.into_iter().map(problem).collect())
}
