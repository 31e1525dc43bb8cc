//! `hermes run FILE`: a node, until it is told to stop.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hermes_areas::AreasPlug;
use hermes_config::Problems;
use hermes_listen::table::ListenerView;
use hermes_net::PassedSocket;
use hermes_net::drain::Ended;
use hermes_node::{PassedSockets, Proxy};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::areas::RereadFile;
use crate::custody;
use crate::failure::Failure;
use crate::handover;
use crate::logging::{self, Logging};
use crate::plugs;

/// How long the start waits for TUN devices before it says that they are missing: the kernel makes one in milliseconds.
#[doc(alias = "bound")]
const DEVICES: Duration = Duration::from_secs(2);

/// Reloads by signals at once: one reads the files, and one waits for it.
#[doc(alias = "bound")]
const RELOADS: usize = 2;

/// Arguments of `hermes run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The node's configuration.
    file: PathBuf,
    /// Read the file again whenever it, or a file that it names, has changed; as `watch: true` in the file.
    #[arg(long)]
    watch: bool,
    /// Return to the last confirmed configuration, unless `hermes confirm` comes within this time, such as 60s. Where there is none,
    /// the node stops. A configuration that was confirmed before needs it no more.
    #[arg(long, value_name = "TIME", value_parser = super::reload::confirmed_within)]
    confirm: Option<Duration>,
    /// Stop when standard input ends, which it does when the holder of its other end is gone.
    #[arg(long, hide = true)]
    until_eof: bool,
    /// Take the sockets of the process that has this file, and give them to the next one that asks there.
    #[arg(long, hide = true, value_name = "FILE")]
    handover: Option<PathBuf>,
}

/// Runs the node, on the sockets that were passed to the process where they fit. SIGTERM and SIGINT end it kindly, a second one at once; SIGHUP reloads its file.
///
/// # Errors
/// When the file is not valid, or the node cannot start or end.
pub async fn run(run: Run, passed: Vec<PassedSocket>) -> Result<(), Failure> {
    // Before the start: a SIGTERM during it is heard, and ends the node kindly.
    let mut signals = Signals::new(run.until_eof)
        .map_err(|error| Failure::failed(format!("signals: {error}")))?;
    let passed = match &run.handover {
        Some(file) => successor(file, passed).map_err(|error| not_handed_over(file, &error))?,
        None => passed.into(),
    };
    let (mut proxy, logging) = start(run.file, passed)?;
    if let Some(file) = &run.handover {
        handover::offer(file, proxy.handle()).map_err(|error| not_handed_over(file, &error))?;
    }
    proxy.watch_files(run.watch);
    proxy.await_confirmation(run.confirm);
    announce(&proxy, &logging).await;
    let outcome = until_stopped(&mut proxy, &mut signals).await;
    logging.flush();
    outcome
}

/// The sockets that were passed to this process, and those that its predecessor hands over.
fn successor(file: &Path, mut passed: Vec<PassedSocket>) -> io::Result<PassedSockets> {
    passed.extend(handover::take(file)?);
    PassedSockets::from(passed).with_successor()
}

fn not_handed_over(file: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("--handover {}: {error}", file.display()))
}

async fn until_stopped(proxy: &mut Proxy, signals: &mut Signals) -> Result<(), Failure> {
    let mut reloads = Reloads::default();
    loop {
        let asked = tokio::select! {
            asked = signals.next() => asked,
            () = proxy.unconfirmed() => {
                stop(proxy, signals).await?;
                return Err(not_confirmed());
            }
        };
        match asked {
            Asked::Reload => reloads.begin(proxy),
            Asked::Stop => return stop(proxy, signals).await,
            Asked::StopNow => return ended(proxy.drain(Duration::ZERO).await),
        }
    }
}

