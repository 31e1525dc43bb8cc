//! The leases of tunnels that end at a device: of each one, or of all those of a client's device.

use std::sync::Arc;

use hermes_ip::{Lease, PoolError};
use hermes_proto::connect_ip::RequestedAddress;
use hermes_proto::ip::IpPrefix;

use super::device_group::GroupMember;
use super::end::TunEnd;
use super::hub::TunHub;
use super::service::{TunProxy, TunService};
use super::tunnel_owner::TunnelOwner;

impl TunHub {
    /// Lets a tunnel share the lease of the other tunnels of its client's device, or makes it the first of them.
    pub(super) fn join(&self, end: &Arc<TunEnd>) {
        let TunService::Proxy(proxy) = &self.service else {
            return;
        };
        let mut lease = end.lease.lock();
        let Some(own) = lease.clone() else {
            return;
        };
        let member = GroupMember {
            number: end.number(),
            end: end.clone(),
        };
        let Some(group) = proxy.groups.join(end.owner(), member, &own) else {
            return;
        };

        end.set_group(group.clone());
        // Another tunnel of the device may have become the first since `replace` gave this one a lease of its own.
        let shared = group.lease();
        if shared.key != own.key {
            proxy.release(&own);
        }
        *lease = Some(shared);
    }

    /// Sends the client of a new tunnel its lease, and routes the lease here.
    pub(super) fn assign(&self, proxy: &TunProxy, end: &Arc<TunEnd>) {
        let _wishing = proxy.wishing.lock();
        self.tell(end, &[]);
    }

    /// Sends the client of a tunnel its lease, as the answer to its requests, and routes the lease
    /// here.
    fn tell(&self, end: &Arc<TunEnd>, requests: &[RequestedAddress]) {
        let Some(lease) = end.lease.lock().clone() else {
            return;
        };
        self.lead_end(end, &addresses(&lease));

        let narrow = end.with_session(|session| session.assign(lease.answer(requests)));
        if let Err(error) = narrow {
            tracing::warn!(device = self.name(), %error, "the tunnel gets no IPv6");
        }
    }

    /// Leads these addresses to a tunnel, or to those that share its lease.
    fn lead_end(&self, end: &TunEnd, addresses: &[IpPrefix]) {
        let conflicts = match end.group() {
            Some(group) => self.lead_group(group, addresses),
            None => self.lead(end.number(), addresses),
        };
        for conflict in conflicts {
            tracing::warn!(device = self.name(), %conflict, "an address is not routed to its tunnel");
        }
    }

    /// Grants the wishes of a tunnel, for its whole group, where the address is free, kept for its identity, or held by another tunnel of
    /// the identity that has only just come; then answers.
    pub(super) fn grant(&self, proxy: &TunProxy, end: &Arc<TunEnd>, requests: &[RequestedAddress]) {
        let wishes = requests.iter().map(|request| request.prefix);
        let wishes: Vec<IpPrefix> = wishes
            .filter(|prefix| !prefix.address().is_unspecified())
            .collect();
        let _wishing = proxy.wishing.lock();
        self.prefer(proxy, end, &wishes);
        self.tell(end, requests);
    }

    fn prefer(&self, proxy: &TunProxy, end: &Arc<TunEnd>, wishes: &[IpPrefix]) {
        for old in proxy.take_waiting_with(end.owner(), wishes) {
            self.end_waiting(proxy, &old);
        }
        for wish in wishes {
            self.exchange(proxy, end, *wish);
        }

        let Some(before) = end.lease.lock().clone() else {
            return;
        };
        let lease = proxy.prefer(&before, wishes);
        let has_wish = |wish: &IpPrefix| lease.v4 == Some(*wish) || lease.v6 == Some(*wish);
        if wishes.iter().any(has_wish) {
            end.settle();
        }
        self.set_lease(end, &lease);
    }

    /// Gives a tunnel an address that another tunnel of the same identity got without asking. Devices of one user that arrive at the
    /// same time get addresses in the order of their tunnels, and each may have had the other's before.
    fn exchange(&self, proxy: &TunProxy, end: &Arc<TunEnd>, wish: IpPrefix) {
        let Some(other) = self.end_with(wish) else {
            return;
        };
        if other.is_settled() || other.owner().identity != end.owner().identity {
            return;
        }
        let leases = [end, &other].map(|end| end.lease.lock().clone());
        let [Some(own), Some(others)] = &leases else {
            return;
        };
        let Some([own, others]) = proxy.exchange([own, others], wish.is_ipv4()) else {
            return;
        };

        // The other tunnel gives its routes up first: a route has one owner.
        self.lead_end(&other, &[]);
        self.lead_end(end, &addresses(&own));
        self.set_lease(end, &own);
        self.set_lease(&other, &others);
        self.tell(&other, &[]);
    }

    /// Sets the lease of a tunnel and of its group, and tells the other members.
    fn set_lease(&self, end: &Arc<TunEnd>, lease: &Lease) {
        let before = match &mut *end.lease.lock() {
            Some(own) => std::mem::replace(own, lease.clone()),
            None => return,
        };
        let Some(group) = end.group() else {
            return;
        };
        group.set_lease(lease);
        if *lease == before {
            return;
        }

        for other in group.others(end.number()) {
            self.change_lease(&other, lease);
        }
    }

    fn change_lease(&self, end: &Arc<TunEnd>, lease: &Lease) {
        {
            // Unlocked before `tell`, which locks it again.
            let mut own = end.lease.lock();
            if own.is_none() {
                return;
            }
            *own = Some(lease.clone());
        }
        self.tell(end, &[]);
    }

    /// A tunnel has ended.
    pub(super) fn end(&self, proxy: &TunProxy, end: &TunEnd) {
        let _wishing = proxy.wishing.lock();
        self.leave(end.number());
        self.give_back(proxy, end);
    }

    /// Returns the lease of a tunnel to the pool, unless others of its group still have it.
    fn give_back(&self, proxy: &TunProxy, end: &TunEnd) {
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

    /// The lease of a new tunnel of this client, which takes the place of one that has no path.
    ///
    /// # Errors
    /// [`PoolError`].
    pub(super) fn replace(
        &self,
        proxy: &TunProxy,
        owner: &TunnelOwner,
    ) -> Result<Lease, PoolError> {
        let _wishing = proxy.wishing.lock();
        if let Some(old) = proxy.take_waiting(owner) {
            self.end_waiting(proxy, &old);
        }
        let mut acquired = proxy.acquire(owner);
        while acquired.is_err()
            && let Some(old) = proxy.take_any_waiting(owner)
        {
            self.end_waiting(proxy, &old);
            acquired = proxy.acquire(owner);
        }

        acquired
    }

    fn end_waiting(&self, proxy: &TunProxy, old: &TunEnd) {
        self.leave(old.number());
        self.give_back(proxy, old);
        old.replaced.notify_one();
    }
}

fn addresses(lease: &Lease) -> Vec<IpPrefix> {
    [lease.v4, lease.v6].into_iter().flatten().collect()
}
