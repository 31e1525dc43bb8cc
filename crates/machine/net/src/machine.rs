//! Features that this machine allows the calling process: found out by trying, on sockets and a
//! device that are gone a moment later.
//!
//! A held capability or a loaded module does not suffice: containers, service managers and security
//! modules refuse calls that both would allow. The trial leaves no trace, and no packet leaves the
//! machine.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::listen::{UDP_BUFFER, enlarge_receive_buffer};
use crate::os::{self, Link};
use crate::own_mark::marked;

/// The device that is made for a moment: the kernel replaces `%d` by a number that is free.
const DEVICE: &str = "hermes-try%d";

/// An MTU that every version of IP is content with.
const MTU: u32 = 1280;

/// How long a datagram over loopback may take.
#[doc(alias = "bound")]
const LOOPBACK: Duration = Duration::from_secs(1);

/// Bytes of a datagram that every QUIC packet of a handshake fits (RFC 9000, section 14).
const DATAGRAM: usize = 1200;

/// The mark for the trial. No packet is sent with it.
const MARK: u32 = 0x4845;

/// Something that may be allowed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// To make TUN devices.
    Tun,
    /// To have the kernel take and give uncut packets at TUN devices.
    TunOffload,
    /// To ask the kernel for addresses and routes.
    Netlink,
    /// To change interfaces, addresses and routes.
    NetlinkChange,
    /// Giving packets of a TUN device the addresses of this machine as they leave.
    Masquerade,
    /// Marking packets of sockets, for routing rules.
    Mark,
    /// Marking sockets of a control group.
    Cgroups,
    /// To ask hosts for echoes of ICMP.
    Echo,
    /// To take connections to addresses of others, as TPROXY hands them over.
    Tproxy,
    /// UDP, and room for as much of it as a burst has.
    Udp,
    /// UDP as QUIC needs it: whole datagrams of 1200 bytes.
    Http3,
    /// To send many datagrams at once.
    Gso,
    /// To receive many datagrams at once.
    Gro,
    /// To leave TLS records to the kernel.
    Ktls,
}

impl Feature {
    /// All, in the order in which people read about them.
    pub const ALL: [Self; 14] = [
        Self::Tun,
        Self::TunOffload,
        Self::Netlink,
        Self::NetlinkChange,
        Self::Masquerade,
        Self::Mark,
        Self::Cgroups,
        Self::Echo,
        Self::Tproxy,
        Self::Udp,
        Self::Http3,
        Self::Gso,
        Self::Gro,
        Self::Ktls,
    ];

    /// Tries it. Returns details beside the success.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn try_out(self) -> Result<String, Missing> {
        match self {
            Self::Tun => tun(),
            Self::TunOffload => tun_offload(),
            Self::Netlink => netlink(),
            Self::NetlinkChange => netlink_change(),
            Self::Masquerade => masquerade(),
            Self::Mark => mark(),
            Self::Cgroups => cgroups(),
            Self::Echo => echo(),
            Self::Tproxy => tproxy(),
            Self::Udp => udp(),
            Self::Http3 => http3(),
            Self::Gso => gso(),
            Self::Gro => gro(),
            Self::Ktls => ktls(),
        }
    }
}

/// A feature that does not work, and how far the trial got.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct Missing {
    /// The step that failed.
    pub step: &'static str,
    /// Why it did not work.
    pub reason: MissingReason,
}

