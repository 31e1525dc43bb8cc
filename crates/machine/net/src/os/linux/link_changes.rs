//! Links that come up, and addresses that they get, by routing netlink.

use std::io;

use super::netlink::{self, Announcements};

/// Types of messages (`linux/rtnetlink.h`).
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;

/// Groups that hear of links, and of addresses of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// Where the flags of a link stand in `struct ifinfomsg`, and the one that says that it carries (`IFF_RUNNING`).
const IFI_FLAGS: usize = 8;
const IFF_RUNNING: u32 = 0x40;

/// Hears of links that may carry from now on.
#[derive(Debug)]
pub struct LinkChanges(Announcements);

impl LinkChanges {
    /// Hears of them from now on.
    ///
    /// # Errors
    /// When the system, or a confinement of the process, forbids netlink.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn hear() -> io::Result<Self> {
        Announcements::hear(GROUPS).map(Self)
    }

    /// Resolves when a link carries, or one has got an address, without saying which. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn next(&mut self) -> io::Result<()> {
        self.0.next(may_carry).await
    }
}

fn may_carry(messages: &[u8]) -> bool {
    let mut carries = false;
    let read = netlink::read(messages, |kind, content| {
        carries |= match kind {
            RTM_NEWADDR => true,
            RTM_NEWLINK => is_running(content),
            _ => false,
        };
    });
    carries || read.is_err()
}

fn is_running(link: &[u8]) -> bool {
    let flags = link.get(IFI_FLAGS..IFI_FLAGS + 4).and_then(netlink::number);
    flags.is_some_and(|flags| flags & IFF_RUNNING != 0)
}
