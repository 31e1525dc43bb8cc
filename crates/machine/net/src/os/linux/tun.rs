//! TUN devices (Linux, `Documentation/networking/tuntap.rst`): one descriptor for each queue, with a `virtio_net_hdr` before each packet.

use std::ffi::{c_int, c_uint};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

/// Requests of `linux/if_tun.h`.
const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);
const TUNGETIFF: Opcode = opcode::read::<c_uint>(b'T', 210);
const TUNSETOFFLOAD: Opcode = opcode::write::<c_uint>(b'T', 208);

/// Work that is left to us: computing checksums, and cutting TCP and UDP.
const CHECKSUM: usize = 0x01;
const TCP: usize = 0x02 | 0x04 | 0x08;
const UDP: usize = 0x20 | 0x40;

/// Opens a queue of the device of this name, which is made if missing; the kernel replaces `%d` by
/// a number. Packets are read with a `virtio_net_hdr` and without blocking. Returns the name.
///
/// # Errors
/// `NotFound`: this machine has no TUN devices. `PermissionDenied`: it takes `CAP_NET_ADMIN`. `ResourceBusy`: another process has the
/// device. `InvalidInput`: there is an interface of this name that is no such device.
pub fn open_tun(name: &str) -> io::Result<(OwnedFd, String)> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let queue = open("/dev/net/tun", flags, Mode::empty())?;

    let mut request = Request::new(name)?;
    // SAFETY: the kernel reads and writes a `struct ifreq` here, which `Request` begins with.
    #[expect(unsafe_code, reason = "the kernel has no other interface")]
    let attached = unsafe { ioctl(&queue, Updater::<TUNSETIFF, Request>::new(&mut request)) };
    attached?;

    offload(&queue)?;
    Ok((queue, request.name()))
}

/// The name of the device that a descriptor is a queue of.
///
/// # Errors
/// It is a queue of none.
pub fn tun_device(queue: &impl AsFd) -> io::Result<String> {
    let mut request = Request::empty();
    // SAFETY: the kernel writes a `struct ifreq` here, which `Request` begins with.
    #[expect(unsafe_code, reason = "the kernel has no other interface")]
    let asked = unsafe { ioctl(queue, Updater::<TUNGETIFF, Request>::new(&mut request)) };
    asked?;
    Ok(request.name())
}

/// Checks that a descriptor from a program is a queue of a TUN device as [`open_tun`] makes them. Returns the name of the device.
///
/// A descriptor may belong to a file system that its sender serves, which could let each call on it wait for ever. The kernel's own account
/// of it is asked first, which no file system is asked for.
///
/// # Errors
/// `InvalidInput`: it is none, or one with other headers before its packets.
pub fn foreign_tun(queue: &OwnedFd) -> io::Result<String> {
    let other = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
    let account = fs::read_to_string(format!("/proc/self/fdinfo/{}", queue.as_raw_fd()))?;
    if !account.lines().any(|line| line.starts_with("iff:")) {
        return Err(other("the descriptor is no TUN device"));
    }

    let mut request = Request::empty();
    // SAFETY: the kernel writes a `struct ifreq` here, which `Request` begins with.
    #[expect(unsafe_code, reason = "the kernel has no other interface")]
    let asked = unsafe { ioctl(queue, Updater::<TUNGETIFF, Request>::new(&mut request)) };
    asked.map_err(|_| other("the descriptor belongs to no TUN device"))?;

    let kind = libc::IFF_TUN | libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let ours = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    match i32::from(request.flags) & kind == ours {
        true => Ok(request.name()),
        false => Err(other(
            "the device is not one of IP with the headers of virtio",
        )),
    }
}

/// Whether the kernel takes UDP uncut, too, from a queue that [`open_tun`] opened.
pub fn tun_cuts_udp(queue: &OwnedFd) -> bool {
    set_offloads(queue, CHECKSUM | TCP | UDP).is_ok()
}

/// Has the kernel give packets uncut and with checksums yet to be computed. The setting is one of the whole device, and an old one
/// would stay, so it is always made.
fn offload(queue: &OwnedFd) -> io::Result<()> {
    match set_offloads(queue, CHECKSUM | TCP | UDP) {
        // Before Linux 6.2, UDP is cut by the kernel.
        Err(Errno::INVAL) => set_offloads(queue, CHECKSUM | TCP)?,
        set => set?,
    }
    Ok(())
}

fn set_offloads(queue: &OwnedFd, offloads: usize) -> Result<(), Errno> {
    // SAFETY: the argument of this request is a number.
    #[expect(unsafe_code, reason = "the kernel has no other interface")]
    unsafe {
        ioctl(queue, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offloads))
    }
}

/// `struct ifreq`, of which TUN uses the name and the flags.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    /// The rest of the union.
    rest: [u8; 22],
}

impl Request {
    fn empty() -> Self {
        Self {
            name: [0; libc::IFNAMSIZ],
            flags: 0,
            rest: [0; 22],
        }
    }

    fn new(name: &str) -> io::Result<Self> {
        // The last byte ends the name.
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = [0; libc::IFNAMSIZ];
        bytes[..name.len()].copy_from_slice(name.as_bytes());

        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE;
        Ok(Self {
            name: bytes,
            flags: flags as u16,
            rest: [0; 22],
        })
    }

    fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0);
        let name = &self.name[..end.unwrap_or(self.name.len())];
        String::from_utf8_lossy(name).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_size_that_the_kernel_reads() {
        assert!(size_of::<Request>() >= size_of::<libc::ifreq>());
        assert_eq!(TUNSETIFF, 0x4004_54ca);
        assert_eq!(TUNSETOFFLOAD, 0x4004_54d0);
        assert_eq!(TUNGETIFF, 0x8004_54d2);
    }

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        for name in ["", "sixteen-letters-", "a\0b"] {
            assert!(Request::new(name).is_err(), "{name:?}");
        }
        assert_eq!(Request::new("hermes0").unwrap().name(), "hermes0");
    }
}
