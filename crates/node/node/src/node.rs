//! The running process: workers, sockets and administration, from start to drain. Its changes are in [`crate::change`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_admit::current_snapshot::CurrentSnapshot;
use hermes_admit::decision_log::decisions_file;
use hermes_admit::devices::Devices;
use hermes_admit::joins::Attachments;
use hermes_admit::memory_limits;
use hermes_admit::node_name::node_name;
use hermes_admit::outliving::Outliving;
use hermes_admit::refusals::account::Account;
use hermes_admit::refusals::remembered::LastRefusals;
use hermes_admit::shares::Shares;
use hermes_admit::snapshot::{Draft, Snapshot};
use hermes_admit::tunnels::Tunnels;
use hermes_admit::worker::{Shared, Worker};
use hermes_config::model::{Document, Listener, Tun};
use hermes_config::{Loaded, Places, Problems};
use hermes_ip::NameLeases;
use hermes_listen as listeners;
use hermes_listen::table::{ListenerView, Prepared};
use hermes_listen::{Door, ListenerTable, PassedSockets, device_upkeep};
use hermes_net::drain::Ended;
use hermes_net::worker::{self, Workers};
use hermes_net::{Drain, LocalAddresses, PassedSocket, Resolver, Watch};
use hermes_observe::admin;
use hermes_observe::{AccessSink, Telemetry};
use hermes_plug::{PlugChanges, Plugs};
use hermes_rules::packets::prefix_of;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::NodeHandle;
use crate::builtin;
use crate::change::{Watched, follow, keep_time};
use crate::check::{Proposal, log_warnings, one, unbound, warnings};
use crate::documents::{Deadline, DocumentSource, Documents};
use crate::metrics::{Endpoint, Metrics};
use crate::process::{Changing, LogFilter, Node, own_addresses};
use crate::scarcity;
use crate::upkeep::Upkeep;
use crate::why::SupposedExchange;

/// How long exchanges may go on once the node is told to stop: the time that a restart may take.
#[doc(alias("bound", "drain"))]
const DRAIN: Duration = Duration::from_secs(30);

/// How long an administrator's request may take when the process ends.
#[doc(alias = "bound")]
const ADMIN_END: Duration = Duration::from_secs(1);

/// How long a change that is under way may take when the process ends.
#[doc(alias = "bound")]
const CHANGE_END: Duration = Duration::from_secs(1);

/// A running proxy.
pub struct Proxy {
    pub(crate) node: Arc<Node>,
    drain: Drain,
    /// Administration ends after the data plane, so that an operator sees how that drains.
    admin: Drain,
    workers: Option<Workers>,
    /// It has a socket of administration.
    is_administered: bool,
}

impl Proxy {
    /// Starts a proxy: binds every listener, then serves. To be called inside a runtime, where administration lives; the data
    /// plane has threads of its own. Later documents come from `source`. Listeners whose sockets were `passed` to the process use
    /// those. The configuration may name these `plugs`, now and when it changes.
    ///
    /// # Errors
    /// The problems of the configuration, or sockets that cannot be bound.
    pub fn start(
        loaded: Loaded,
        source: impl Into<DocumentSource>,
        log: Box<dyn LogFilter>,
        passed: impl Into<PassedSockets>,
        plugs: Plugs,
    ) -> Result<Self, Problems> {
        let plugs = builtin::beneath(plugs);
        let source = source.into();
        let configured = Configured::read(loaded, &source, &plugs)?;
        let document = configured.draft.document();
        configured.telemetry.users(document.metrics.users);
        memory_limits::apply(&document.memory);

        let workers = worker_count(document);
        let admin = Drain::new();
        let admin_socket = admin_socket(&configured.draft);
        let mut passed = passed.into();
        let passed_admin = passed.take_unix(&admin_socket);
        // Bound before a thread starts: an address that is taken fails the start, and nothing else.
        let mut sockets = NodeSockets::bind(&configured, passed, workers, &admin)?;

        let local = LocalAddresses::now();
        let own = sockets.own_addresses();
        let doors = sockets.prepared.doors();
        let snapshot = Arc::new(configured.draft.with_sockets(doors, &own, &local));
        let descriptors = sockets.table.passed().descriptors().clone();
        let devices = sockets.table.devices(workers);
        let plane = DataPlane::start(configured.telemetry, snapshot, local, devices)?;

        // From here on nothing can fail but the socket of administration.
        plugs.start(plane.drain.watch());
        configured.plugs.apply();
        let changing = sockets.serve(
            configured.documents,
            plane.doors,
            &plane.shared,
            &plane.drain,
        );
        watch_plugs(&plugs, &plane.shared.telemetry);
        let node = Node {
            shared: plane.shared,
            source,
            admin_socket,
            started: Instant::now(),
            log,
            plugs,
            changing: Mutex::new(changing),
            drain: plane.drain.clone(),
            upkeep: plane.upkeep,
            resolver: plane.resolver,
            deadline: watch::Sender::new(Deadline::None),
            descriptors,
        };

        let mut proxy = Self {
            node: Arc::new(node),
            drain: plane.drain,
            admin,
            workers: Some(plane.workers),
            is_administered: false,
        };

        proxy.serve_admin(passed_admin.as_ref())?;
        Ok(proxy)
    }

