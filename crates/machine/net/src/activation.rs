//! Socket activation: sockets that a service manager opened before it started this process (sd_listen_fds(3)).
//!
//! The variables `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` hold the process, the number and
//! the names of the sockets; the descriptors begin at 3.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, process};

use socket2::{SockRef, Socket};

use crate::Listener;
use crate::listen::enlarge_buffers;
use crate::os;
pub use crate::os::PassedKind;

/// The descriptor of the first socket (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Sockets that are taken from a service manager: their number comes from outside. The manager
/// itself has 1024 descriptors by default.
#[doc(alias = "bound")]
const MOST: usize = 1024;

/// The process that the sockets are for.
const PID: &str = "LISTEN_PID";
/// How many there are.
const FDS: &str = "LISTEN_FDS";
/// Their names, between colons.
const NAMES: &str = "LISTEN_FDNAMES";

/// All variables of the protocol; the last one is of newer service managers and says the same as the first.
const VARIABLES: [&str; 4] = [PID, FDS, NAMES, "LISTEN_PIDFDID"];

/// A socket that was passed to this process. It stays open as long as this value lives: its users
/// get duplicated descriptors.
#[derive(Debug)]
pub struct PassedSocket {
    /// The number of its descriptor.
    pub descriptor: i32,
    /// The service manager's name for it; `None` if it has none.
    pub name: Option<String>,
    /// Its kind, and its address.
    pub kind: PassedKind,
    socket: Socket,
}

impl PassedSocket {
    /// Looks at a descriptor.
    #[must_use]
    pub fn new(descriptor: i32, name: Option<String>, owned: OwnedFd) -> Self {
        let socket = Socket::from(owned);
        let kind = os::passed_kind(&socket).unwrap_or(PassedKind::Unusable("not a socket"));
        Self {
            descriptor,
            name,
            kind,
            socket,
        }
    }

    /// A descriptor of its own for accepting connections, of TCP or on a Unix socket.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn listener(&self) -> io::Result<Listener> {
        let own = self.own()?;
        Ok(match self.kind {
            PassedKind::Unix(_) => Listener::Unix(own.into()),
            _ => Listener::Tcp(own.into()),
        })
    }

    /// A descriptor of its own for exchanging datagrams, with large buffers where allowed.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn udp(&self) -> io::Result<std::net::UdpSocket> {
        let own = self.own()?;
        enlarge_buffers(&SockRef::from(&own));
        Ok(own.into())
    }

    fn own(&self) -> io::Result<Socket> {
        let own = self.socket.try_clone()?;
        own.set_nonblocking(true)?;
        Ok(own)
    }
}

impl AsFd for PassedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<PassedSocket> for OwnedFd {
    fn from(passed: PassedSocket) -> Self {
        passed.socket.into()
    }
}

impl fmt::Display for PassedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptor {} (", self.descriptor)?;
        if let Some(name) = &self.name {
            write!(f, "{name:?}, ")?;
        }
        write!(f, "{})", self.kind)
    }
}

/// Variables or descriptors that break the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivationError {
    /// A variable that should be a number.
    #[error("{0} is {1:?}, which is not a number")]
    NotANumber(&'static str, String),
    /// More sockets than this process takes.
    #[error("{FDS} is {0}: at most {MOST} sockets are taken")]
    TooMany(usize),
    /// Not as many names as sockets.
    #[error("{NAMES} has {names} names for {sockets} sockets")]
    Names {
        /// How many names there are.
        names: usize,
        /// How many sockets.
        sockets: usize,
    },
    /// A descriptor that is not open.
    #[error("{FDS} names descriptor {0}, which is not open")]
    NotOpen(i32),
}

/// Whether the descriptors have an owner already.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The sockets that were passed to this process, the first time; then none. To be called before
/// anything else opens descriptors or starts threads: then the variables are taken away, so that no
/// child takes them for its own. The descriptors do not reach children in any case.
///
/// # Errors
/// When the descriptors do not match the variables.
pub fn passed_sockets() -> Result<Vec<PassedSocket>, ActivationError> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let names = parse(process::id(), &variable);
    os::forget_variables(&VARIABLES);

    let numbered = (FIRST..).zip(names?);
    let passed = numbered.map(|(descriptor, name)| {
        let owned = os::adopt(descriptor).map_err(|_| ActivationError::NotOpen(descriptor))?;
        Ok(PassedSocket::new(descriptor, name, owned))
    });

    passed.collect()
}

