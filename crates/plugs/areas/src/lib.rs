//! Paths between areas of organisations, asked for by HTTP: provisioner and authoriser of one place.
//!
//! An orchestrator posts a request for a path to the node of the organisation where it begins. The node asks its authoriser, plans the
//! functions on the way, has the nodes at all other places authorise and provision their parts of the same plan, provisions its own
//! part last and answers with the way. A path ends when it is withdrawn: its routes go, and with them the tunnels that have used them.
//!
//! To provision is to write the routes of all paths to a file that the node's document includes, and to have the node read it again. So
//! functions run for new exchanges from then on, a restart keeps all paths, and no second way into the data plane exists.
//!
//! Limits: it starts no process; functions are those that the node's program has. The file of areas is the same at all places: a node
//! that plans another way than the one that asks refuses.
//!
//! Source of the roles: J. A. Kassem et al., *EPI Framework*, section II and figure 1, steps 3 to 7. The API itself is ours.
//!
//! Begin reading in `api.rs`, which has the requests, then `handler.rs`.

mod answer;
mod api;
mod authoriser;
mod domain;
mod handler;
mod ledger;
mod partners;
mod plug;
mod reload;
mod settings;
mod shelf;
#[cfg(test)]
mod tests;

pub use plug::{AreasPlug, NAME, register};
pub use reload::Reload;
