//! The parts of a running process that administration works on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hermes_admit::worker::Shared;
use hermes_listen::table::Prepared;
use hermes_listen::{Door, ListenerTable};
use hermes_net::{DescriptorTable, Drain, Resolver};
use hermes_plug::Plugs;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::documents::{Deadline, DocumentSource, Documents};
use crate::metrics::Metrics;
use crate::upkeep::Upkeep;

/// The filter of the log, which can be changed at run time.
pub trait LogFilter: Send + Sync {
    /// The one in force.
    fn current(&self) -> String;

    /// Logs by `filter` from now on.
    ///
    /// # Errors
    /// When it would log nothing, or is no filter; the old one stays.
    fn change(&self, filter: &str) -> Result<(), String>;

    /// Looks at once whether the log's file was moved, and begins a new one then.
    fn reopen(&self) {}
}

/// The parts of the process that administration reads and changes.
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: DocumentSource,
    pub(crate) admin_socket: PathBuf,
    pub(crate) started: Instant,
    pub(crate) log: Box<dyn LogFilter>,
    /// The plugs that the configuration may name.
    pub(crate) plugs: Plugs,
    pub(crate) changing: Mutex<Changing>,
    pub(crate) drain: Drain,
    pub(crate) upkeep: Upkeep,
    /// Resolves names for everyone in the process.
    pub(crate) resolver: Arc<Resolver>,
    /// When the document in force has to be confirmed.
    pub(crate) deadline: watch::Sender<Deadline>,
    /// The descriptors that a successor may be given.
    pub(crate) descriptors: DescriptorTable,
}

/// State that one change at a time holds.
pub(crate) struct Changing {
    pub(crate) table: ListenerTable,
    /// Tells the workers of new sockets; emptied to end them.
    pub(crate) doors: Vec<UnboundedSender<Door>>,
    pub(crate) metrics: Metrics,
    pub(crate) documents: Documents,
}

/// The addresses that no request may choose, because this process listens there.
pub(crate) fn own_addresses(
    table: &ListenerTable,
    prepared: &Prepared,
    metrics: Option<SocketAddr>,
) -> Vec<SocketAddr> {
    table
        .addresses(prepared)
        .into_iter()
        .chain(metrics)
        .collect()
}
