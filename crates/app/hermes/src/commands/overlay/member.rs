//! Runs a node of an overlay, which follows its controller.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hermes_agent::node::{OverlayNode, SharedProxy};
use hermes_agent::{Agent, Agreements, Ended, Membership, State, agreements, attend};
use hermes_api::Hash;
use hermes_config::{Loaded, Problems};
use hermes_node::{DocumentSource, PassedSockets, Proxy};

use crate::commands::run::{Asked, Signals};
use crate::custody;
use crate::failure::Failure;
use crate::logging::Logging;
use crate::plugs;

/// The program's version, as controllers list it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files of this machine that a node's documents may name.
#[derive(Debug, Args)]
pub struct AllowedFiles {
    /// Let controllers have this node read and write a file, or files and sockets of a folder, beside those of its own; can be repeated.
    #[arg(long, value_name = "PATH")]
    allow_files: Vec<PathBuf>,
}

impl AllowedFiles {
    /// The state of a node in this folder, whose documents may name these files.
    ///
    /// # Errors
    /// A path is relative, and there is no folder that it begins at.
    pub(super) fn state(&self, folder: PathBuf) -> Result<State, Failure> {
        let allowed = self.allow_files.iter().map(std::path::absolute);
        let allowed: Result<_, _> = allowed.collect();
        let allowed =
            allowed.map_err(|error| Failure::failed(format!("--allow-files: {error}")))?;
        Ok(State::new(folder).allow_files(allowed))
    }
}

/// SHA-256 of this program, for the controller's inventory.
///
/// # Errors
/// The program's file cannot be read.
pub(super) fn binary() -> Result<Hash, Failure> {
    let program = std::env::current_exe().and_then(File::open);
    program
        .and_then(Hash::of_reader)
        .map_err(|error| Failure::failed(format!("this program's own file: {error}")))
}

/// Runs a member until a signal ends it.
///
/// # Errors
/// Its folder cannot be read, the node does not drain, or it is no member any more.
pub(super) async fn run(
    state: State,
    membership: Membership,
    logging: Logging,
    mut signals: Signals,
) -> Result<(), Failure> {
    let form = hermes_custody::register(plugs::plugs(), None, None).form();
    let kept = state.folder().join("confirmed.yaml");
    let (agreements, proposals) = agreements();
    let start = starter(kept, logging.clone(), agreements);
    let mut subject = OverlayNode::new(state.clone(), membership.clone(), form, start);
    // Before the controller is asked: it may be away, and the node has to serve.
    resume(&state, &membership, &mut subject).await;
    let proxy = subject.proxy();

    let agent = Agent {
        state,
        membership,
        binary: binary()?,
        version: VERSION.to_owned(),
        subject,
        proposals,
    };
    let ended = tokio::select! {
        ended = attend(agent) => Some(ended),
        () = until_stopped(&mut signals, &proxy) => None,
    };
    let drained = stop(&proxy, &mut signals).await;
    logging.flush();

    match ended {
        None | Some(Ok(())) => drained,
        Some(Err(Ended::Left(reason))) => Err(Failure::failed(format!(
            "this node is no member of the overlay any more: {reason}"
        ))
        .remedy("join again with a new token, in an empty --state")),
        Some(Err(Ended::State(error))) => Err(Failure::failed(error.to_string())),
    }
}

/// Starts with the document on the disk, before anyone is asked: a node needs no controller to start.
async fn resume(state: &State, membership: &Membership, subject: &mut OverlayNode) {
    let current = match state.current(membership) {
        Ok(Some(current)) => current,
        Ok(None) => return tracing::info!("waiting for the controller's first document"),
        Err(error) => return tracing::error!("the document on the disk is not used: {error}"),
    };
    match subject.begin_with(&current.statement).await {
        Ok(report) => tracing::info!(
            "revision {} of the disk: {report}",
            current.statement.revision
        ),
        Err(refused) => {
            for refused in refused {
                tracing::error!(
                    "the document on the disk: {}: {}",
                    refused.path,
                    refused.reason
                );
            }
        }
    }
}

fn starter(kept: PathBuf, logging: Logging, agreements: Agreements) -> hermes_agent::node::Start {
    Box::new(move |loaded: Loaded| -> Result<Proxy, Problems> {
        let plugs = plugs::plugs().agreeing(agreements.clone());
        let plugs = custody::plug(&loaded.document, plugs).map_err(|failure| {
            Problems(vec![hermes_config::Problem::new(
                "defaults.custody",
                failure.reason,
            )])
        })?;
        let source = DocumentSource::Caller { kept: kept.clone() };
        let proxy = Proxy::start(
            loaded,
            source,
            Box::new(logging.clone()),
            PassedSockets::default(),
            plugs,
        )?;
        for listener in proxy.listeners() {
            logging.note(format_args!(
                "listening {} {} {}",
                listener.name, listener.kind, listener.address
            ));
        }
        logging.note(format_args!("node {} is ready", proxy.node()));
        Ok(proxy)
    })
}

/// Until the process is told to stop. SIGHUP makes the node read the files again that its document names.
async fn until_stopped(signals: &mut Signals, proxy: &SharedProxy) {
    while signals.next().await == Asked::Reload {
        let Some(handle) = proxy.lock().await.as_ref().map(Proxy::handle) else {
            continue;
        };
        tokio::task::spawn_blocking(move || {
            if let Err(problems) = handle.reload() {
                tracing::error!("not reloaded:\n{problems}");
            }
        });
    }
}

/// Ends the node kindly, or at a second signal at once.
async fn stop(proxy: &SharedProxy, signals: &mut Signals) -> Result<(), Failure> {
    let Some(mut proxy) = proxy.lock().await.take() else {
        return Ok(());
    };
    let time = proxy.drain_time();
    tracing::info!("stopping; exchanges have {time:?} to end, a second signal ends them at once");
    let kindly = tokio::select! {
        ended = proxy.drain(time) => Some(ended),
        () = signals.stop_again() => None,
    };
    match kindly {
        Some(ended) => crate::commands::run::ended(ended),
        None => crate::commands::run::ended(proxy.drain(Duration::ZERO).await),
    }
}
