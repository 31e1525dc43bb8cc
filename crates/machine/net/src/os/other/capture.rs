//! Capture: not supported.

use std::io;

use socket2::Socket;

use super::super::{
    CaptureOrder, CaptureRules, CapturedFlowRules, DestinedDatagram, PacketQueue,
    PacketQueueReader, PacketVerdict, QueuedSyn,
};

/// Not supported.
///
/// # Errors
/// Always.
pub fn captures() -> io::Result<Vec<String>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn lead_captured_here(_is_ipv4: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn note_destinations(_socket: &Socket, _ipv6: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn receive_destined(
    _socket: &tokio::net::UdpSocket,
    _buffer: &mut [u8],
) -> io::Result<DestinedDatagram> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn set_socket_congestion(_socket: &Socket, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn original_destination(_stream: &tokio::net::TcpStream) -> io::Result<std::net::SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Unknown here.
#[must_use]
pub fn congestion_controls() -> Vec<String> {
    Vec::new()
}

/// Unknown here.
#[must_use]
pub fn socket_mark(_socket: &Socket) -> Option<u32> {
    None
}

impl CaptureRules {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn of(_order: &CaptureOrder) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn check(_stays: bool, _holds: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn redirecting(_order: &CaptureOrder) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn check_redirecting(_stays: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl CaptureRules {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn say_alive(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl CapturedFlowRules {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl PacketQueue {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn open(_number: u16, _most: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn reader(self) -> io::Result<PacketQueueReader> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl PacketQueueReader {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    #[expect(clippy::unused_async, reason = "the form of the other system's")]
    pub async fn read(&self, _room: &mut [u8], _each: impl FnMut(QueuedSyn)) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn decide(&self, _packet: u32, _verdict: PacketVerdict) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
