//! Open tunnels, and their re-evaluation when the snapshot changes, or when a credential or
//! decision they depend on expires.
//!
//! A tunnel is [entered](enter) in one table while it is carried. A change of configuration
//! re-evaluates all of them, from *identify* to *route* and with [`hermes_rules::reevaluate()`], and
//! leaves an [`Order`] for each that cannot go on as it is; the carrier of the tunnel follows it.
//! If filters have to be asked, the carrier asks them on its own worker, while the tunnel goes on.
//! Their answer may expire; then they are asked again.

mod guard;
mod latest_word;
mod order;
mod tunnel_state;

pub use guard::{TunnelGuard, enter};
pub use order::{Move, Order};
pub use tunnel_state::{Opened, TunnelState};