    fn serve_admin(&mut self, passed: Option<&PassedSocket>) -> Result<(), Problems> {
        let node = self.node.clone();
        let watch = self.admin.watch();
        let telemetry = node.shared.telemetry.clone();
        let socket = admin_listener(&node, passed)?;
        self.is_administered = socket.is_some();
        if let Some(socket) = socket {
            watch.spawn(admin::serve_unix(
                socket,
                node,
                telemetry.clone(),
                watch.clone(),
            ));
        }

        watch.spawn(telemetry.clone().watch_long(watch.clone()));
        watch.spawn(scarcity::watch(telemetry.shares().clone(), watch.clone()));
        watch.spawn(self.node.shared.local.clone().follow(watch.clone()));
        watch.spawn(memory_limits::enforce(watch.clone()));
        watch.spawn(keep_time(self.node.clone(), watch.clone()));
        let current = self.node.shared.snapshot.clone();
        let config = move || {
            let snapshot = current.load();
            (
                snapshot.document.trace.clone(),
                snapshot.reports.collector.clone(),
            )
        };

        watch.spawn(telemetry.clone().export(config, watch.clone()));
        let current = self.node.shared.snapshot.clone();
        let service = move || {
            let snapshot = current.load();
            snapshot.reports.decisions.as_ref()?.service.clone()
        };
        watch.spawn(telemetry.send_decisions(service, watch.clone()));
        Ok(())
    }

    /// Watches the file, its includes and the files they name, and reloads when they change: whatever the document says if
    /// `always`, else while it says `watch: true`.
    pub fn watch_files(&self, always: bool) {
        let watch = self.admin.watch();
        let watched = Watched::begin(&self.node.shared.snapshot.load());
        watch.spawn(follow(self.node.clone(), always, watched, watch.clone()));
    }

    /// How long a drain may take, by the configuration in force.
    pub fn drain_time(&self) -> Duration {
        self.node
            .shared
            .snapshot
            .load()
            .document
            .drain
            .map_or(DRAIN, |drain| drain.0)
    }

    /// The listeners and where they are bound.
    pub fn listeners(&self) -> Vec<ListenerView> {
        let snapshot = self.node.shared.snapshot.load();
        self.node.changing.lock().table.views(&snapshot.document)
    }

    /// The Unix socket of administration; none where its file system is read-only.
    pub fn admin_socket(&self) -> Option<&Path> {
        self.is_administered.then_some(&*self.node.admin_socket)
    }

    /// Waits until each TUN device that the configuration asks for was opened or could not be, for this long at most; returns those that
    /// are not there, each with the reason.
    pub async fn missing_devices(&self, limit: Duration) -> Vec<String> {
        const AGAIN: Duration = Duration::from_millis(20);
        let devices = &self.node.shared.devices;
        let snapshot = self.node.shared.snapshot.load_full();
        let settled = async {
            while !devices.pending(&snapshot.document).is_empty() {
                tokio::time::sleep(AGAIN).await;
            }
        };
        // Devices that are still pending are not there.
        let _ = tokio::time::timeout(limit, settled).await;

        let missing = devices.missing(&snapshot.document).into_iter();
        let pending = devices.pending(&snapshot.document).into_iter();
        missing
            .map(|missing| format!("{}: {}", missing.device, missing.reason))
            .chain(pending.map(|name| format!("{name}: it is still being opened")))
            .collect()
    }

    /// The node's name.
    pub fn node(&self) -> Arc<str> {
        self.node.shared.snapshot.load().node.name.clone()
    }

    /// Changes the node, from any thread.
    pub fn handle(&self) -> NodeHandle {
        NodeHandle(self.node.clone())
    }

    /// Puts the document of the start under the condition that it is confirmed: within `time`, or within the time that was running
    /// when the process before ended. A document that was confirmed before is under none.
    pub fn await_confirmation(&self, time: Option<Duration>) {
        self.node.begin_condition(time);
    }

    /// The account of a refusal by its name, or of the exchange that was refused; `None` if it is not remembered. It may block.
    pub fn why(&self, id: &str) -> Option<Account> {
        self.node.why(id)
    }

