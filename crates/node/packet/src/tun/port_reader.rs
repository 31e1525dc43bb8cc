//! Reads a port of WireGuard, and passes packets to the devices of its peers.

use std::io;
use std::time::{Duration, Instant};

use hermes_net::{RecvBatch, UdpError};

use super::wireguard_ports::{OpenedPackets, WireguardPort};

/// How often to look whether something is due for a peer that has keys.
const LOOK: Duration = Duration::from_secs(1);

impl WireguardPort {
    /// Reads the port until it is closed.
    ///
    /// # Errors
    /// The socket fails.
    pub async fn read(&self) -> io::Result<()> {
        let Some(socket) = self.socket() else {
            return Ok(());
        };
        let mut batch = RecvBatch::new();
        let mut opened = OpenedPackets::default();
        let mut segment = Vec::new();
        let mut looked = Instant::now();
        // Datagrams that are due at once, such as a handshake, would find no room.
        socket.writable().await?;
        self.look();
        loop {
            let is_idle = self.is_idle();
            tokio::select! {
                received = socket.recv(&mut batch) => match received {
                    Ok(_) => batch.runs().for_each(|run| {
                        self.take_all(&run, &mut opened);
                        opened.deliver(&mut segment);
                    }),
                    Err(UdpError::Io(error)) => {
                        self.give_up();
                        return Err(error);
                    }
                    // An ICMP error about an earlier datagram: if the peer is not there, no answer
                    // comes.
                    Err(_) => {}
                },
                () = tokio::time::sleep(LOOK), if !is_idle => {}
                () = self.woken() => {}
                () = self.joined() => self.look(),
                () = self.closed() => {
                    self.give_up();
                    return Ok(());
                }
            }
            if is_idle || looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
        }
    }
}
