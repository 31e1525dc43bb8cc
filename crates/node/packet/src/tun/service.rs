//! The service of a device: the packets of this machine, or those of the clients of a proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_ip::{AddressPool, Lease, LeaseTextError, PoolError, PoolRange, RouterAddresses};
use hermes_net::clock::unix_seconds;
use hermes_proto::connect_ip::RouteAdvertisement;
use hermes_proto::ip::{ANY_PROTOCOL, IpPrefix, IpRange};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::device_group::DeviceGroups;
use super::end::TunEnd;
use super::named_hosts::NamedHosts;
use super::node_pools::{NodePools, PoolEntry};
use super::shared_addresses::SharedAddresses;
use super::tunnel_owner::TunnelOwner;
use super::wanted_addresses::{OtherAssigned, WantedAddresses};

/// Addresses of this node at the beginning of each prefix of a pool: the kernel's, and ours.
const OWN: usize = 2;

/// How long a lease that is not in use is kept for its identity, in seconds: a day.
#[doc(alias = "bound")]
const KEPT: u64 = 24 * 60 * 60;

/// The service of a device.
#[derive(Debug)]
pub enum TunService {
    /// The packets of this machine enter the overlay there, in one tunnel or in several.
    Client(TunClient),
    /// The packets of tunnels leave it there.
    Proxy(Box<TunProxy>),
}

/// The requests of a listener's device to its tunnel.
#[derive(Debug)]
pub struct TunClient {
    /// Configured addresses; if empty, the device gets those that the tunnel assigns.
    pub addresses: Vec<IpPrefix>,
    pub(super) wanted: Mutex<WantedAddresses>,
    /// The addresses of its tunnels, where it has several.
    pub(super) shared: Option<Box<SharedAddresses>>,
    /// The source addresses of ICMP errors.
    pub routers: RouterAddresses,
    /// Whether it offers super-packets.
    pub(super) super_packets: bool,
    /// The names behind some of the addresses that are routed to it.
    pub(super) names: Option<Arc<NamedHosts>>,
}

/// The addresses and routes of tunnels that end at a device.
#[derive(Debug)]
pub struct TunProxy {
    pool: Mutex<AddressPool>,
    pub(super) routes: RouteAdvertisement,
    pub(super) routers: RouterAddresses,
    prefixes: Vec<IpPrefix>,
    /// Its pool among those of the node.
    entry: Option<PoolEntry>,
    /// Whether its clients may send to each other.
    pub(super) client_to_client: bool,
    /// Whether it takes super-packets from clients that offer them.
    pub(super) super_packets: bool,
    changed: Notify,
    /// Tunnels without a path, by owner. Bounded by the number of tunnels.
    waiting: Mutex<HashMap<TunnelOwner, Vec<Arc<TunEnd>>>>,
    /// Held while a lease is given, changed, told or given back: the wish of one tunnel may change the lease of another.
    pub(super) wishing: Mutex<()>,
    /// Tunnels that have one address.
    pub(super) groups: DeviceGroups<TunEnd>,
}

/// A tunnel that waits for a path, until this is dropped.
pub(super) struct WaitingTunnel<'a> {
    proxy: &'a TunProxy,
    end: &'a Arc<TunEnd>,
}

impl TunClient {
    /// A device with these addresses, or those that its tunnel assigns, with these routes into its
    /// tunnel. Errors are written from an address among these: the kernel ignores errors from
    /// elsewhere.
    pub fn new(addresses: Vec<IpPrefix>, other: OtherAssigned, routes: &[IpPrefix]) -> Self {
        let routed = |is_ipv4| {
            let mut routes = routes.iter().filter(|route| route.is_ipv4() == is_ipv4);
            // 0.0.0.0/0 and ::/0 begin with addresses that no router can have.
            routes
                .find(|route| route.length() > 0)
                .map(|route| own(*route, 1))
        };
        let routers = RouterAddresses {
            v4: routed(true).and_then(v4),
            v6: routed(false).and_then(v6),
        };
        let wanted = Mutex::new(WantedAddresses::new(&addresses, other));
        Self {
            addresses,
            wanted,
            shared: None,
            routers,
            super_packets: false,
            names: None,
        }
    }

    /// The same, with names behind some of the addresses that are routed to it.
    #[must_use]
    pub fn names(mut self, names: Option<Arc<NamedHosts>>) -> Self {
        self.names = names;
        self
    }

    /// The same, which offers super-packets, or does not.
    #[must_use]
    pub fn super_packets(mut self, is_offered: bool) -> Self {
        self.super_packets = is_offered;
        self
    }

    /// The same for a device with several tunnels, which share its addresses.
    #[must_use]
    pub fn sharing(mut self, other: OtherAssigned) -> Self {
        self.shared = Some(Box::new(SharedAddresses::new(&self.addresses, other)));
        self
    }
}

