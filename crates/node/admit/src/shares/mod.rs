//! Limits of one source or user at a listener: connections, exchanges and sessions.

pub mod reports;
pub mod sessions;
pub mod sources;
pub mod waiting_ports;

use hermes_net::turns::{TurnBounds, Turns};

use reports::ReportRates;
use sessions::Sessions;
use sources::{Sources, Users};
use waiting_ports::WaitingPorts;

/// The shares that sources and users have of the listeners.
#[derive(Default)]
pub struct Shares {
    /// Connections of each source.
    pub sources: Sources,
    /// Connections and exchanges of each user.
    pub users: UserShares,
    /// CONNECT-UDP sessions of each user.
    pub sessions: Sessions,
    /// Reports of hops.
    pub reports: ReportRates,
    /// Ports that wait for the connection of a target.
    pub waiting_ports: WaitingPorts,
}

/// Flows of tunnels that begin at once: each costs a worker some 100 us until it waits for its target.
#[doc(alias = "bound")]
const BEGINNING: usize = 16;

/// Batches of packets of tunnels that end in user space at once, of all workers: half of them of one user.
#[doc(alias = "bound")]
const BATCHES: usize = 8;

/// Tunnels that wait to begin a flow, or for packets to be looked at.
#[doc(alias = "bound")]
const TUNNELS_WAITING: usize = 64 * 1024;

/// The shares of each user at each listener.
pub struct UserShares {
    /// Connections of those who are known by a password or token.
    pub connections: Users,
    /// Exchanges that are open.
    pub exchanges: Users,
    /// Turns at beginning the flows of tunnels that end here: one user opens flows in many tunnels as fast as it sends packets.
    pub flows: Turns,
    /// Turns at the packets of these tunnels.
    pub packets: Turns,
}

/// Turns of which one user has at most half.
fn turns(at_once: usize) -> Turns {
    Turns::new(TurnBounds {
        at_once,
        of_group: at_once,
        spare: true,
        waiting: TUNNELS_WAITING,
        waiting_of_asker: TUNNELS_WAITING / 4,
    })
}

impl Default for UserShares {
    fn default() -> Self {
        Self {
            connections: Users::default(),
            exchanges: Users::default(),
            flows: turns(BEGINNING),
            packets: turns(BATCHES),
        }
    }
}
