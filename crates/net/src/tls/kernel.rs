//! TLS that the kernel goes on with (kTLS), so that bytes pass between connections without coming up ([`crate::splice()`]).
//!
//! rustls shakes hands, and speaks until a tunnel begins. Then, if nothing is on its way through it, the kernel gets the keys. Only TLS 1.3 with
//! AES-GCM is handed over, which every kernel with TLS has. What a kernel cannot do, so that such a connection breaks off with an error, is to change keys: where the peer does, and where
//! one key has made as many records as it may.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;

use rustls::{
    AlertDescription, CipherSuite, ConnectionCommon, ConnectionTrafficSecrets, ExtractedSecrets,
};
use tokio::net::TcpStream;

use crate::os;
use crate::stream::{Stream, Transport};

/// Records that one key of AES-GCM makes (RFC 8446, 5.5, allows 2^24.5).
#[doc(alias = "bound")]
const RECORDS_OF_A_KEY: u64 = 1 << 24;

/// Bytes of a record's content (RFC 8446, 5.1).
pub(crate) const RECORD: u64 = 16 * 1024;

/// A record that is no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlRecord {
    /// Nothing follows.
    CloseNotify,
    /// Nothing that matters: a session ticket.
    Ignored,
    /// The peer broke off, with this alert.
    Alert(u8),
    /// The peer uses other keys from now on.
    KeyUpdate,
    /// Nothing that TLS 1.3 has at this place.
    Unexpected,
}

impl ControlRecord {
    /// Of a record with an alert (RFC 8446, 6).
    #[must_use]
    pub fn alert(content: &[u8]) -> Self {
        match content {
            [_, 0] => Self::CloseNotify,
            [_, number] => Self::Alert(*number),
            _ => Self::Unexpected,
        }
    }

    /// Of a record with messages of a handshake (RFC 8446, 4): type, length of three bytes, content.
    #[must_use]
    pub fn handshake(mut messages: &[u8]) -> Self {
        /// Numbers of the two that may follow a handshake.
        const NEW_SESSION_TICKET: u8 = 4;
        const KEY_UPDATE: u8 = 24;
        while let [of, a, b, c, rest @ ..] = messages {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            match *of {
                NEW_SESSION_TICKET => {}
                KEY_UPDATE => return Self::KeyUpdate,
                _ => return Self::Unexpected,
            }
            messages = rest.get(length..).unwrap_or_default();
        }
        Self::Ignored
    }

    /// Whether the direction has ended; if not, reading goes on.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) fn is_end(self) -> io::Result<bool> {
        match self {
            Self::CloseNotify => Ok(true),
            Self::Ignored => Ok(false),
            Self::Alert(number) => {
                let alert = AlertDescription::from(number);
                Err(io::Error::other(rustls::Error::AlertReceived(alert)))
            }
            Self::KeyUpdate => Err(io::Error::other(
                "the peer changes its TLS keys, which this kernel cannot",
            )),
            Self::Unexpected => Err(io::Error::other("a TLS record that has no place there")),
        }
    }
}

/// Where records of TLS begin and end in what was read of a connection.
#[derive(Debug, Default)]
pub(crate) struct RecordCursor {
    header: [u8; HEADER],
    /// Bytes of it that have come.
    has: usize,
    /// Bytes of the record that are still to come.
    left: usize,
}

/// Bytes before a record: type, version, length (RFC 8446, 5.1).
const HEADER: usize = 5;

impl RecordCursor {
    /// These come next.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];

            let taken = (HEADER - self.has).min(bytes.len());
            self.header[self.has..self.has + taken].copy_from_slice(&bytes[..taken]);
            self.has += taken;
            bytes = &bytes[taken..];
            if self.has == HEADER {
                let [.., high, low] = self.header;
                self.left = u16::from_be_bytes([high, low]).into();
                self.has = 0;
            }
        }
    }

    /// Whether it stands between two records.
    pub(crate) fn is_between(&self) -> bool {
        self.has == 0 && self.left == 0
    }
}

/// Whether this kernel can go on with TLS; it is asked once.
#[must_use]
pub fn kernel_carries() -> bool {
    static CARRIES: OnceLock<bool> = OnceLock::new();
    *CARRIES.get_or_init(|| tried().is_ok())
}

