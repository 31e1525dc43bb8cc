//! The network of one program, in which all packets go to a TUN device; and its descriptor on the way from that program to a node.
//!
//! Nothing of it outlives the program and the node: the device goes with its descriptor, and the network with its last process.

use std::fmt::Write as _;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::os::{self, Link};

/// The name of the device in its network.
const DEVICE: &str = "hermes0";

/// The MTU that loopback has.
const LOOPBACK_MTU: u32 = 65_536;

/// The names of the resolvers of a machine.
const RESOLVERS: &str = "/etc/resolv.conf";

/// Folders with sockets of services that answer questions for names by themselves, past `/etc/resolv.conf`: those of systemd-resolved,
/// nscd and Avahi. They would ask in the network of the machine.
const OTHER_RESOLVERS: [&str; 3] = ["/run/systemd/resolve", "/run/nscd", "/run/avahi-daemon"];

/// Whether AppArmor keeps user namespaces from programs that no profile names (Ubuntu from 23.10 on).
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// How many user namespaces there may be.
const MOST_SPACES: &str = "/proc/sys/user/max_user_namespaces";

/// Whether Debian's kernels allow them to users without rights.
const DEBIAN: &str = "/proc/sys/kernel/unprivileged_userns_clone";

/// The network of a program, as a node wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedSpace {
    /// The addresses of the device, one of each family that it has.
    pub addresses: Vec<IpAddr>,
    /// Where questions for names are answered.
    pub resolvers: Vec<IpAddr>,
    /// The MTU of the device, in bytes.
    pub mtu: u32,
}

/// Why a program has no network of its own, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct CaptureError {
    /// The step that failed.
    pub step: &'static str,
    /// The remedy, if it is known.
    pub remedy: Option<&'static str>,
    source: io::Error,
}

impl CapturedSpace {
    /// Moves this process into such a network, which it and the programs that it starts do not come out of. It must have no other threads.
    /// Returns the descriptor of the device.
    ///
    /// # Errors
    /// [`CaptureError`]. The process may be in the network then, and is to do nothing more.
    pub fn enter(&self) -> Result<OwnedFd, CaptureError> {
        os::enter_program_space()
            .map_err(|error| CaptureError::of("making a namespace of its own", error))?;
        // Afterwards the machine's view of names is out of reach.
        self.lead_names()?;
        let device = self.make_device()?;
        // Without it, only root can ping: nothing else depends on it.
        let _ = os::allow_pings();
        Ok(device)
    }

    /// Makes the device in the network of this thread.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn make_device(&self) -> Result<OwnedFd, CaptureError> {
        let failed = |step| move |error| CaptureError::of(step, error);
        let (device, name) = os::open_tun(DEVICE).map_err(failed("opening /dev/net/tun"))?;
        let setting = failed("setting up its network");
        let loopback = Link::named("lo").and_then(|link| link.bring_up(LOOPBACK_MTU));
        loopback.map_err(&setting)?;
        let link = Link::named(&name).map_err(&setting)?;
        link.bring_up(self.mtu).map_err(&setting)?;
        for address in &self.addresses {
            self.lead(link, *address).map_err(&setting)?;
        }
        Ok(device)
    }

    /// Gives the device an address, and all traffic of its family.
    fn lead(&self, link: Link, address: IpAddr) -> io::Result<()> {
        let everything = match address {
            IpAddr::V4(_) => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
            IpAddr::V6(_) => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
        };
        let led = link
            .add_address(IpNet::from(address))
            .and_then(|()| link.add_route(everything));
        match led {
            // A machine without IPv6 has none here either, so that nothing of it passes by the device.
            Err(_) if address.is_ipv6() => Ok(()),
            led => led,
        }
    }

    /// Has programs ask the node for names.
    fn lead_names(&self) -> Result<(), CaptureError> {
        let failed = |error| CaptureError {
            remedy: Some("there must be a file /etc/resolv.conf, if only an empty one"),
            ..CaptureError::of("showing it /etc/resolv.conf", error)
        };
        // Followed before a folder that it leads to is covered.
        let file = std::fs::canonicalize(RESOLVERS).map_err(failed)?;
        for folder in OTHER_RESOLVERS {
            cover(Path::new(folder)).map_err(failed)?;
        }

        let content = self.resolver_file();
        match file.exists() {
            true => os::cover_file(&file, content.as_bytes()).map_err(failed),
            // It was in one of these folders, which are this process's own now.
            false => write_below(&file, content.as_bytes()).map_err(failed),
        }
    }

    fn resolver_file(&self) -> String {
        let mut content = String::new();
        for resolver in &self.resolvers {
            // Writing to a string does not fail.
            let _ = writeln!(content, "nameserver {resolver}");
        }
        content
    }
}