/// Why something does not work.
#[derive(Debug, thiserror::Error)]
pub enum MissingReason {
    /// The system refused it.
    #[error("{0}")]
    Refused(#[from] io::Error),
    /// A buffer is smaller than bursts need.
    #[error("{given} bytes of {wanted}")]
    Small {
        /// The granted size.
        given: usize,
        /// The wanted size.
        wanted: usize,
    },
    /// The kernel has only a part of it.
    #[error("{0}")]
    Partly(&'static str),
}

/// Names the step that an error stopped.
fn at<T>(step: &'static str, done: io::Result<T>) -> Result<T, Missing> {
    done.map_err(|error| Missing {
        step,
        reason: MissingReason::Refused(error),
    })
}

fn tun() -> Result<String, Missing> {
    // The device goes with its descriptor.
    let (_queue, name) = at("opening /dev/net/tun", os::open_tun(DEVICE))?;
    let link = at("finding the device", Link::named(&name))?;
    at("bringing the device up", link.bring_up(MTU))?;
    Ok("a device was made, brought up and removed".to_owned())
}

fn tun_offload() -> Result<String, Missing> {
    let (queue, _) = at("opening /dev/net/tun", os::open_tun(DEVICE))?;
    match os::tun_cuts_udp(&queue) {
        true => Ok("TCP and UDP".to_owned()),
        false => Err(Missing {
            step: "offloads of TUN",
            reason: MissingReason::Partly("TCP only; UDP is cut by the kernel"),
        }),
    }
}

fn netlink() -> Result<String, Missing> {
    let loopback = at("finding loopback", Link::named("lo"))?;
    let addresses = at("asking for addresses", loopback.addresses())?;
    let all = os::local_addresses().len();
    Ok(format!(
        "{all} addresses, of which loopback has {}",
        addresses.len()
    ))
}

fn netlink_change() -> Result<String, Missing> {
    let loopback = at("finding loopback", Link::named("lo"))?;
    at("changing an interface", loopback.change_nothing())?;
    Ok("interfaces, addresses and routes".to_owned())
}

fn masquerade() -> Result<String, Missing> {
    at("a table of nf_tables", os::Masquerade::check())?;
    let forwarded = os::forwarded_families();
    let forwards = match (forwarded.v4, forwarded.v6) {
        (true, true) => "this machine forwards IPv4 and IPv6",
        (true, false) => "this machine forwards IPv4, but not IPv6 (net.ipv6.conf.all.forwarding)",
        (false, true) => "this machine forwards IPv6, but not IPv4 (net.ipv4.ip_forward)",
        (false, false) => {
            "this machine forwards nothing: sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        }
    };
    let there = match os::masquerades().unwrap_or_default().as_slice() {
        [] => String::new(),
        tables => format!("; tables now: {}", tables.join(" ")),
    };
    Ok(format!("nf_tables; {forwards}{there}"))
}

fn mark() -> Result<String, Missing> {
    let socket = at("a UDP socket", unbound())?;
    at("SO_MARK", os::mark(&socket, MARK))?;
    Ok("SO_MARK".to_owned())
}

fn cgroups() -> Result<String, Missing> {
    at("a program of control groups", os::CgroupMark::check())?;
    Ok("a mark for sockets of a control group".to_owned())
}

fn echo() -> Result<String, Missing> {
    at("a socket of ICMP", os::echo_socket(Domain::IPV4))?;
    match os::echo_socket(Domain::IPV6) {
        Ok(_) => Ok("ICMP and ICMPv6".to_owned()),
        Err(_) => Ok("ICMP; no ICMPv6".to_owned()),
    }
}

fn tproxy() -> Result<String, Missing> {
    let socket = at("a UDP socket", unbound())?;
    at("IP_TRANSPARENT", os::take_foreign_addresses(&socket))?;
    let controls = os::congestion_controls().join(" ");
    let led = match os::CaptureRules::check(false, false) {
        Ok(()) => captures(),
        Err(error) => {
            let redirect = match os::CaptureRules::check_redirecting(false) {
                Ok(()) => "; capture of connections alone by nf_tables and REDIRECT",
                Err(_) => "",
            };
            format!(
                "the rules that lead traffic to it are the administrator's: nf_tables: {error}{redirect}"
            )
        }
    };
    Ok(format!(
        "IP_TRANSPARENT; {led}; congestion control: {controls}"
    ))
}

/// The kinds of capture that the kernel has rules for.
fn captures() -> String {
    let closed = match os::CaptureRules::check(true, false) {
        Ok(()) => "fail: open or closed".to_owned(),
        Err(error) => format!("fail: open only (closed: {error})"),
    };
    let held = match os::CaptureRules::check(false, true) {
        Ok(()) => "split holds beginnings by NFQUEUE".to_owned(),
        Err(error) => format!("split accepts clients first (NFQUEUE: {error})"),
    };
    let there = match os::captures().unwrap_or_default().as_slice() {
        [] => String::new(),
        tables => format!("; tables now: {}", tables.join(" ")),
    };
    let redirect = match os::CaptureRules::check_redirecting(false) {
        Ok(()) => "mode: redirect",
        Err(_) => "no mode: redirect",
    };
    format!("capture by nf_tables, {closed}, {redirect}; {held}{there}")
}

fn udp() -> Result<String, Missing> {
    let socket = at("IPv4 on loopback", loopback_socket())?;
    let handle = SockRef::from(&socket);
    enlarge_receive_buffer(&handle);
    // getsockopt returns double the usable size: the rest is for the kernel's own records
    // (socket(7)).
    let told = at("reading its buffer", handle.recv_buffer_size())?;
    let given = told / 2;
    if given < UDP_BUFFER {
        return Err(Missing {
            step: "a receive buffer",
            reason: MissingReason::Small {
                given,
                wanted: UDP_BUFFER,
            },
        });
    }

    let ipv6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let families = if ipv6 {
        "IPv4 and IPv6"
    } else {
        "IPv4, no IPv6"
    };
    Ok(format!("{families}, receive buffer of {given} bytes"))
}

fn http3() -> Result<String, Missing> {
    let sender = at("a UDP socket", loopback_socket())?;
    at(
        "forbidding fragments",
        os::forbid_fragments(&owned(&sender)?, false),
    )?;

    let length = pass(&sender, &[0; DATAGRAM])?;
    match length == DATAGRAM {
        true => Ok("whole datagrams of 1200 bytes; give an upstream to try a path".to_owned()),
        false => Err(Missing {
            step: "1200 bytes over loopback",
            reason: MissingReason::Partly("a datagram was cut short"),
        }),
    }
}

fn gso() -> Result<String, Missing> {
    let sender = at("a UDP socket", loopback_socket())?;
    at(
        "UDP_SEGMENT",
        os::send_cut(&sender, i32::try_from(DATAGRAM).unwrap_or(i32::MAX)),
    )?;

    // A kernel may know the option, and a network device still refuse such datagrams.
    let length = pass(&sender, &[0; 4 * DATAGRAM])?;
    match length == DATAGRAM {
        true => Ok("UDP_SEGMENT".to_owned()),
        false => Err(Missing {
            step: "UDP_SEGMENT",
            reason: MissingReason::Partly("datagrams sent at once were not cut"),
        }),
    }
}

fn gro() -> Result<String, Missing> {
    let socket = at("a UDP socket", loopback_socket())?;
    at("UDP_GRO", os::receive_merged(&socket))?;
    Ok("UDP_GRO".to_owned())
}

fn ktls() -> Result<String, Missing> {
    let listener = at("a TCP socket", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = at("a TCP socket", listener.local_addr())?;
    let stream = at(
        "a connection over loopback",
        TcpStream::connect_timeout(&address, LOOPBACK),
    )?;
    at("TCP_ULP tls", os::attach_tls(&stream))?;
    Ok("TCP_ULP tls".to_owned())
}

/// A UDP socket towards `address` without fragmentation: a datagram longer than the MTU of the
/// interface is refused, and one longer than that of the path is lost.
///
/// # Errors
/// There is no route, or the system cannot forbid fragments.
pub fn whole_datagrams(address: SocketAddr) -> io::Result<tokio::net::UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = marked(os::datagram_socket(Domain::for_address(address))?)?;
    os::forbid_fragments(&socket, address.is_ipv6())?;
    socket.bind(&any.into())?;
    socket.connect(&address.into())?;
    tokio::net::UdpSocket::from_std(socket.into())
}

/// Whether a datagram was not sent because it was longer than the interface carries.
#[must_use]
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

/// Sends bytes at once to another socket. Returns the length of the first datagram that comes.
fn pass(sender: &UdpSocket, bytes: &[u8]) -> Result<usize, Missing> {
    let receiver = at("a UDP socket", loopback_socket())?;
    at("a UDP socket", receiver.set_read_timeout(Some(LOOPBACK)))?;
    let to = at("a UDP socket", receiver.local_addr())?;
    let sent = SockRef::from(sender).send_to_vectored(&[IoSlice::new(bytes)], &to.into());
    at("sending over loopback", sent)?;

    let mut room = vec![0; bytes.len()];
    let received = at("receiving over loopback", receiver.recv(&mut room))?;
    Ok(received)
}

fn loopback_socket() -> io::Result<UdpSocket> {
    UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// The same socket, as the type that options are set on.
fn owned(socket: &UdpSocket) -> Result<Socket, Missing> {
    at("a UDP socket", socket.try_clone()).map(Socket::from)
}

fn unbound() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_machine_has_is_found() {
        for feature in [Feature::Http3, Feature::Gso, Feature::Gro] {
            feature.try_out().unwrap();
        }
        assert_eq!(Feature::ALL.len(), Feature::Ktls as usize + 1);
        assert!(Feature::ALL.is_sorted());
    }

    #[test]
    fn what_is_missing_says_where_it_stopped() {
        let missing = at::<()>("SO_MARK", Err(io::ErrorKind::PermissionDenied.into())).unwrap_err();
        assert_eq!(missing.to_string(), "SO_MARK: permission denied");
    }
}
