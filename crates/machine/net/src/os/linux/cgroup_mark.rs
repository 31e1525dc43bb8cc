//! A mark for sockets that members of a control group open (bpf(2), `BPF_CGROUP_INET_SOCK_CREATE`).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::super::CgroupMark;

/// Commands, and types of programs and of their places (`linux/bpf.h`).
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_CGROUP_SOCK: u32 = 9;
const BPF_CGROUP_INET_SOCK_CREATE: u32 = 2;

/// Where `struct bpf_sock` has the mark.
const MARK_AT: i16 = 16;

/// The part of `union bpf_attr` that a program is loaded by.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// The part of it by which a program is put where it runs.
#[repr(C)]
struct Attach {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// An instruction (RFC 9669, section 3): operation, registers, offset, number.
#[repr(C)]
struct BpfInstruction(u8, u8, i16, i32);

impl CgroupMark {
    /// Marks sockets that are opened from now on in this group, and in those within it, unless they
    /// have a mark.
    ///
    /// # Errors
    /// `NotFound`: there is no such group. `PermissionDenied`: it takes `CAP_BPF` and `CAP_NET_ADMIN`. `InvalidInput`: this is no folder
    /// of a control group of version 2, or the kernel is older than Linux 5.7.
    pub fn new(group: &Path, mark: u32) -> io::Result<Self> {
        let group = File::open(group)?;
        let program = load(mark)?;
        let attach = Attach {
            prog_fd: program.as_raw_fd().cast_unsigned(),
            target_fd: group.as_raw_fd().cast_unsigned(),
            attach_type: BPF_CGROUP_INET_SOCK_CREATE,
            flags: 0,
        };
        let _link = bpf(BPF_LINK_CREATE, &attach)?;
        Ok(Self { _link })
    }

    /// Whether this process may load such a program.
    ///
    /// # Errors
    /// As those of [`CgroupMark::new`], but for those of a group.
    pub fn check() -> io::Result<()> {
        load(0).map(drop)
    }
}

/// Loads `if mark == 0 { mark = number }; return 1`.
fn load(number: u32) -> io::Result<OwnedFd> {
    let instructions = [
        // r2 = mark
        BpfInstruction(0x61, 0x12, MARK_AT, 0),
        // if r2 != 0 skip two
        BpfInstruction(0x55, 0x02, 2, 0),
        // r2 = number
        BpfInstruction(0xb7, 0x02, 0, number.cast_signed()),
        // mark = r2
        BpfInstruction(0x63, 0x21, MARK_AT, 0),
        // r0 = 1: it may be opened
        BpfInstruction(0xb7, 0x00, 0, 1),
        // return r0
        BpfInstruction(0x95, 0x00, 0, 0),
    ];
    let licence = c"Apache-2.0";
    let load = Load {
        prog_type: BPF_PROG_TYPE_CGROUP_SOCK,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr().expose_provenance() as u64,
        license: licence.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"hermes_mark\0\0\0\0\0",
        prog_ifindex: 0,
        expected_attach_type: BPF_CGROUP_INET_SOCK_CREATE,
    };
    bpf(BPF_PROG_LOAD, &load)
}

/// Asks for something that is a descriptor.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let length = size_of::<T>() as libc::c_long;
    // SAFETY: the kernel reads the attributes, and the memory they point to, before it returns.
    #[expect(unsafe_code, reason = "the kernel has no other interface")]
    let returned = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, length) };
    let descriptor = i32::try_from(returned).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }

    // SAFETY: the kernel has just opened it for this.
    #[expect(unsafe_code, reason = "the kernel gives numbers")]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
