//! Why a connection or a pair of ports was not opened in a stack.

use std::net::SocketAddr;

use hermes_net::memory::Overdrawn;
use hermes_proto::ip::IcmpError;
use hermes_stack::OpenError;

/// Why nothing was opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The hub has a device, or is gone.
    #[error("there is no stack to send from")]
    NoStack,
    /// The tunnel is not there, or has assigned no address of this family.
    #[error("the tunnel has assigned no address of the family of {0}")]
    NoAddress(SocketAddr),
    /// The stack does not take it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its user, or source, has as many flows of this tunnel as are free.
    #[error("its user has {own} flows of this tunnel, and {free} are free")]
    Share {
        /// How many it has.
        own: usize,
        /// How many are free.
        free: usize,
    },
    /// There is no memory for it.
    #[error(transparent)]
    NoMemory(#[from] Overdrawn),
    /// The target refused it.
    #[error("connection refused")]
    Refused,
    /// A router, or the target, says that it does not get there.
    #[error("{0}")]
    Unreachable(IcmpError),
    /// The target did not answer.
    #[error("no answer")]
    Timeout,
}
