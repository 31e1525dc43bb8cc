//! Sockets as a service manager keeps them, for one process after the other (sd_listen_fds(3)).

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use crate::{Node, eventually, program};

/// Sockets at one address.
#[derive(Debug)]
pub struct KeptSockets {
    /// Where they are bound.
    pub address: SocketAddr,
    kept: Vec<OwnedFd>,
}

impl KeptSockets {
    /// A port of UDP.
    ///
    /// # Panics
    /// When the system has none.
    pub fn datagrams() -> Self {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self {
            address: datagrams.local_addr().unwrap(),
            kept: vec![kept(&datagrams)],
        }
    }

    /// A port of TCP.
    ///
    /// # Panics
    /// When the system has none.
    pub fn streams() -> Self {
        let streams = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            address: streams.local_addr().unwrap(),
            kept: vec![kept(&streams)],
        }
    }

    /// A port of UDP and of TCP, as HTTP has it.
    ///
    /// # Panics
    /// When the system has none.
    pub fn both() -> Self {
        eventually("a free port of both", || {
            let streams = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = streams.local_addr().unwrap();
            let datagrams = UdpSocket::bind(address).ok()?;
            Some(Self {
                address,
                kept: vec![kept(&streams), kept(&datagrams)],
            })
        })
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
    pub fn start(&self, name: &str, yaml: &str) -> Node {
        Node::start_by(self.command(), name, yaml)
    }
}

/// The same socket, out of the way of the numbers by which it is passed, and for children.
fn kept(socket: &impl AsFd) -> OwnedFd {
    let kept = fcntl_dupfd_cloexec(socket, 100).unwrap();
    fcntl_setfd(&kept, FdFlags::empty()).unwrap();
    kept
}