/// Covers a folder, if there is one.
fn cover(folder: &Path) -> io::Result<()> {
    match std::fs::canonicalize(folder) {
        Ok(folder) => os::cover_folder(&folder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn write_below(file: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent().map(PathBuf::from) {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, content)
}

impl CaptureError {
    fn of(step: &'static str, source: io::Error) -> Self {
        Self {
            remedy: remedy(&source),
            step,
            source,
        }
    }
}

/// The remedy for an error of this kind, by the settings of this machine.
fn remedy(error: &io::Error) -> Option<&'static str> {
    let is = |file: &str, value: &str| {
        std::fs::read_to_string(file).is_ok_and(|found| found.trim() == value)
    };
    match error.kind() {
        io::ErrorKind::PermissionDenied if is(APPARMOR, "1") => Some(
            "AppArmor keeps user namespaces from programs without a profile: install packaging/apparmor/hermes as /etc/apparmor.d/hermes and \
             run `apparmor_parser -r /etc/apparmor.d/hermes`",
        ),
        _ if is(MOST_SPACES, "0") => {
            Some("this machine allows no user namespaces: sysctl -w user.max_user_namespaces=10000")
        }
        io::ErrorKind::PermissionDenied if is(DEBIAN, "0") => Some(
            "this machine keeps user namespaces from users: sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        io::ErrorKind::NotFound => {
            Some("load the module (modprobe tun), or give the container /dev/net/tun")
        }
        io::ErrorKind::PermissionDenied => Some(
            "a container needs `--device /dev/net/tun` and a seccomp profile that allows user namespaces; /dev/net/tun must be open to \
             every user (chmod 666)",
        ),
        _ => None,
    }
}

/// Sends a descriptor over a Unix socket, with one byte.
///
/// # Errors
/// The other end is gone.
pub fn send_descriptor(to: &impl AsFd, descriptor: &OwnedFd) -> io::Result<()> {
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    let message = [IoSlice::new(b"\n")];
    retry_on_intr(|| sendmsg(to, &message, &mut beside, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Takes the descriptor that a program sends over a Unix socket, without waiting for it.
///
/// # Errors
/// `WouldBlock`: nothing has come. `UnexpectedEof`: the other end is gone. `InvalidData`: it sent something else.
pub fn receive_descriptor(from: &impl AsFd) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = match recvmsg(from, &mut parts, &mut beside, flags) {
        Err(Errno::INTR) => return Err(io::ErrorKind::WouldBlock.into()),
        received => received?,
    };

    // Descriptors that did not fit were closed by the kernel, and those that are not returned are closed here.
    let descriptors = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
    match (received.bytes, descriptors.len()) {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (_, 1) => descriptors.pop().ok_or(io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the program has not sent one descriptor",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_that_is_no_device_is_refused_and_closed() {
        let (near, far) = UnixStream::pair().unwrap();
        let sent: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        send_descriptor(&near, &sent).unwrap();
        let received = receive_descriptor(&far).unwrap();
        let error = crate::tun::TunQueue::foreign(received).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }

    #[test]
    fn a_program_that_sends_no_descriptor_is_told_apart_from_one_that_is_slow_or_gone() {
        use std::io::Write;
        let (mut near, far) = UnixStream::pair().unwrap();
        let kind = || receive_descriptor(&far).unwrap_err().kind();
        assert_eq!(kind(), io::ErrorKind::WouldBlock);
        near.write_all(b"\n").unwrap();
        assert_eq!(kind(), io::ErrorKind::InvalidData);
        drop(near);
        assert_eq!(kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn names_are_asked_where_the_node_answers() {
        let space = CapturedSpace {
            addresses: Vec::new(),
            resolvers: vec!["198.18.0.2".parse().unwrap(), "fd68::2".parse().unwrap()],
            mtu: 1500,
        };
        let file = space.resolver_file();
        assert_eq!(file, "nameserver 198.18.0.2\nnameserver fd68::2\n");
    }
}
