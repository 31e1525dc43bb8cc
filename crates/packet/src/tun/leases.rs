//! The leases of tunnels that end at a device: of each one, or of all those of a client's device.

use std::sync::Arc;

use hermes_ip::Lease;
use hermes_proto::connect_ip::RequestedAddress;
use hermes_proto::ip::IpPrefix;

use super::end::TunEnd;
use super::hub::TunHub;
use super::service::{TunProxy, TunService};
use super::tunnel_owner::TunnelOwner;

impl TunHub {
    /// A tunnel shares the lease of those that its client's device has here already, or is the first of them.
    pub(super) fn join(&self, end: &Arc<TunEnd>) {
        let TunService::Proxy(proxy) = &self.service else {
            return;
        };
        let mut lease = end.lease.lock();
        let Some(own) = lease.clone() else {
            return;
        };
        let Some(group) = proxy.groups.join(end.owner(), (end.number(), end), &own) else {
            return;
        };

        end.set_group(group.clone());
        // Another may have been the first at the same moment.
        let shared = group.lease();
        if shared.key != own.key {
            proxy.release(&own);
        }
        *lease = Some(shared);
    }

    /// Tells the client of a tunnel what its lease is, as the answer to its requests, and leads that here.
    pub(super) fn assign(&self, end: &Arc<TunEnd>, requests: &[RequestedAddress]) {
        let Some(lease) = end.lease.lock().clone() else {
            return;
        };
        let own: Vec<IpPrefix> = [lease.v4, lease.v6].into_iter().flatten().collect();
        let conflicts = match end.group() {
            Some(group) => self.lead_group(group, &own),
            None => self.lead(end.number(), &own),
        };
        for conflict in conflicts {
            tracing::warn!(device = self.name(), %conflict, "an address is not led to its tunnel");
        }

        let narrow = end.session.lock().assign(lease.answer(requests));
        if let Err(error) = narrow {
            tracing::warn!(device = self.name(), %error, "the tunnel gets no IPv6");
        }
        end.changed.notify_one();
    }

    /// Grants wishes to a tunnel, and to all that share its lease, where they are free.
    pub(super) fn prefer(&self, proxy: &TunProxy, end: &Arc<TunEnd>, wishes: &[IpPrefix]) {
        let Some(before) = end.lease.lock().clone() else {
            return;
        };
        let lease = proxy.prefer(&before, wishes);
        *end.lease.lock() = Some(lease.clone());
        let Some(group) = end.group() else {
            return;
        };
        group.set_lease(&lease);
        if lease == before {
            return;
        }

        for other in group.others(end.number()) {
            self.change_lease(&other, &lease);
        }
    }

    fn change_lease(&self, end: &Arc<TunEnd>, lease: &Lease) {
        {
            let mut own = end.lease.lock();
            if own.is_none() {
                return;
            }
            *own = Some(lease.clone());
        }
        self.assign(end, &[]);
    }

    /// Takes the lease of a tunnel back, if no other has it.
    pub(super) fn give_back(&self, proxy: &TunProxy, end: &TunEnd) {
        let Some(lease) = end.lease.lock().take() else {
            return;
        };
        if !proxy.groups.leave(end.owner(), end.number()) {
            return;
        }
        if let Some(group) = end.group() {
            self.leave_group(group);
        }
        proxy.release(&lease);
    }

    /// Ends a tunnel of this client that has no path.
    pub(super) fn replace(&self, proxy: &TunProxy, owner: &TunnelOwner) {
        let Some(old) = proxy.take_waiting(owner) else {
            return;
        };
        self.leave(old.number());
        self.give_back(proxy, &old);
        old.replaced.notify_one();
    }
}
