//! Sockets that one process of a node has after the other: a service manager keeps them (sd_listen_fds(3)), or each process gives them to the
//! next.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use tempfile::TempDir;

use crate::{Node, eventually, free, program};

/// Sockets at one address.
#[derive(Debug)]
pub struct KeptSockets {
    /// Where they are bound.
    pub address: SocketAddr,
    kept: Vec<OwnedFd>,
    /// Where processes give them to the next.
    handover: Option<TempDir>,
}

impl KeptSockets {
    /// A port of UDP.
    ///
    /// # Panics
    /// When the system has no free port.
    pub fn datagrams() -> Self {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self {
            address: datagrams.local_addr().unwrap(),
            kept: vec![kept(&datagrams)],
            handover: None,
        }
    }

    /// A port of TCP.
    ///
    /// # Panics
    /// When the system has no free port.
    pub fn streams() -> Self {
        let streams = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            address: streams.local_addr().unwrap(),
            kept: vec![kept(&streams)],
            handover: None,
        }
    }

    /// A port of UDP and of TCP, as HTTP has it.
    ///
    /// # Panics
    /// When the system has no free port.
    pub fn both() -> Self {
        eventually("a free port of both", || {
            let streams = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = streams.local_addr().unwrap();
            let datagrams = UdpSocket::bind(address).ok()?;
            Some(Self {
                address,
                kept: vec![kept(&streams), kept(&datagrams)],
                handover: None,
            })
        })
    }

    /// A port that the first process binds, and gives to the next with all that it has open.
    ///
    /// # Panics
    /// When the system has no free port.
    pub fn handed_over() -> Self {
        let address = eventually("a free port of both", || {
            let address = free::udp();
            TcpListener::bind(address).is_ok().then_some(address)
        });
        Self {
            address,
            kept: Vec::new(),
            handover: Some(tempfile::tempdir().unwrap()),
        }
    }

    /// A command that passes them to the program.
    pub fn command(&self) -> Command {
        let passed = (3..).zip(&self.kept);
        let passed: Vec<String> = passed
            .map(|(number, socket)| format!("{number}<&{}", socket.as_raw_fd()))
            .collect();
        let script = format!(
            "exec {}; export LISTEN_PID=$$; exec \"$0\" \"$@\"",
            passed.join(" ")
        );
        let mut command = Command::new("bash");
        command
            .args(["-c", &script])
            .arg(program::path())
            .env("LISTEN_FDS", self.kept.len().to_string());
        command
    }

    /// Starts a node that has them.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub fn start(&self, name: &str, yaml: &str) -> Node {
        let Some(folder) = &self.handover else {
            return Node::start_by(self.command(), name, yaml);
        };
        let meeting = folder.path().join("handover");
        Node::start_with(name, yaml, &["--handover", meeting.to_str().unwrap()])
    }
}

/// The same socket, out of the way of the numbers by which it is passed, and for children.
fn kept(socket: &impl AsFd) -> OwnedFd {
    let kept = fcntl_dupfd_cloexec(socket, 100).unwrap();
    fcntl_setfd(&kept, FdFlags::empty()).unwrap();
    kept
}
