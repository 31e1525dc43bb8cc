//! An exchange whose route is known: the input of every action.

use std::sync::Arc;

use hermes_identity::AuthContext;
use hermes_net::StreamInfo;
use hermes_net::memory::{Memory, Owner, OwnerAccount};
use hermes_observe::Exchange;
use hermes_packet::{Asked, ChargedBounds};
use hermes_plug::Opener;
use hermes_plug::target::Target;
use hermes_rules::Values;

use crate::decide::DecisionLogger;
use crate::entrance::Entrance;
use crate::entry::values;
use crate::filter::{FlowTunnel, KnownUser};
use crate::next::CompiledRoute;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::worker::Worker;

/// An exchange whose route is known.
#[derive(Clone)]
pub struct Routed {
    /// The worker that it lives on.
    pub worker: Arc<Worker>,
    /// Where it came in.
    pub entrance: Entrance,
    /// The rules that decided on it.
    pub snapshot: Arc<Snapshot>,
    /// Those of its listener.
    pub listener: Arc<ListenerRules>,
    /// Its record.
    pub exchange: Arc<Exchange>,
    /// The connection that it came on.
    pub source: Arc<StreamInfo>,
    /// The target that it names.
    pub target: Target,
    /// Its user, if the user is known.
    pub user: Option<String>,
    /// Who the client is, and by which proof.
    pub auth: Arc<AuthContext>,
    /// The UDP session that the client asks for.
    pub asked: Option<Asked>,
    /// Its route.
    pub route: Arc<CompiledRoute>,
    /// How plugs open exchanges on its behalf.
    pub delegation: Delegation,
}

/// How plugs open exchanges on behalf of another one.
#[derive(Clone, Copy)]
pub struct Delegation {
    /// Handlers that the exchange has passed, each of which opened the next.
    pub handlers: u8,
    /// Makes the opener. Given by the crate that carries exchanges, which this one does not know.
    pub opener: fn(&Routed) -> Opener,
}

impl Routed {
    /// Opens exchanges on its behalf.
    pub fn opener(&self) -> Opener {
        (self.delegation.opener)(self)
    }

    /// The memory account of its user, or of its source where no one knows the user.
    pub fn account(&self) -> OwnerAccount {
        Memory::node().owner(self.owner())
    }

    /// Who is charged for its memory.
    pub fn owner(&self) -> Owner {
        Owner::of(self.user.as_deref(), &self.source.peer)
    }

    /// Bounds on datagrams of its tunnel that wait, and who is charged for them.
    pub fn datagram_bounds(&self) -> ChargedBounds {
        let bounds = self
            .listener
            .datagram_bounds(self.route.config.datagrams.as_ref());
        ChargedBounds {
            bounds,
            account: self.account(),
        }
    }

    /// Its tunnel as policies on flows of packets see it; `groups` are those of its user, `target` is written as they read it.
    pub fn flow_tunnel<'a>(&'a self, groups: &'a [&'a str], target: &'a str) -> FlowTunnel<'a> {
        let tls = self.source.tls.as_ref();
        FlowTunnel {
            user: self.user.as_deref(),
            groups,
            claims: self.auth.proof.claims(),
            certificate: tls.and_then(|tls| tls.certificate.as_ref()),
            listener: &self.listener.name,
            target,
        }
    }

    /// Its user, with the groups that the user's token claims.
    pub fn known_user(&self) -> KnownUser<'_> {
        self.listener.known_user(&self.auth, self.user.as_deref())
    }

    /// Logs the decisions on it, or on exchanges that are opened in its name.
    pub fn logger(&self) -> DecisionLogger<'_> {
        self.worker.logger(&self.exchange, &self.auth)
    }

    /// The values of variables in templates; path and method are the caller's to fill in.
    pub fn values<'a>(&'a self, target: &'a Target) -> Values<'a> {
        values(
            &self.source,
            &self.listener,
            self.user.as_deref(),
            target,
            &self.snapshot.node.name,
        )
    }
}
