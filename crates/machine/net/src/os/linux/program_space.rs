//! The surroundings of one program: a user namespace, in which this process may do all that is done here without a right outside, and
//! within it a network and a view of the files of its own (user_namespaces(7)).

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsmount, fsopen, move_mount, open_tree,
};
use rustix::process::{Pid, PidfdFlags, getegid, geteuid, pidfd_open};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The groups that may send echo requests from sockets of their own, by number from first to last.
const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";

/// Moves this process into surroundings of its own, in which it has the user and the group that it has. It must have no other threads.
///
/// # Errors
/// `PermissionDenied`: this machine allows no user namespaces, or not to this program. `StorageFull`: there are as many as there may be.
pub fn enter_program_space() -> io::Result<()> {
    let [user, group] = [geteuid().as_raw(), getegid().as_raw()];
    let spaces = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    #[expect(
        unsafe_code,
        reason = "its safe form is deprecated: it could part the descriptors of threads, too"
    )]
    // SAFETY: descriptors stay those of the process, which has no other threads: else the kernel refuses.
    unsafe { unshare_unsafe(spaces) }?;

    // The kernel lets a process without rights map its groups only once it has given up changing them (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(())
}

/// Lets programs of this network and group ping, as most machines do.
///
/// # Errors
/// This network has no such setting.
pub fn allow_pings() -> io::Result<()> {
    let group = getegid().as_raw();
    fs::write(PING_GROUPS, format!("{group} {group}"))
}

/// Shows an empty folder in place of this one, to this process and those that it starts.
///
/// # Errors
/// There is no such folder, or mounting is not allowed.
pub fn cover_folder(folder: &Path) -> io::Result<()> {
    Ok(place(&memory_folder()?, folder, MoveMountFlags::empty())?)
}

/// Shows a file with this content in place of this one, to this process and those that it starts.
///
/// # Errors
/// There is no such file, or mounting is not allowed.
pub fn cover_file(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = memory_folder()?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let written = openat(&folder, "file", flags, Mode::from_raw_mode(0o644))?;
    fs::File::from(written).write_all(content)?;

    let tree = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let shown = open_tree(&folder, "file", tree)?;
    Ok(place(&shown, file, MoveMountFlags::empty())?)
}

/// A folder in memory that is not shown anywhere yet.
fn memory_folder() -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

fn place(tree: &OwnedFd, at: &Path, flags: MoveMountFlags) -> rustix::io::Result<()> {
    let flags = flags | MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, at, flags)
}

/// A descriptor that is ready to read once the process at the other end of a Unix socket has ended. None where the kernel does not tell
/// of it, as of a process of another container.
#[must_use]
pub fn watch_process(connection: &impl AsFd) -> Option<OwnedFd> {
    let pid = super::local_process(connection).ok()?.pid;
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()
}