fn start(file: PathBuf, passed: PassedSockets) -> Result<(Proxy, Logging), Failure> {
    // Where it cannot be asked for, the process is larger, no worse.
    let _ = hermes_net::os::use_small_pages();
    // Before any secret is read, and until the file says otherwise.
    let undumped = hermes_net::os::allow_dumps(false);
    let loaded = super::load(&file)?;
    let dumps = if loaded.document.debug.core_dumps {
        hermes_net::os::allow_dumps(true)
    } else {
        undumped
    };

    let filter = loaded
        .document
        .log
        .level
        .as_deref()
        .unwrap_or(logging::DEFAULT);

    // A bad filter is reported with its place, together with all other problems of the file.
    let place = loaded
        .document
        .log
        .file
        .as_ref()
        .map(|file| file.0.as_path());

    let start = |filter| Logging::start(filter, place);
    let logging = start(filter)
        .or_else(|_| start(logging::DEFAULT))
        .map_err(Failure::failed)?;
    if let Err(error) = dumps {
        tracing::warn!("the process can be dumped as the system says: {error}");
    }

    if let Err(error) = hermes_net::os::raise_open_files() {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
    // After the limit was raised: a share of it is kept for the node itself.
    if let limit @ 1.. = hermes_net::os::process_stats().open_files_limit {
        hermes_net::descriptors::keep_back(limit);
    }

    let files = loaded.files.clone();
    let plugs = custody::plug(&loaded.document, plugs::plugs())?;
    // In place of the one without a node, which only knows the form of its settings.
    let areas = AreasPlug::default();
    let plugs = hermes_areas::register(plugs, &areas);
    let started = Proxy::start(
        loaded,
        file.clone(),
        Box::new(logging.clone()),
        passed,
        plugs,
    );
    match started {
        Ok(proxy) => {
            areas.reload_by(RereadFile(proxy.handle()));
            Ok((proxy, logging))
        }
        Err(problems) => {
            logging.flush();
            Err(not_started(problems.in_order(&files), &file))
        }
    }
}

/// If the file is valid but the port is in use, the node has failed; only an invalid file needs to
/// be corrected.
fn not_started(problems: Problems, file: &Path) -> Failure {
    let valid = super::load(file).and_then(plugs::check).is_ok();
    let failure = Failure::from(problems);
    if valid {
        Failure { code: 1, ..failure }
    } else {
        failure
    }
}

fn not_confirmed() -> Failure {
    let reason =
        "the configuration was not confirmed in time, and there is no earlier one to return to";
    Failure::failed(reason).remedy("say `hermes confirm` next time, or run without --confirm")
}

async fn announce(proxy: &Proxy, logging: &Logging) {
    for ListenerView {
        name,
        kind,
        address,
        ..
    } in proxy.listeners()
    {
        logging.note(format_args!("listening {name} {kind} {address}"));
    }
    let administration = match proxy.admin_socket() {
        Some(socket) => format!("admin at {}", socket.display()),
        None => "without administration".to_owned(),
    };
    let node = proxy.node();
    match proxy.missing_devices(DEVICES).await.as_slice() {
        [] => logging.note(format_args!("node {node} is ready, {administration}")),
        missing => logging.note(format_args!(
            "node {node} serves but is not ready, {administration}; missing: {}",
            missing.join("; ")
        )),
    }
}

/// Reloads under way, on threads of their own: reading a file may block, and signals must be heard all the same.
#[derive(Default)]
struct Reloads(Vec<JoinHandle<()>>);

impl Reloads {
    /// Begins one, unless another waits already that has yet to read the files.
    fn begin(&mut self, proxy: &Proxy) {
        self.0.retain(|reload| !reload.is_finished());
        if self.0.len() >= RELOADS {
            return tracing::warn!("a reload is under way, and the next one waits for it already");
        }

        let node = proxy.handle();
        self.0
            .push(tokio::task::spawn_blocking(move || match node.reload() {
                Ok(report) => tracing::info!("reloaded: {}", super::reload::summary(&report)),
                Err(problems) => {
                    tracing::error!("not reloaded, the configuration stays in force:\n{problems}")
                }
            }));
    }
}

async fn stop(proxy: &mut Proxy, signals: &mut Signals) -> Result<(), Failure> {
    let time = proxy.drain_time();
    tracing::info!("stopping; exchanges have {time:?} to end, a second signal ends them at once");
    let kindly = tokio::select! {
        how = proxy.drain(time) => Some(how),
        () = signals.stop_again() => None,
    };

    match kindly {
        Some(how) => ended(how),
        None => ended(proxy.drain(Duration::ZERO).await),
    }
}

/// What a drain that ended so means for the command.
///
/// # Errors
/// Tasks are stuck.
pub(super) fn ended(how: Ended) -> Result<(), Failure> {
    match how {
        Ended::Gracefully => Ok(()),
        Ended::Forced { tasks } => {
            tracing::warn!("{tasks} tasks were ended before they were done");
            Ok(())
        }
        Ended::Stuck { tasks } => Err(Failure::failed(format!("{tasks} tasks did not end"))),
    }
}

/// Requests to a running node from its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Read the configuration again.
    Reload,
    /// End kindly.
    Stop,
    /// End at once.
    StopNow,
}

/// Signals, and the end of standard input where it is watched.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    input: Option<oneshot::Receiver<()>>,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The process cannot have signals.
    pub(super) fn new(until_eof: bool) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            input: until_eof.then(end_of_input),
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
            () = over(self.input.as_mut()) => Asked::StopNow,
        }
    }

    /// Waits until the process is told to stop.
    pub(super) async fn stop_again(&mut self) {
        while self.next().await == Asked::Reload {}
    }
}

/// Watches for the end of standard input and ignores its content.
///
/// A thread of its own, because a read of standard input cannot be given up: it ends with the process.
fn end_of_input() -> oneshot::Receiver<()> {
    let (ended, heard) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 64];
        while io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
        drop(ended);
    });

    heard
}

/// Resolves when `input` has ended; never without an input to watch.
async fn over(input: Option<&mut oneshot::Receiver<()>>) {
    match input {
        // The sender is dropped, never used.
        Some(input) => drop(input.await),
        None => std::future::pending().await,
    }
}
