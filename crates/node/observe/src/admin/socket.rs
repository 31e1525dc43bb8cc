//! Where the administrator's Unix socket lies.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use hermes_net::{DescriptorEntry, DescriptorTable, Listener, PassedSocket};

/// Mode of the socket: this user only.
const SOCKET_MODE: u32 = 0o600;

/// The permission to connect, of those who are neither the socket's user nor in its group (unix(7)).
const OTHERS_CONNECT: u32 = 0o002;

/// Mode of folders made for sockets.
const FOLDER_MODE: u32 = 0o700;

/// The sticky bit: in such a folder no one replaces someone else's file.
const STICKY: u32 = 0o1000;

/// The default socket of `node`: `hermes/NODE.sock` in `$XDG_RUNTIME_DIR`, else
/// `/run/hermes/NODE.sock` for root, else `/tmp/hermes-UID/NODE.sock`. [`bind`] makes the folder.
#[must_use]
pub fn default_socket(node: &str) -> PathBuf {
    let run_time = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    folder(run_time.as_deref(), rustix::process::getuid().as_raw())
        .join(format!("{}.sock", file_name(node)))
}

/// The folder of this user's sockets.
fn folder(run_time: Option<&Path>, user: u32) -> PathBuf {
    match run_time {
        Some(run_time) if run_time.is_absolute() => run_time.join("hermes"),
        _ if user == 0 => PathBuf::from("/run/hermes"),
        _ => PathBuf::from(format!("/tmp/hermes-{user}")),
    }
}

/// A node's name as a part of a path.
fn file_name(node: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    node.chars()
        .map(|letter| if keep(letter) { letter } else { '_' })
        .collect()
}

/// The administrator's socket, which is bound.
#[derive(Debug)]
pub struct AdminSocket {
    /// The socket.
    pub(super) listener: UnixListener,
    /// The file to remove at the end; `None` where it belongs to the service manager.
    pub(super) file: Option<PathBuf>,
    /// The socket among what a successor may be given, whose the file is then.
    pub(super) entry: DescriptorEntry,
}

/// The name of the socket in the table of descriptors.
const NAME: &str = "admin.socket";

/// Opens the socket for [`super::serve_unix`], for this user only, and makes its folder (mode 0700)
/// if missing. It is entered into `descriptors`.
///
/// # Errors
/// When the folder is one in which another user could replace the socket, or someone serves there already.
pub fn bind(socket: &Path, descriptors: &DescriptorTable) -> io::Result<AdminSocket> {
    prepare_folder(socket, rustix::process::getuid().as_raw())
        .map_err(|error| named(socket, error))?;
    let listener =
        hermes_net::listen::unix(socket, SOCKET_MODE).map_err(|error| named(socket, error))?;
    Ok(AdminSocket {
        entry: descriptors.enter(NAME, &listener)?,
        listener,
        file: Some(socket.to_owned()),
    })
}

