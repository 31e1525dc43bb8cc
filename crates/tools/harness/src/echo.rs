//! `hermes echo`: servers that show their requests.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use crate::program;

/// Running servers of HTTP, TCP and UDP, one of each. Dropping them ends them.
#[derive(Debug)]
pub struct Echo {
    process: Child,
    /// Where each of them listens.
    pub http: SocketAddr,
    /// That of TCP.
    pub tcp: SocketAddr,
    /// That of UDP.
    pub udp: SocketAddr,
}

impl Echo {
    /// Starts them at ports of the system's choice.
    ///
    /// # Panics
    /// When they do not start.
    pub fn start() -> Self {
        let any = "127.0.0.1:0";
        let mut command = program::command();
        command.args(["echo", any, "--tcp", any, "--udp", any]);
        let mut process = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap())
            .lines()
            .take(3);
        let addresses: Vec<SocketAddr> = said
            .map(|line| line.unwrap().rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        let [http, tcp, udp] = addresses[..] else {
            panic!("hermes echo ended")
        };

        Self {
            process,
            http,
            tcp,
            udp,
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // They may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
