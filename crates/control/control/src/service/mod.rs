//! A running controller: members attend it over mutual TLS, operators change the overlay over a Unix socket.
//!
//! - `accept`, `tls`, `grpc`: connections of agents; `shares`: how many each may have; `calls`: how often it may call. `attend`: the stream of one. `offering`: its decisions. `fleet`: who attends, and what
//!   each should have.
//! - `controller`: the state of the overlay, and who attends. `change`: from one state of the overlay to the next. `in_force`, `published`:
//!   a state as the controller has it and as nodes get it. `stages`: the states between two of them. `outcome`: what operators are told of changes.
//! - `part`: one controller of several. `peers`: requests that it passes on to the one that leads.
//! - `agreeing`: what nodes agree on with each other; `agreed`: all of that.
//! - `members`: joins, renewals, revocations. `operators`: the socket of operators; `admin`: their requests. `comparison`, `explanation`, `overview`: the answers to their
//!   questions: who would gain and lose what, why an exchange is refused, how far a change has spread.

mod accept;
pub mod admin;
mod admission;
mod agreed;
mod agreeing;
mod attend;
mod binaries;
mod calls;
mod change;
mod comparison;
mod controller;
mod difference;
mod endorsing;
mod explanation;
mod fleet;
mod grpc;
mod guards;
mod in_force;
mod members;
mod names;
mod offering;
mod operators;
mod outcome;
mod overview;
mod part;
mod peering;
mod peers;
mod published;
mod resume;
mod shares;
#[cfg(test)]
mod simulation;
mod stages;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

pub use self::comparison::{Comparison, ResourceChange};
pub use self::controller::{About, Controller};
pub use self::endorsing::{ChangedOverlay, endorse};
pub use self::explanation::{HopTaken, Inquiry, StepTaken, WayTaken};
pub use self::names::{NameKind, UnknownNames};
pub use self::outcome::{Changed, How, NotChanged, Outcome, Refusal, Spreading};
pub use self::overview::Overview;
pub use self::peering::{Import, PeeringView};

/// How often a change that spreads is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How often authorities, revocations and old states are tended.
const TEND: Duration = Duration::from_secs(600);

impl Controller {
    /// Serves agents and operators until the future is dropped. To be called inside a run time.
    pub async fn serve(self: Arc<Self>, agents: TcpListener, operators: UnixListener) {
        let agents = accept::serve(self.clone(), agents);
        let operators = operators::serve(self.clone(), operators);
        let part = self.clone().follow_part();
        let agreed = self.clone().write_agreed();
        let tick = self.clone().tick();
        tokio::join!(agents, operators, tick, self.tend(), part, agreed);
    }

    /// Changes that spread go on with time.
    async fn tick(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            let events = self.fleet.lock().tick(self.now());
            self.follow(events);
            let is_overdue = || {
                let in_force = self.in_force.try_lock();
                in_force.is_some_and(|in_force| in_force.is_overdue())
            };
            let has_gathered = self.fleet.lock().gathered(self.now()).is_some();
            if has_gathered {
                let controller = self.clone();
                let _ = tokio::task::spawn_blocking(move || controller.go_on()).await;
            }
            if self.leads() && is_overdue() {
                let controller = self.clone();
                // One after the other: the next look finds that it has returned.
                let _ =
                    tokio::task::spawn_blocking(move || controller.return_if_unconfirmed()).await;
            }
        }
    }

    /// What comes with the days: another authority, another list of revoked certificates, states that no one goes back to.
    async fn tend(self: Arc<Self>) {
        let mut turn = tokio::time::interval(TEND);
        loop {
            turn.tick().await;
            let controller = self.clone();
            let tended = tokio::task::spawn_blocking(move || controller.tend_once()).await;
            match tended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!("the overlay is not tended: {error}"),
                Err(error) => tracing::error!("the overlay is not tended: {error}"),
            }
        }
    }
}