/// Takes a socket that the service manager opened on the file `socket`. Anyone who can connect there can administer the node, so only the
/// file's user and group may. It is entered into `descriptors`.
///
/// # Errors
/// When every user can connect, or no descriptor is left.
pub fn take(
    socket: &Path,
    passed: &PassedSocket,
    descriptors: &DescriptorTable,
) -> io::Result<AdminSocket> {
    let mode = std::fs::metadata(socket)
        .map_err(|error| named(socket, error))?
        .mode();
    if mode & OTHERS_CONNECT != 0 {
        let reason = format!(
            "every user can connect to {}; set `SocketMode=0600` in its unit",
            socket.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }

    match passed.listener().map_err(|error| named(socket, error))? {
        Listener::Unix(listener) => Ok(AdminSocket {
            entry: descriptors.enter(NAME, &listener)?,
            listener,
            file: None,
        }),
        Listener::Tcp(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn named(socket: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", socket.display()))
}

/// Makes the folder of `socket`, or checks the one that is there.
fn prepare_folder(socket: &Path, user: u32) -> io::Result<()> {
    let folder = folder_of(socket);
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    let found = std::fs::metadata(folder)?;
    let link = std::fs::symlink_metadata(folder)?;

    if !is_of(&found, user) || !is_of(&link, user) || is_open(&found) {
        let reason = format!(
            "other users can write in {}; choose another folder, or chmod 700 it",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }

    Ok(())
}

/// The folder that a socket lies in.
fn folder_of(socket: &Path) -> &Path {
    match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether this user or root owns it.
fn is_of(found: &Metadata, user: u32) -> bool {
    found.uid() == user || found.uid() == 0
}

/// Whether other users can replace its content.
fn is_open(folder: &Metadata) -> bool {
    folder.mode() & 0o022 != 0 && folder.mode() & STICKY == 0
}

/// The users that may serve a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Servers {
    user: u32,
    /// The user that root or this user gave the folder to.
    other: Option<u32>,
}

impl Servers {
    /// The users for a socket that this process connects to: its own user, root, and the user of
    /// the folder, if no one else can have made that.
    ///
    /// # Errors
    /// Someone else can have put the socket there.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        Self::as_seen_by(rustix::process::getuid().as_raw(), socket)
    }

    fn as_seen_by(user: u32, socket: &Path) -> io::Result<Self> {
        let folder = std::path::absolute(folder_of(socket))?;
        let mut places: Vec<_> = folder.ancestors().collect();
        places.reverse();

        let mut other = None;
        let mut is_public = false;
        for place in places {
            let found = std::fs::symlink_metadata(place)?;
            let is_trusted = is_of(&found, user);
            if !is_trusted && (is_public || found.is_symlink()) {
                return Err(foreign(place, found.uid()));
            }

            other = if is_trusted { other } else { Some(found.uid()) };
            // The mode of a link says nothing.
            is_public = !found.is_symlink() && found.mode() & 0o002 != 0;
        }

        let found = std::fs::metadata(&folder)?;
        if is_open(&found) {
            return Err(foreign(&folder, found.uid()));
        }
        Ok(Self { user, other })
    }

    /// Whether a process of this user may.
    pub(super) fn include(self, uid: u32) -> bool {
        uid == self.user || uid == 0 || Some(uid) == self.other
    }
}

fn foreign(place: &Path, owner: u32) -> io::Error {
    let reason = format!(
        "user {owner} or others could have put a socket of their own into {}",
        place.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// Sockets in the folder of `near` and in this user's usual folders, for an error message.
pub(super) fn found(near: &Path) -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let run_time = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut folders = vec![
        folder(run_time.as_deref(), user),
        folder(None, user),
        folder(None, 0),
    ];
    folders.extend(near.parent().map(Path::to_owned));
    folders.sort();
    folders.dedup();
    let entries = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let mut sockets: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| is_socket_name(path))
        .collect();
    sockets.sort();

    sockets
}

fn is_socket_name(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_folder_follows_the_environment_and_the_user() {
        let run_time = Path::new("/run/user/1000");
        assert_eq!(
            folder(Some(run_time), 1000),
            Path::new("/run/user/1000/hermes")
        );
        assert_eq!(
            folder(Some(Path::new("relative")), 1000),
            Path::new("/tmp/hermes-1000")
        );
        assert_eq!(folder(None, 1000), Path::new("/tmp/hermes-1000"));
        assert_eq!(folder(None, 0), Path::new("/run/hermes"));
        assert_eq!(file_name("../a b"), ".._a_b");
    }

    #[test]
    fn the_socket_and_its_folder_are_for_this_user_only() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("new/node.sock");
        let _listener = bind(&socket, &DescriptorTable::default()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(socket.parent().unwrap()), 0o700);
        assert_eq!(mode(&socket), 0o600);
        assert_eq!(
            found(&socket)
                .iter()
                .filter(|found| **found == socket)
                .count(),
            1
        );
    }

    #[test]
    fn a_socket_is_believed_only_where_no_one_else_could_have_put_it() {
        let root = tempfile::tempdir().unwrap();
        let own = rustix::process::getuid().as_raw();
        let stranger = own + 1;
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        let folder = root.path().join("hermes");
        std::fs::create_dir(&folder).unwrap();
        let socket = folder.join("node.sock");

        // In a place of all users, such as /tmp, the owner of the folder counts.
        mode(root.path(), 0o1777);
        assert!(Servers::as_seen_by(own, &socket).is_ok());
        if own != 0 {
            assert!(Servers::as_seen_by(stranger, &socket).is_err());
        }

        mode(&folder, 0o777);
        assert!(Servers::as_seen_by(own, &socket).is_err());
        mode(&folder, 0o700);
        let servers = Servers::of(&socket).unwrap();
        assert!(servers.include(own) && servers.include(0));
        assert!(!servers.include(stranger));

        // A folder that root gave to a service's user.
        if own == 0 {
            mode(root.path(), 0o755);
            std::os::unix::fs::chown(&folder, Some(stranger), None).unwrap();
            let servers = Servers::of(&socket).unwrap();
            assert!(servers.include(stranger) && !servers.include(stranger + 1));
        }
    }

    #[test]
    fn a_passed_socket_that_every_user_can_connect_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("node.sock");
        let owned = UnixListener::bind(&socket).unwrap();
        let passed = PassedSocket::new(3, None, owned.into());
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
        let refused = take(&socket, &passed, &DescriptorTable::default()).unwrap_err();
        assert!(refused.to_string().contains("SocketMode=0600"), "{refused}");
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o660)).unwrap();
        assert!(
            take(&socket, &passed, &DescriptorTable::default())
                .unwrap()
                .file
                .is_none(),
            "its file is not ours to remove"
        );
    }

    #[test]
    fn a_folder_that_others_can_write_in_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("node.sock");
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(
            bind(&socket, &DescriptorTable::default())
                .unwrap_err()
                .kind(),
            io::ErrorKind::PermissionDenied
        );
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        assert!(prepare_folder(&socket, rustix::process::getuid().as_raw()).is_ok());
    }
}