    /// The forecast of a supposed exchange. Where it asks filters, that blocks.
    ///
    /// # Errors
    /// The question is none, in words.
    pub fn suppose(&self, supposed: &SupposedExchange) -> Result<Account, String> {
        self.node.forecast(supposed)
    }

    /// Resolves when the document was not confirmed in time, and there is no earlier one to return to.
    pub async fn unconfirmed(&self) {
        let mut deadline = self.node.deadline.subscribe();
        // The node has the sender.
        let _ = deadline
            .wait_for(|deadline| *deadline == Deadline::Missed)
            .await;
    }

    /// Ends the proxy: nothing new is accepted, open exchanges may finish within `deadline`, the rest is cut off.
    /// Called again, with another deadline, it goes on from where it was.
    pub async fn drain(&mut self, deadline: Duration) -> Ended {
        self.node.descriptors.clear();
        let ended = self.drain.drain(deadline).await;
        // A reload that hangs, at a file of a machine that is gone, has it for ever; the doors end with the process then.
        let changing = self.node.changing.try_lock_for(CHANGE_END);
        let is_hanging = changing.is_none();
        if let Some(mut changing) = changing {
            changing.doors.clear();
        }
        if let Some(workers) = self.workers.take() {
            // A worker ends at once now; its thread is waited for so that the last records are written.
            let joined = tokio::task::spawn_blocking(|| workers.join());
            if !is_hanging {
                let _ = joined.await;
            }
        }

        self.node.shared.telemetry.flush_access(ADMIN_END);
        self.node.shared.telemetry.flush_decisions(ADMIN_END);
        self.node
            .shared
            .snapshot
            .load()
            .reports
            .connections
            .flush(ADMIN_END);
        self.admin.drain(ADMIN_END).await;
        ended
    }
}

/// Shows the gauges of the plugs in the metrics.
fn watch_plugs(plugs: &Plugs, telemetry: &Telemetry) {
    let whole = plugs.whole.clone();
    telemetry.watch_plugs(move || whole.metrics());
}

/// A configuration that was read and is sound, with the telemetry that it asks for.
struct Configured {
    telemetry: Arc<Telemetry>,
    documents: Documents,
    /// Where the parts of the document are written.
    places: Places,
    draft: Draft,
    plugs: PlugChanges,
}

impl Configured {
    /// Builds the rules, and logs keys without effect.
    fn read(loaded: Loaded, source: &DocumentSource, plugs: &Plugs) -> Result<Self, Problems> {
        let access = AccessSink::open(&loaded.document.log.access)
            .map_err(|error| one("log.access", &error))?;
        // Where it has none, the snapshot is not built, which says so.
        let name = node_name(&loaded).unwrap_or_default();
        let telemetry = Telemetry::new(&name, access);
        telemetry
            .redirect_decisions(decisions_file(&loaded.document))
            .map_err(|error| one("log.decisions.file", &error))?;
        let documents = Documents::begin(&loaded, &name, source);

        let places = loaded.places.clone();
        let warnings = warnings(&loaded);
        let Proposal { draft, plugs } = Proposal::new(loaded, None, &telemetry, plugs, false)?;
        log_warnings(&warnings);

        Ok(Self {
            telemetry,
            documents,
            places,
            draft,
            plugs,
        })
    }
}

/// The sockets of the node, which are bound and not yet served.
struct NodeSockets {
    table: ListenerTable,
    prepared: Prepared,
    metrics: Metrics,
    endpoint: Endpoint,
}

impl NodeSockets {
    /// Binds the sockets of the document, or takes passed ones.
    fn bind(
        configured: &Configured,
        passed: PassedSockets,
        workers: usize,
        admin: &Drain,
    ) -> Result<Self, Problems> {
        let document = configured.draft.document();
        let mut table = ListenerTable::new(passed);
        let prepared = table
            .prepare(document, workers)
            .map_err(|errors| unbound(errors, &configured.places))?;

        let metrics = Metrics::new(configured.telemetry.clone(), admin.watch());
        let endpoint = metrics.prepare(document, table.passed())?;

        Ok(Self {
            table,
            prepared,
            metrics,
            endpoint,
        })
    }

    fn own_addresses(&self) -> Vec<SocketAddr> {
        let metrics = self.metrics.address(&self.endpoint);
        own_addresses(&self.table, &self.prepared, metrics)
    }

