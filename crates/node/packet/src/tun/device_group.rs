//! Tunnels of one client's device that end at the same device: they share an address, and an answer takes the tunnel of its question.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_ip::Lease;
use parking_lot::Mutex;

use super::tunnel_owner::TunnelOwner;

/// Hosts for which a group remembers the tunnel of the last packet to them. When it is full, it
/// forgets all: their packets take any tunnel of the group until they are sent one again.
#[doc(alias = "bound")]
const MOST_HOSTS: usize = 16_384;

/// The tunnels that have one address.
#[derive(Debug)]
pub(super) struct DeviceGroup<E> {
    /// Its number as an owner of routes: that of its first tunnel.
    pub(super) number: u64,
    lease: Mutex<Lease>,
    /// In the order in which they were opened.
    members: Mutex<Vec<GroupMember<E>>>,
    /// The number of the tunnel through which a host was last sent something.
    hosts: Mutex<HashMap<IpAddr, u64>>,
}

/// A tunnel of a group, by its number.
#[derive(Debug)]
pub(super) struct GroupMember<E> {
    pub(super) number: u64,
    pub(super) end: Arc<E>,
}

/// The owner of a group of tunnels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GroupKey {
    identity: String,
    device: String,
}

/// The groups of a device: by user, and by device of that user. Bounded by the tunnels that there are.
#[derive(Debug)]
pub(super) struct DeviceGroups<E> {
    open: Mutex<HashMap<GroupKey, Arc<DeviceGroup<E>>>>,
}

impl<E> Default for DeviceGroups<E> {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
        }
    }
}

impl<E> DeviceGroup<E> {
    pub(super) fn lease(&self) -> Lease {
        self.lease.lock().clone()
    }

    /// Sets the addresses of all members.
    pub(super) fn set_lease(&self, lease: &Lease) {
        self.lease.lock().clone_from(lease);
    }

    /// All of its tunnels but the one of this number.
    pub(super) fn others(&self, number: u64) -> Vec<Arc<E>> {
        let members = self.members.lock();
        let others = members.iter().filter(|member| member.number != number);
        others.map(|member| member.end.clone()).collect()
    }

    /// The tunnel that was opened first.
    pub(super) fn first(&self) -> Option<Arc<E>> {
        let members = self.members.lock();
        members.first().map(|member| member.end.clone())
    }

    /// Notes that a packet to a host came through a tunnel.
    pub(super) fn note(&self, host: IpAddr, tunnel: u64) {
        let mut hosts = self.hosts.lock();
        if hosts.len() >= MOST_HOSTS && !hosts.contains_key(&host) {
            // No order to maintain for each packet: forgetting costs a detour, never a packet.
            hosts.clear();
        }
        hosts.insert(host, tunnel);
    }

    /// The tunnel for a packet from this host.
    pub(super) fn end_for(&self, host: IpAddr) -> Option<Arc<E>> {
        let number = self.hosts.lock().get(&host).copied();
        let members = self.members.lock();
        let found = members.iter().find(|one| Some(one.number) == number);
        let member = found.or(members.last())?;
        Some(member.end.clone())
    }
}

impl<E> DeviceGroups<E> {
    /// The group of this owner's device, if one of its tunnels is open.
    pub(super) fn of(&self, owner: &TunnelOwner) -> Option<Arc<DeviceGroup<E>>> {
        self.open.lock().get(&key(owner)?).cloned()
    }

    /// Enters a tunnel with its lease. `None`: its owner has no others, and so it has no group.
    pub(super) fn join(
        &self,
        owner: &TunnelOwner,
        member: GroupMember<E>,
        lease: &Lease,
    ) -> Option<Arc<DeviceGroup<E>>> {
        let key = key(owner)?;
        let mut open = self.open.lock();
        let group = open.entry(key).or_insert_with(|| {
            Arc::new(DeviceGroup {
                number: member.number,
                lease: Mutex::new(lease.clone()),
                members: Mutex::new(Vec::new()),
                hosts: Mutex::default(),
            })
        });
        group.members.lock().push(member);
        Some(group.clone())
    }

    /// A tunnel leaves; says whether its lease is free now.
    pub(super) fn leave(&self, owner: &TunnelOwner, number: u64) -> bool {
        let Some(key) = key(owner) else {
            return true;
        };
        let mut open = self.open.lock();
        let Some(group) = open.get(&key) else {
            return true;
        };

        let is_last = {
            let mut members = group.members.lock();
            members.retain(|member| member.number != number);
            members.is_empty()
        };
        if is_last {
            open.remove(&key);
        }
        is_last
    }
}

fn key(owner: &TunnelOwner) -> Option<GroupKey> {
    let part = owner.part.as_ref()?;
    Some(GroupKey {
        identity: owner.identity.clone(),
        device: part.device.clone(),
    })
}