/// The names of the sockets that were passed to the process `own`, one a socket. Sockets for
/// another process, such as the parent, do not count.
///
/// # Errors
/// When the variables contradict themselves.
fn parse(
    own: u32,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Option<String>>, ActivationError> {
    let (Some(pid), Some(sockets)) = (variable(PID), variable(FDS)) else {
        return Ok(Vec::new());
    };
    if number::<u32>(PID, pid)? != own {
        return Ok(Vec::new());
    }

    let sockets = number::<usize>(FDS, sockets)?;
    if sockets > MOST {
        return Err(ActivationError::TooMany(sockets));
    }

    let Some(names) = variable(NAMES) else {
        return Ok(vec![None; sockets]);
    };
    let names: Vec<Option<String>> = names
        .split(':')
        .map(|name| (!name.is_empty()).then(|| name.to_owned()))
        .collect();

    // No names and one without letters are written alike.
    match names.as_slice() {
        [None] => Ok(vec![None; sockets]),
        _ if names.len() == sockets => Ok(names),
        _ => Err(ActivationError::Names {
            names: names.len(),
            sockets,
        }),
    }
}

fn number<N: std::str::FromStr>(
    variable: &'static str,
    value: String,
) -> Result<N, ActivationError> {
    value
        .parse()
        .map_err(|_| ActivationError::NotANumber(variable, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 4711;

    fn parsed(variables: &[(&str, &str)]) -> Result<Vec<Option<String>>, ActivationError> {
        parse(OWN, &|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    fn names(names: &[&str]) -> Vec<Option<String>> {
        names
            .iter()
            .map(|name| (!name.is_empty()).then(|| (*name).to_owned()))
            .collect()
    }

    #[test]
    fn sockets_have_the_names_that_stand_at_their_place() {
        let ours = [(PID, "4711"), (FDS, "3"), (NAMES, "web:hermes.socket:")];
        assert_eq!(parsed(&ours), Ok(names(&["web", "hermes.socket", ""])));
        assert_eq!(
            parsed(&[(PID, "4711"), (FDS, "1"), (NAMES, "web")]),
            Ok(names(&["web"]))
        );
        assert_eq!(
            parsed(&[(PID, "4711"), (FDS, "0"), (NAMES, "")]),
            Ok(names(&[]))
        );
    }

    #[test]
    fn sockets_need_no_names() {
        assert_eq!(parsed(&[(PID, "4711"), (FDS, "2")]), Ok(names(&["", ""])));
        assert_eq!(
            parsed(&[(PID, "4711"), (FDS, "2"), (NAMES, "")]),
            Ok(names(&["", ""]))
        );
    }

    #[test]
    fn sockets_of_another_process_are_none_of_ours() {
        assert_eq!(parsed(&[]), Ok(Vec::new()));
        assert_eq!(parsed(&[(PID, "4712"), (FDS, "nonsense")]), Ok(Vec::new()));
        assert_eq!(parsed(&[(FDS, "2")]), Ok(Vec::new()));
        assert_eq!(parsed(&[(PID, "4711")]), Ok(Vec::new()));
    }

    #[test]
    fn refuses_variables_that_contradict_themselves() {
        let error = |variables: &[(&str, &str)]| parsed(variables).unwrap_err().to_string();
        for wrong in ["", "-1", "+", "2 ", "99999999999999999999"] {
            let said = error(&[(PID, "4711"), (FDS, wrong)]);
            assert_eq!(
                said,
                format!("LISTEN_FDS is {wrong:?}, which is not a number")
            );
        }
        assert_eq!(
            error(&[(PID, "me"), (FDS, "1")]),
            "LISTEN_PID is \"me\", which is not a number"
        );
        assert_eq!(
            error(&[(PID, "4711"), (FDS, "1025")]),
            "LISTEN_FDS is 1025: at most 1024 sockets are taken"
        );
        let said = error(&[(PID, "4711"), (FDS, "2"), (NAMES, "a:b:c")]);
        assert_eq!(said, "LISTEN_FDNAMES has 3 names for 2 sockets");
        assert!(parsed(&[(PID, "4711"), (FDS, "2"), (NAMES, "a")]).is_err());
    }
}
