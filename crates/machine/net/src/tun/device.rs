//! A device, and what leads packets to it.

use std::io;
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use parking_lot::Mutex;

use super::bypass::{Bypass, Past};
use super::queue::TunQueue;
use super::turn::DeviceTurn;
use crate::os::{Link, Masquerade, open_tun};

/// Queues of a device: the kernel allows as many (`MAX_TAP_QUEUES`).
#[doc(alias = "bound")]
pub const MAX_QUEUES: usize = 256;

/// The settings of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunSettings {
    /// Its name, up to 15 bytes.
    pub name: String,
    /// How many queues it has, of which the kernel gives each flow one.
    pub queues: usize,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// Its addresses, each with the length of its network.
    pub addresses: Vec<IpNet>,
    /// Destinations that are routed to it.
    pub routes: Vec<IpNet>,
    /// Traffic that bypasses it nevertheless, together with this process's own; `None`: no traffic
    /// does.
    pub past: Option<Past>,
    /// Whether its packets leave this machine with the addresses of the machine.
    pub masquerade: bool,
}

/// Why there is no device, or not one as configured, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("TUN device {name}: {what}: {source}{}", .help.map(|help| format!("; {help}")).unwrap_or_default())]
pub struct TunError {
    /// Its name.
    pub name: String,
    /// The step that failed.
    pub what: String,
    /// The remedy, if it is known.
    pub help: Option<&'static str>,
    source: io::Error,
}

/// A device that is up. Its queues keep it.
#[derive(Debug)]
pub struct TunDevice {
    name: String,
    link: Link,
    /// Leads past it, where something is to.
    bypass: Option<Mutex<Bypass>>,
    /// Kept for as long as the device is.
    _masquerade: Option<Masquerade>,
    /// Ends last: what another process sets up then is not taken away by this one.
    turn: Option<DeviceTurn>,
}

impl TunDevice {
    /// Makes a device, or takes over one that no process has, and brings it up. Each of its queues belongs to a worker.
    ///
    /// # Errors
    /// [`TunError`], and then there is no device.
    pub fn open(settings: &TunSettings) -> Result<(Self, Vec<TunQueue>), TunError> {
        Self::take(settings, Vec::new())
    }

