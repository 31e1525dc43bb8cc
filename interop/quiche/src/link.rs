//! A QUIC connection of quiche with a socket.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quiche::{Config, Connection, ConnectionId, RecvInfo};

use crate::Failure;

/// How long anything may take, in milliseconds.
const PATIENCE: u64 = 15_000;

/// The largest packet either side sends, in bytes: datagrams of 1200 fit.
const PACKET: usize = 1350;

/// What certificates say: quiche compares no addresses.
const NAME: &str = "node.test";

/// The settings of both sides.
pub fn config(datagrams: bool) -> Result<Config, quiche::Error> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"h3"])?;
    config.set_max_idle_timeout(PATIENCE);
    config.set_max_recv_udp_payload_size(PACKET);
    config.set_max_send_udp_payload_size(PACKET);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_stream_data_uni(1_000_000);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(10);
    if datagrams {
        config.enable_dgram(true, 100, 100);
    }
    Ok(config)
}

/// What HTTP/3 says of itself.
pub fn http(connection: &mut Connection) -> Result<quiche::h3::Connection, quiche::h3::Error> {
    let mut config = quiche::h3::Config::new()?;
    config.enable_extended_connect(true);
    quiche::h3::Connection::with_transport(connection, &config)
}

/// A client's connection.
pub struct Link {
    pub connection: Connection,
    socket: UdpSocket,
    local: SocketAddr,
}

impl Link {
    /// Connects and ends the handshake.
    pub fn connect(ca: &str, address: SocketAddr, datagrams: bool) -> Result<Self, Failure> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let local = socket.local_addr()?;
        let mut config = config(datagrams)?;
        config.load_verify_locations_from_file(ca)?;
        config.verify_peer(true);
        // One connection in the life of the process.
        let id = ConnectionId::from_ref(b"quiche-peer-cid");
        let connection = quiche::connect(Some(NAME), &id, local, address, &mut config)?;
        let mut link = Self { connection, socket, local };
        while !link.connection.is_established() {
            link.turn()?;
        }
        Ok(link)
    }

    /// Sends what there is, then waits for packets or a timer.
    pub fn turn(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.connection.is_closed() {
            return Err(format!("the connection ended: {:?}", self.connection.peer_error()).into());
        }
        let wait = self.connection.timeout().unwrap_or(Duration::from_millis(PATIENCE));
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let mut packet = [0; 65535];
        match self.socket.recv_from(&mut packet) {
            Ok((length, from)) => {
                let info = RecvInfo { from, to: self.local };
                // What cannot be read is passed over, as on any network.
                let _ = self.connection.recv(&mut packet[..length], info);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.connection.on_timeout();
            }
            Err(error) => return Err(error.into()),
        }
        self.flush()
    }

    /// Sends what there is.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let mut packet = [0; PACKET];
        loop {
            match self.connection.send(&mut packet) {
                Ok((length, info)) => drop(self.socket.send_to(&packet[..length], info.to)?),
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A varint (RFC 9000, 16), and what follows.
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let number = number[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte));
    Some((number, rest))
}

/// The same, from a number below 2^14.
pub fn encoded(number: u64) -> Vec<u8> {
    match number {
        0..64 => vec![number as u8],
        _ => vec![0x40 | (number >> 8) as u8, number as u8],
    }
}