    /// Hands the sockets to the workers, and serves the metrics.
    fn serve(
        mut self,
        documents: Documents,
        doors: Doors,
        shared: &Shared,
        drain: &Drain,
    ) -> Changing {
        self.metrics.apply(self.endpoint);
        let snapshot = shared.snapshot.load();
        self.table
            .apply(self.prepared, &snapshot, &doors, &drain.watch());
        self.table.log_unused(&snapshot.document);

        Changing {
            table: self.table,
            doors,
            metrics: self.metrics,
            documents,
        }
    }
}

/// The threads that serve exchanges, and their shared state.
struct DataPlane {
    shared: Arc<Shared>,
    drain: Drain,
    upkeep: Upkeep,
    resolver: Arc<Resolver>,
    workers: Workers,
    doors: Doors,
}

impl DataPlane {
    fn start(
        telemetry: Arc<Telemetry>,
        snapshot: Arc<Snapshot>,
        local: LocalAddresses,
        devices: Devices,
    ) -> Result<Self, Problems> {
        let drain = Drain::new();
        let count = devices.workers();
        let shared = shared(telemetry, snapshot, drain.watch(), local, devices);
        let own = own_name_servers(&shared.snapshot.load().document);
        let resolver = Arc::new(Resolver::system_but_for(&own));
        let upkeep = Upkeep::new(
            shared.telemetry.clone(),
            &shared.snapshot,
            resolver.clone(),
            drain.watch(),
        );
        let watch = drain.watch();
        watch.spawn(device_upkeep::keep(
            shared.snapshot.clone(),
            shared.devices.clone(),
            watch.clone(),
        ));
        // Last: nothing that fails after this would have to stop threads.
        let (workers, doors) = start_workers(count, &shared, resolver.clone(), &drain)
            .map_err(|error| one("workers", &error))?;

        Ok(Self {
            shared,
            drain,
            upkeep,
            resolver,
            workers,
            doors,
        })
    }
}

/// Where this node itself answers about names.
fn own_name_servers(document: &Document) -> Vec<IpAddr> {
    let devices = document.listeners.values().filter_map(Listener::tun);
    let pools = devices.filter_map(Tun::dns).flat_map(|dns| &dns.pool);
    let prefixes = pools.filter_map(prefix_of);
    prefixes.map(NameLeases::server_address).collect()
}

fn shared(
    telemetry: Arc<Telemetry>,
    snapshot: Arc<Snapshot>,
    drain: Watch,
    local: LocalAddresses,
    devices: Devices,
) -> Arc<Shared> {
    Arc::new(Shared {
        telemetry,
        targets: hermes_upstream::Budget::default(),
        refusals: LastRefusals::default(),
        tunnels: Tunnels::default(),
        outliving: Outliving::default(),
        shares: Shares::default(),
        attachments: Attachments::default(),
        devices: Arc::new(devices),
        snapshot: Arc::new(CurrentSnapshot::new(snapshot)),
        drain,
        local,
    })
}

fn worker_count(document: &Document) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    document.workers.map_or_else(processors, usize::from)
}

/// Opens the socket of administration. A container whose file system is read-only serves its traffic without one.
fn admin_listener(
    node: &Node,
    passed: Option<&PassedSocket>,
) -> Result<Option<admin::AdminSocket>, Problems> {
    let file = &node.admin_socket;
    let socket = match passed {
        Some(passed) => admin::take(file, passed, &node.descriptors),
        None => admin::bind(file, &node.descriptors),
    };
    let error = match socket {
        Ok(socket) => return Ok(Some(socket)),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        tracing::warn!(
            %error,
            "there is no admin socket: set `admin.socket` to a path that can be written"
        );
        return Ok(None);
    }

    let remedy = "give each node a name of its own (`node:`), or set `admin.socket`";
    let Problems(mut problems) = one("admin.socket", &error);
    problems
        .iter_mut()
        .for_each(|problem| problem.remedy = Some(remedy.to_owned()));
    Err(Problems(problems))
}

fn admin_socket(draft: &Draft) -> PathBuf {
    let configured = draft.document().admin.socket.as_ref();
    configured.map_or_else(
        || admin::default_socket(draft.node()),
        |socket| socket.0.clone(),
    )
}

type Doors = Vec<UnboundedSender<Door>>;

fn start_workers(
    count: usize,
    shared: &Arc<Shared>,
    resolver: Arc<Resolver>,
    drain: &Drain,
) -> io::Result<(Workers, Doors)> {
    let (senders, receivers): (Doors, Vec<UnboundedReceiver<Door>>) =
        (0..count).map(|_| unbounded_channel()).unzip();
    let receivers = Arc::new(Mutex::new(receivers));
    let shared = shared.clone();
    let watch = drain.watch();

    let workers = worker::spawn(count, "worker", move |_| {
        let shared = shared.clone();
        let resolver = resolver.clone();
        let watch = watch.clone();
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