    /// The same, of a device that has these queues already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn take(
        settings: &TunSettings,
        given: Vec<OwnedFd>,
    ) -> Result<(Self, Vec<TunQueue>), TunError> {
        let count = settings.queues.clamp(1, MAX_QUEUES);
        // One that no worker reads would still be dealt its part of the packets.
        let mut queues: Vec<TunQueue> = given.into_iter().take(count).map(TunQueue::new).collect();
        let mut name = settings.name.clone();
        while queues.len() < count {
            let opened = open_tun(&name).map_err(|error| not_opened(&name, error))?;
            name = opened.1;
            queues.push(TunQueue::new(opened.0));
        }

        let failed = |what: &str, source| TunError::of(&settings.name, what, source);
        let link = Link::named(&name).map_err(|error| failed("finding it", error))?;
        let bypass = settings.past.as_ref().map(|past| Bypass::new(&name, past));
        let bypass = bypass.transpose().map_err(|error| TunError {
            help: not_led(&error),
            ..failed("choosing the traffic that is routed to it", error)
        })?;
        // Before it is up, so that no packet leaves with another address.
        let masquerade = settings.masquerade.then(|| Masquerade::of(&name));
        let masquerade = masquerade.transpose().map_err(|error| TunError {
            help: Some("`hermes netcheck` says what masquerade needs here"),
            ..failed("masquerade", error)
        })?;
        let device = Self {
            name,
            link,
            bypass: bypass.map(Mutex::new),
            _masquerade: masquerade,
            turn: None,
        };

        // Before it is up, so that nothing is sent with an address that goes again.
        device.remove_others(&settings.addresses)?;
        link.bring_up(settings.mtu)
            .map_err(|error| failed("bringing it up", error))?;
        for address in &settings.addresses {
            device.add_address(*address)?;
        }
        for net in &settings.routes {
            device.add_route(*net)?;
        }
        Ok((device, queues))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keeps the turn of this process for as long as the device is open here.
    pub(super) fn keep(&mut self, turn: Option<DeviceTurn>) {
        self.turn = turn;
    }

    /// Whether it is still there: someone may have deleted it, of which those who wait for its packets are not told.
    pub fn is_there(&self) -> bool {
        Link::named(&self.name).is_ok_and(|link| link == self.link)
    }

    /// Its addresses now.
    ///
    /// # Errors
    /// The device is gone, or netlink is not allowed.
    pub fn addresses(&self) -> Result<Vec<IpNet>, TunError> {
        let addresses = self.link.addresses();
        addresses.map_err(|error| self.failed("reading its addresses", error))
    }

    /// Gives it these addresses in place of those that it has.
    ///
    /// # Errors
    /// The device is gone, or changing it is not allowed.
    pub fn set_addresses(&self, addresses: &[IpNet]) -> Result<(), TunError> {
        // The new ones first: a connection from one that stays is not disturbed.
        for address in addresses {
            self.add_address(*address)?;
        }
        self.remove_others(addresses)
    }

    fn remove_others(&self, wanted: &[IpNet]) -> Result<(), TunError> {
        for address in self.addresses()? {
            if !wanted.contains(&address) {
                let removed = self.link.remove_address(address);
                removed.map_err(|error| self.failed(&format!("removing {address}"), error))?;
            }
        }
        Ok(())
    }

    fn add_address(&self, address: IpNet) -> Result<(), TunError> {
        let added = self.link.add_address(address);
        added.map_err(|error| self.failed(&format!("adding address {address}"), error))
    }

    /// Leads packets for `net` to it.
    ///
    /// # Errors
    /// The device is gone, or changing routes is not allowed.
    pub fn add_route(&self, net: IpNet) -> Result<(), TunError> {
        let added = match &self.bypass {
            Some(bypass) => bypass.lock().add(self.link, net),
            None => self.link.add_route(net),
        };
        added.map_err(|error| self.failed(&format!("adding a route for {net}"), error))
    }

    /// Leads packets for `net` to it no more.
    ///
    /// # Errors
    /// There is no such route, or changing routes is not allowed.
    pub fn remove_route(&self, net: IpNet) -> Result<(), TunError> {
        let removed = match &self.bypass {
            Some(bypass) => bypass.lock().remove(self.link, net),
            None => self.link.remove_route(net),
        };
        removed.map_err(|error| self.failed(&format!("removing the route for {net}"), error))
    }

    /// Sets its MTU, in bytes. Below 1280, the kernel takes its addresses of IPv6 away.
    ///
    /// # Errors
    /// The device is gone, or changing it is not allowed.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), TunError> {
        let set = self.link.set_mtu(mtu);
        set.map_err(|error| self.failed(&format!("setting its MTU to {mtu}"), error))
    }

    fn failed(&self, what: &str, source: io::Error) -> TunError {
        TunError::of(&self.name, what, source)
    }
}

impl TunError {
    /// An error without a known remedy.
    pub(super) fn of(name: &str, what: &str, source: io::Error) -> Self {
        Self {
            name: name.to_owned(),
            what: what.to_owned(),
            help: None,
            source,
        }
    }
}

/// The remedy where packets cannot be chosen by their sender.
fn not_led(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Some("it takes CAP_NET_ADMIN, and CAP_BPF where control groups are named")
        }
        io::ErrorKind::NotFound => Some("name users and control groups of this machine"),
        io::ErrorKind::InvalidInput => {
            Some("name folders of cgroup v2, as /sys/fs/cgroup/user.slice")
        }
        _ => None,
    }
}

/// Why no queue was opened.
fn not_opened(name: &str, source: io::Error) -> TunError {
    let help = match source.kind() {
        io::ErrorKind::NotFound => {
            Some("load the module (modprobe tun), or give the container /dev/net/tun")
        }
        io::ErrorKind::PermissionDenied => {
            Some("it takes CAP_NET_ADMIN (AmbientCapabilities=CAP_NET_ADMIN in the service's unit)")
        }
        io::ErrorKind::ResourceBusy => Some("another process has it, or it has fewer queues"),
        io::ErrorKind::InvalidInput => {
            Some("an interface of this name is of another kind, or was made without multi_queue")
        }
        _ => None,
    };

    TunError {
        name: name.to_owned(),
        what: "opening it".to_owned(),
        help,
        source,
    }
}
