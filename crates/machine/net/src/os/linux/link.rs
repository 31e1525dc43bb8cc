//! Changes of an interface by routing netlink: its MTU and state, addresses and routes.
//!
//! These are five messages, and the framing is here for the addresses of this machine anyway: a crate for all of netlink would bring
//! five more, and a task beside each socket.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use rustix::net::{AddressFamily, SocketType, socket};

use super::super::Link;
use super::netlink::{Change, Dump, attributes};

/// Types of messages (`linux/rtnetlink.h`).
pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
pub(super) const RTM_NEWROUTE: u16 = 24;
pub(super) const RTM_DELROUTE: u16 = 25;

/// Attributes (`linux/if_link.h`, `linux/if_addr.h`, `linux/rtnetlink.h`).
const IFLA_MTU: u16 = 4;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;

/// Families (`linux/socket.h`).
pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

/// The interface is up.
const IFF_UP: u32 = 1;
/// The kernel gives it no addresses of IPv6 by itself.
const ADDR_GEN_MODE_NONE: u8 = 1;
/// An address of IPv6 is used at once: on a link of two, no one else can have it.
const IFA_F_NODAD: u8 = 2;
/// The main table; made by an administrator; onto the link, or anywhere; to a host or network.
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;

/// Bytes of `struct ifaddrmsg`.
const IFADDRMSG: usize = 8;

impl Link {
    /// The interface of this name.
    ///
    /// # Errors
    /// There is no such link.
    pub fn named(name: &str) -> io::Result<Self> {
        let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = rustix::net::netdevice::name_to_index(&any, name)?;
        Ok(Self { index })
    }

    /// Brings it up with this MTU, and without the addresses of IPv6 that the kernel would give it, and would ask routers about.
    ///
    /// # Errors
    /// The link is gone, or changing it is not allowed.
    pub fn bring_up(self, mtu: u32) -> io::Result<()> {
        let mode = attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
        let family = attribute(u16::from(AF_INET6), &mode);
        // A kernel without IPv6 does not know the attribute, and needs it not.
        let _ = self.change_link(0, &[(IFLA_AF_SPEC, &family)]);
        self.change_link(IFF_UP, &[(IFLA_MTU, &mtu.to_ne_bytes())])
    }

    /// Sets its MTU, in bytes.
    ///
    /// # Errors
    /// As [`Self::bring_up`]; and an MTU below 68 is refused, and one below 1280 takes the addresses of IPv6 away.
    pub fn set_mtu(self, mtu: u32) -> io::Result<()> {
        self.change_link(0, &[(IFLA_MTU, &mtu.to_ne_bytes())])
    }

    /// Asks for a change that changes nothing, to find out whether changes are allowed.
    ///
    /// # Errors
    /// They are not; or netlink is not allowed.
    pub fn change_nothing(self) -> io::Result<()> {
        self.change_link(0, &[])
    }

    fn change_link(self, flags: u32, attributes: &[(u16, &[u8])]) -> io::Result<()> {
        // `struct ifinfomsg`: family and type, index, flags, and which of them are meant.
        let structure = [
            &[0; 4][..],
            &self.index.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &flags.to_ne_bytes(),
        ];
        Change {
            kind: RTM_NEWLINK,
            creates: false,
            structure: &structure.concat(),
            attributes,
        }
        .run()
    }

    /// Its addresses.
    ///
    /// # Errors
    /// Netlink is not allowed.
    pub fn addresses(self) -> io::Result<Vec<IpNet>> {
        let all = Dump {
            kind: RTM_GETADDR,
            structure: IFADDRMSG,
        };
        let mut found = Vec::new();
        all.run(|kind, content| {
            if kind == RTM_NEWADDR {
                found.extend(self.own_address(content));
            }
        })?;
        Ok(found)
    }

    fn own_address(self, content: &[u8]) -> Option<IpNet> {
        let (structure, rest) = content.split_first_chunk::<IFADDRMSG>()?;
        if structure[4..8] != self.index.to_ne_bytes() {
            return None;
        }

        let of = |wanted: u16| {
            let mut values = attributes(rest).filter(|(kind, _)| *kind == wanted);
            values.next().and_then(|(_, value)| address(value))
        };
        IpNet::new(of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?, structure[1]).ok()
    }

    /// Gives it an address, and the network of that with it.
    ///
    /// # Errors
    /// The link is gone, or changing it is not allowed.
    pub fn add_address(self, address: IpNet) -> io::Result<()> {
        self.change_address(RTM_NEWADDR, address)
    }

    /// Takes an address from it.
    ///
    /// # Errors
    /// The link has no such address, is gone, or changing it is not allowed.
    pub fn remove_address(self, address: IpNet) -> io::Result<()> {
        self.change_address(RTM_DELADDR, address)
    }

    fn change_address(self, kind: u16, address: IpNet) -> io::Result<()> {
        let bytes = octets(address.addr());
        let structure = [
            &[
                family(address),
                address.prefix_len(),
                IFA_F_NODAD,
                RT_SCOPE_UNIVERSE,
            ][..],
            &self.index.to_ne_bytes(),
        ];
        Change {
            kind,
            creates: kind == RTM_NEWADDR,
            structure: &structure.concat(),
            attributes: &[(IFA_LOCAL, &bytes), (IFA_ADDRESS, &bytes)],
        }
        .run()
    }

    /// Leads packets for `net` to it. The route goes when the interface does.
    ///
    /// # Errors
    /// The link is gone or down, or changing routes is not allowed.
    pub fn add_route(self, net: IpNet) -> io::Result<()> {
        self.change_route(RTM_NEWROUTE, net)
    }

    /// Leads packets for `net` to it no more.
    ///
    /// # Errors
    /// There is no such route, or changing routes is not allowed.
    pub fn remove_route(self, net: IpNet) -> io::Result<()> {
        self.change_route(RTM_DELROUTE, net)
    }

    fn change_route(self, kind: u16, net: IpNet) -> io::Result<()> {
        let bytes = octets(net.network());
        let scope = match net {
            IpNet::V4(_) => RT_SCOPE_LINK,
            IpNet::V6(_) => RT_SCOPE_UNIVERSE,
        };
        // `struct rtmsg`: lengths of the destination and the source, type of service, and the table
        // and kind of the route.
        let structure = [
            family(net),
            net.prefix_len(),
            0,
            0,
            RT_TABLE_MAIN,
            RTPROT_STATIC,
            scope,
            RTN_UNICAST,
            0,
            0,
            0,
            0,
        ];
        Change {
            kind,
            creates: kind == RTM_NEWROUTE,
            structure: &structure,
            attributes: &[(RTA_DST, &bytes), (RTA_OIF, &self.index.to_ne_bytes())],
        }
        .run()
    }
}

fn family(net: IpNet) -> u8 {
    match net {
        IpNet::V4(_) => AF_INET,
        IpNet::V6(_) => AF_INET6,
    }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6()).ok()
}

/// An attribute, to be the value of another.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    super::netlink::append_attribute(&mut bytes, kind, value);
    bytes
}
