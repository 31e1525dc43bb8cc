//! Networks of this process: namespaces with interfaces, addresses and routes of their own, and cables between them.
//!
//! These networks are separate from those of the machine, and end with this process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use ipnet::IpNet;

use crate::os::{self, Link};

/// The MTU of cables: that of Ethernet.
const MTU: u32 = 1500;

/// The MTU that loopback has.
const LOOPBACK_MTU: u32 = 65_536;

/// A network. It ends with this value, and with the programs that were started in it.
#[derive(Debug)]
pub struct Network {
    namespace: OwnedFd,
}

/// One end of a cable.
#[derive(Debug, Clone, Copy)]
pub struct Plug<'a> {
    /// The network.
    pub network: &'a Network,
    /// The name of the interface there.
    pub interface: &'a str,
    /// The address that it has there.
    pub address: IpNet,
}

impl Network {
    /// A new one, in which loopback is up.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`. Other systems than Linux
    /// have no such networks.
    pub fn new() -> io::Result<Self> {
        // A thread never comes out of a network that it is in.
        let made = thread::spawn(|| {
            let namespace = os::new_network()?;
            Link::named("lo")?.bring_up(LOOPBACK_MTU)?;
            Ok::<_, io::Error>(namespace)
        });
        let namespace = joined(made.join())??;
        Ok(Self { namespace })
    }

    /// The one that this file stands for, such as `/run/netns/NAME`.
    ///
    /// # Errors
    /// `InvalidInput`: the file stands for none.
    pub fn of(file: File) -> io::Result<Self> {
        if !os::is_network(&file) {
            let reason = "the file is no network namespace";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Ok(Self {
            namespace: file.into(),
        })
    }

    /// Does something in it, on a thread of its own: the sockets and processes that this makes stay there.
    ///
    /// # Errors
    /// The thread may not enter it.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                os::enter_network(self.namespace.as_fd())?;
                Ok(act())
            });
            joined(entered.join())?
        })
    }

    /// The file that stands for it as long as it lasts, for programs such as `nsenter`.
    #[must_use]
    pub fn path(&self) -> String {
        let descriptor = self.namespace.as_raw_fd();
        format!("/proc/{}/fd/{descriptor}", std::process::id())
    }

    /// Gives an interface another address.
    ///
    /// # Errors
    /// There is no such interface, or changing it is not allowed.
    pub fn add_address(&self, interface: &str, address: IpNet) -> io::Result<()> {
        self.within(|| Link::named(interface)?.add_address(address))?
    }
}

/// Lays a cable between two networks.
///
/// # Errors
/// There is an interface of that name, or changing interfaces is not allowed.
pub fn cable(near: Plug<'_>, far: Plug<'_>) -> io::Result<()> {
    near.network.within(|| {
        os::add_cable(
            near.interface,
            (far.network.namespace.as_fd(), far.interface),
        )
    })??;

    for end in [near, far] {
        end.network.within(|| {
            let link = Link::named(end.interface)?;
            link.bring_up(MTU)?;
            link.add_address(end.address)
        })??;
    }
    Ok(())
}

/// The result of a thread.
fn joined<T>(done: thread::Result<T>) -> io::Result<T> {
    done.map_err(|_| io::Error::other("a thread in a network panicked"))
}
