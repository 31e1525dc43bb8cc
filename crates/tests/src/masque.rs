//! masque-go: a CONNECT-UDP client and proxy over quic-go. `HERMES_MASQUE` names the program in `interop/go`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Pki;

/// A running proxy. Dropping it ends the process.
#[derive(Debug)]
pub struct Masque {
    process: Child,
    address: SocketAddr,
}

impl Masque {
    /// Starts a proxy, with a certificate for 127.0.0.1.
    ///
    /// # Panics
    /// When it does not start.
    pub fn proxy(pki: &Pki) -> Self {
        let issued = pki.issue(&["127.0.0.1"]);
        let mut process = program()
            .arg("proxy")
            .args([&issued.cert, &issued.key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port: u16 = said.trim().parse().expect("the proxy starts");
        Self { process, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Where it listens, on UDP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets the client send datagrams of these lengths through `proxy`, one after the other; the lengths of the answers.
    ///
    /// # Panics
    /// When it fails.
    pub fn client(ca: &Path, proxy: SocketAddr, target: SocketAddr, lengths: &[usize]) -> Vec<usize> {
        let lengths = lengths.iter().map(usize::to_string);
        let addresses = [proxy, target].map(|address| address.to_string());
        let output = program().arg("client").arg(ca).args(addresses).args(lengths).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Masque {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn program() -> Command {
    Command::new(std::env::var_os("HERMES_MASQUE").expect("HERMES_MASQUE is set: ./test interop sets it"))
}