impl TunProxy {
    /// A device that assigns the addresses of these prefixes, and routes to these destinations;
    /// empty for everything.
    ///
    /// # Errors
    /// [`PoolError::Range`].
    pub fn new(pool: &[IpPrefix], routes: &[IpPrefix]) -> Result<Self, PoolError> {
        let mut ranges = Vec::new();
        for prefix in pool {
            let each = if prefix.is_ipv4() { 32 } else { 128 };
            let reserved: Vec<IpAddr> = (1..=OWN).map(|at| own(*prefix, at)).collect();
            ranges.push(PoolRange::new(*prefix, each, &reserved)?);
        }

        let everything = [IpPrefix::ALL_V4, IpPrefix::ALL_V6];
        let of_family = |route: &&IpPrefix| pool.iter().any(|one| one.is_ipv4() == route.is_ipv4());
        let told: Vec<IpRange> = match routes {
            [] => everything
                .iter()
                .filter(of_family)
                .copied()
                .map(whole)
                .collect(),
            routes => routes.iter().copied().map(whole).collect(),
        };
        let routers = |is_ipv4| {
            let mut pool = pool.iter().filter(|one| one.is_ipv4() == is_ipv4);
            pool.next().map(|prefix| own(*prefix, OWN))
        };

        Ok(Self {
            pool: Mutex::new(AddressPool::new(ranges, KEPT)),
            prefixes: pool.to_vec(),
            entry: None,
            client_to_client: false,
            super_packets: false,
            changed: Notify::new(),
            waiting: Mutex::default(),
            wishing: Mutex::default(),
            groups: DeviceGroups::default(),
            routes: RouteAdvertisement::of(told).unwrap_or_default(),
            routers: RouterAddresses {
                v4: routers(true).and_then(v4),
                v6: routers(false).and_then(v6),
            },
        })
    }

    /// The same, with or without traffic between its clients.
    #[must_use]
    pub fn client_to_client(mut self, is_allowed: bool) -> Self {
        self.client_to_client = is_allowed;
        self
    }

    /// The same, which takes super-packets from clients that offer them, or does not.
    #[must_use]
    pub fn super_packets(mut self, is_taken: bool) -> Self {
        self.super_packets = is_taken;
        self
    }

    /// The same, on a node with these pools: no client of another device reaches its clients, unless those of both may send to each other.
    #[must_use]
    pub fn among(mut self, pools: &Arc<NodePools>) -> Self {
        self.entry = Some(pools.enter(self.prefixes.clone(), self.client_to_client));
        self
    }

    /// Its pool among those of the node.
    pub(super) fn pool_entry(&self) -> Option<&PoolEntry> {
        self.entry.as_ref()
    }

    /// The leases, as text that [`Self::restore`] reads.
    pub fn leases(&self) -> String {
        self.pool.lock().to_text(unix_seconds())
    }

    /// Restores saved leases; returns the number of those that lie outside of the pool.
    ///
    /// # Errors
    /// The text has no leases.
    pub fn restore(&self, leases: &str) -> Result<usize, LeaseTextError> {
        self.pool.lock().restore(leases)
    }

    /// Waits until the leases change.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A lease for a tunnel: that of other tunnels of its device, or another.
    pub(super) fn acquire(&self, owner: &TunnelOwner) -> Result<Lease, PoolError> {
        if let Some(group) = self.groups.of(owner) {
            return Ok(group.lease());
        }
        let identity = &owner.identity;
        let lease = self.pool.lock().acquire(identity, &[], unix_seconds());
        self.changed.notify_one();
        lease
    }

    pub(super) fn prefer(&self, before: &Lease, wishes: &[IpPrefix]) -> Lease {
        let lease = self.pool.lock().prefer(before, wishes);
        self.changed.notify_one();
        lease
    }

    /// Exchanges the addresses of a family between two leases; `None` where that cannot be.
    pub(super) fn exchange(&self, leases: [&Lease; 2], is_ipv4: bool) -> Option<[Lease; 2]> {
        let keys = leases.map(|lease| &lease.key);
        let exchanged = self.pool.lock().exchange(keys, is_ipv4);
        self.changed.notify_one();
        exchanged
    }

    pub(super) fn release(&self, lease: &Lease) {
        self.pool.lock().release(&lease.key, unix_seconds());
        self.changed.notify_one();
    }

    /// Lets a new tunnel of the same client take the place of this one, until the result is
    /// dropped.
    pub(super) fn wait<'a>(&'a self, end: &'a Arc<TunEnd>) -> WaitingTunnel<'a> {
        let mut waiting = self.waiting.lock();
        let of_owner = waiting.entry(end.owner().clone()).or_default();
        of_owner.push(end.clone());
        drop(waiting);
        WaitingTunnel { proxy: self, end }
    }

