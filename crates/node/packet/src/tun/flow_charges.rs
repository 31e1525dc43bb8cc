//! The memory of the flows of a stack, and the owners who are charged for it.

use std::collections::HashMap;

use hermes_net::memory::{Charge, OwnerAccount, Purpose};
use hermes_stack::{FlowId, Stack};

use super::flow_error::FlowError;

/// Bytes of a connection beside its buffers: its state, and a piece that was read.
#[doc(alias = "bound")]
pub(super) const CONNECTION: usize = 36 << 10;

/// Bytes of a connection that waits for its target, with the exchange that asks for it.
#[doc(alias = "bound")]
pub(super) const ASKED: usize = 16 << 10;

/// Bytes of a pair of UDP ports, its session and the exchange that carries it, without datagrams that wait.
#[doc(alias = "bound")]
pub(super) const PORTS: usize = 16 << 10;

/// Bytes of each of the two buffers of connections whose owner has little room, from more to less.
#[doc(alias = "bound")]
const SMALLER_BUFFERS: [usize; 2] = [16 << 10, 4 << 10];

/// Connections of a size for which there must be room before one is opened: the last room is for small ones.
const ROOM_FOR: usize = 8;

/// The charges for flows in a stack, also for those that no one waits for any more.
#[derive(Default)]
pub(super) struct FlowCharges(HashMap<FlowId, FlowCharge>);

struct FlowCharge {
    kind: FlowKind,
    charge: Charge,
}

/// The protocol of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowKind {
    Tcp,
    Udp,
}

impl FlowCharges {
    /// Holds a charge for as long as its flow is in the stack.
    pub(super) fn enter(&mut self, flow: FlowId, kind: FlowKind, charge: Charge) {
        self.0.insert(flow, FlowCharge { kind, charge });
    }

    /// Ends the charges for flows that are not in the stack any more.
    pub(super) fn settle(&mut self, stack: &Stack) {
        let [tcp, udp] = stack.flows();
        if self.0.len() > tcp + udp {
            self.0.retain(|flow, _| stack.has(*flow));
        }
    }

    /// Whether an owner may open one more flow. Their number is bounded: an owner leaves as many to others as it has.
    ///
    /// # Errors
    /// [`FlowError::Share`].
    pub(super) fn check_share(
        &self,
        stack: &Stack,
        account: &OwnerAccount,
        kind: FlowKind,
    ) -> Result<(), FlowError> {
        let [tcp, udp] = stack.flows();
        let free = match kind {
            FlowKind::Tcp => stack.limits().tcp.saturating_sub(tcp),
            FlowKind::Udp => stack.limits().udp.saturating_sub(udp),
        };

        let is_own = |flow: &&FlowCharge| flow.kind == kind && flow.charge.account().is(account);
        let own = self.0.values().filter(is_own).count();
        if own < free {
            Ok(())
        } else {
            Err(FlowError::Share { own, free })
        }
    }
}

/// A charge for one more connection with buffers of up to so many bytes each, and how many these may have.
pub(super) fn charge_connection(account: &OwnerAccount, most: usize) -> Option<(usize, Charge)> {
    let sizes = [most].into_iter().chain(SMALLER_BUFFERS);
    let cost = |buffer: usize| CONNECTION + 2 * buffer;
    let room = account.room();
    let fits = |buffer: &usize| room >= ROOM_FOR * cost(*buffer);
    let least = SMALLER_BUFFERS[SMALLER_BUFFERS.len() - 1];
    let buffer = sizes
        .filter(|buffer| *buffer <= most)
        .find(fits)
        .unwrap_or(least);
    let charge = account.charge(Purpose::Stack, cost(buffer)).ok()?;
    Some((buffer, charge))
}