/// Gives keys of zeros to a connection over loopback.
fn tried() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
    os::attach_tls(&stream)?;
    let secrets = || ConnectionTrafficSecrets::Aes256Gcm {
        key: [0; 32].into(),
        iv: [0; 12].into(),
    };
    os::give_tls_keys(
        &stream,
        &ExtractedSecrets {
            tx: (0, secrets()),
            rx: (0, secrets()),
        },
    )
}

/// Has the kernel go on with the TLS of a connection, if it can and nothing is on its way: the socket, and how many records our key may
/// still make.
///
/// # Errors
/// The transport as it was.
pub(crate) fn leave_to_kernel(
    mut transport: Transport,
) -> Result<io::Result<(TcpStream, u64)>, Transport> {
    let is_ready = match &mut transport {
        Transport::TlsServer(tls) => {
            let (stream, session) = tls.get_mut();
            is_ready(stream, session)
        }
        Transport::TlsClient(tls) => {
            let (stream, session) = tls.get_mut();
            is_ready(stream, session)
        }
        Transport::Tcp(_) | Transport::Unix(_) | Transport::Other(_) => false,
    };
    if !is_ready {
        return Err(transport);
    }

    let (stream, secrets) = match transport {
        Transport::TlsServer(tls) => {
            let (stream, session) = tls.into_inner();
            (stream, session.dangerous_extract_secrets())
        }
        Transport::TlsClient(tls) => {
            let (stream, session) = tls.into_inner();
            (stream, session.dangerous_extract_secrets())
        }
        other => return Err(other),
    };
    Ok(give(stream, secrets))
}

fn give(
    stream: Stream,
    secrets: Result<ExtractedSecrets, rustls::Error>,
) -> io::Result<(TcpStream, u64)> {
    let (Transport::Tcp(tcp), ..) = stream.into_parts() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let secrets = secrets.map_err(io::Error::other)?;
    os::give_tls_keys(&tcp, &secrets)?;
    Ok((tcp, RECORDS_OF_A_KEY.saturating_sub(secrets.tx.0)))
}

/// Whether the kernel knows the cipher, nothing waits to be read or written, and the socket has taken TLS.
fn is_ready<Data>(stream: &Stream, session: &mut ConnectionCommon<Data>) -> bool {
    let is_known = session.negotiated_cipher_suite().is_some_and(|suite| {
        matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_AES_256_GCM_SHA384
        )
    });
    if !is_known || session.is_handshaking() || !stream.is_between_records() {
        return false;
    }

    let is_quiet = session.process_new_packets().is_ok_and(|state| {
        state.plaintext_bytes_to_read() == 0
            && state.tls_bytes_to_write() == 0
            && !state.peer_has_closed()
    });
    match stream.transport() {
        Transport::Tcp(tcp) => is_quiet && os::attach_tls(tcp).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_where_their_headers_say() {
        let records = [
            &[23, 3, 3, 0, 2, 7, 7][..],
            &[22, 3, 3, 0, 0],
            &[23, 3, 3, 1, 0],
        ]
        .concat();
        let mut whole = RecordCursor::default();
        whole.pass(&records[..12]);
        assert!(whole.is_between());
        whole.pass(&records[12..]);
        assert!(!whole.is_between());
        whole.pass(&[0; 256]);
        assert!(whole.is_between());

        let mut bytes = RecordCursor::default();
        let mut between = Vec::new();
        for (index, byte) in records.iter().enumerate() {
            bytes.pass(&[*byte]);
            between.extend(bytes.is_between().then_some(index + 1));
        }
        assert_eq!(between, [7, 12]);
    }

    #[test]
    fn control_records_say_what_follows() {
        assert_eq!(ControlRecord::alert(&[1, 0]), ControlRecord::CloseNotify);
        assert_eq!(ControlRecord::alert(&[2, 20]), ControlRecord::Alert(20));
        assert_eq!(ControlRecord::alert(&[]), ControlRecord::Unexpected);

        let tickets = [4, 0, 0, 2, 7, 7, 4, 0, 0, 0];
        assert_eq!(ControlRecord::handshake(&tickets), ControlRecord::Ignored);
        let update = [&tickets[..], &[24, 0, 0, 1, 0]].concat();
        assert_eq!(ControlRecord::handshake(&update), ControlRecord::KeyUpdate);
        assert_eq!(
            ControlRecord::handshake(&[1, 0, 0, 0]),
            ControlRecord::Unexpected
        );
        assert_eq!(
            ControlRecord::handshake(&[4, 255, 255, 255]),
            ControlRecord::Ignored
        );
    }
}