    /// The waiting tunnel that a new one of this client replaces. Several belong to different
    /// devices: unless the client names its device, only a wish for an address [identifies
    /// the tunnel](Self::take_waiting_with).
    pub(super) fn take_waiting(&self, owner: &TunnelOwner) -> Option<Arc<TunEnd>> {
        let mut waiting = self.waiting.lock();
        let is_known = waiting.get(owner)?.len() == 1 || owner.part.is_some();
        match is_known {
            true => take_last(&mut waiting, owner),
            false => None,
        }
    }

    /// A waiting tunnel of this client, for when the pool is empty.
    pub(super) fn take_any_waiting(&self, owner: &TunnelOwner) -> Option<Arc<TunEnd>> {
        take_last(&mut self.waiting.lock(), owner)
    }

    /// The tunnels of this client that wait and have one of these addresses.
    pub(super) fn take_waiting_with(
        &self,
        owner: &TunnelOwner,
        wishes: &[IpPrefix],
    ) -> Vec<Arc<TunEnd>> {
        let has_wish = |end: &mut Arc<TunEnd>| {
            let lease = end.lease.lock();
            let addresses = lease.iter().flat_map(|lease| [lease.v4, lease.v6]);
            addresses.flatten().any(|address| wishes.contains(&address))
        };

        let mut waiting = self.waiting.lock();
        let Some(of_owner) = waiting.get_mut(owner) else {
            return Vec::new();
        };
        let taken = of_owner.extract_if(.., has_wish).collect();
        if of_owner.is_empty() {
            waiting.remove(owner);
        }
        taken
    }

    /// The address that the device has in a prefix of the pool.
    pub fn device_address(prefix: IpPrefix) -> IpAddr {
        own(prefix, 1)
    }
}

impl Drop for WaitingTunnel<'_> {
    fn drop(&mut self) {
        let mut waiting = self.proxy.waiting.lock();
        let owner = self.end.owner();
        let Some(of_owner) = waiting.get_mut(owner) else {
            return;
        };
        of_owner.retain(|end| !Arc::ptr_eq(end, self.end));
        if of_owner.is_empty() {
            waiting.remove(owner);
        }
    }
}

/// Takes the tunnel of an owner that began to wait last.
fn take_last(
    waiting: &mut HashMap<TunnelOwner, Vec<Arc<TunEnd>>>,
    owner: &TunnelOwner,
) -> Option<Arc<TunEnd>> {
    let of_owner = waiting.get_mut(owner)?;
    let last = of_owner.pop();
    if of_owner.is_empty() {
        waiting.remove(owner);
    }
    last
}

fn whole(prefix: IpPrefix) -> IpRange {
    IpRange::of(prefix, ANY_PROTOCOL)
}

/// The address at this place of a prefix.
fn own(prefix: IpPrefix, at: usize) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(first) => IpAddr::V4((first.to_bits() | at as u32).into()),
        IpAddr::V6(first) => IpAddr::V6((first.to_bits() | at as u128).into()),
    }
}

fn v4(address: IpAddr) -> Option<std::net::Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn v6(address: IpAddr) -> Option<std::net::Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(texts: &[&str]) -> Vec<IpPrefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_pool_keeps_two_addresses_and_leads_to_everything_of_its_families() {
        let pool = prefixes(&["10.7.0.0/29"]);
        let proxy = TunProxy::new(&pool, &[]).unwrap();
        assert_eq!(proxy.routes.ranges(), [whole(IpPrefix::ALL_V4)]);
        assert_eq!(proxy.routers.v4, Some([10, 7, 0, 2].into()));
        assert_eq!(
            TunProxy::device_address(pool[0]),
            IpAddr::from([10, 7, 0, 1])
        );

        let mut pool = proxy.pool.lock();
        let leases: Vec<_> = ["alice", "bob", "carol", "dave", "eve"]
            .iter()
            .map_while(|user| pool.acquire(user, &[], 0).ok()?.v4)
            .collect();
        assert_eq!(leases.len(), 4, "{leases:?}");
        assert!(
            leases
                .iter()
                .all(|one| !prefixes(&["10.7.0.0/30"])[0].contains(one.address())
                    || one.address() == IpAddr::from([10, 7, 0, 3]))
        );
    }

    #[test]
    fn a_client_writes_errors_from_where_its_routes_lead() {
        let client = TunClient::new(
            Vec::new(),
            OtherAssigned::Adopt,
            &prefixes(&["0.0.0.0/0", "10.9.0.0/16"]),
        );
        assert_eq!(client.routers.v4, Some([10, 9, 0, 1].into()));
        assert_eq!(client.routers.v6, None);
    }
}
