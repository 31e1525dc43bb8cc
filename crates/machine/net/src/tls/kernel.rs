//! TLS that the kernel goes on with (kTLS), so that bytes pass between connections without coming up ([`crate::splice()`]).
//!
//! rustls makes the handshake, and carries the connection until a tunnel begins. Then, if no bytes
//! are on their way through it, the kernel gets the keys. Only TLS 1.3 with AES-GCM is handed over,
//! which every kernel with TLS has. A kernel cannot change keys: if the peer does, or a key has
//! made as many records as it may, the connection breaks off with an error.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;

use rustls::{CipherSuite, ConnectionCommon, ConnectionTrafficSecrets, ExtractedSecrets};
use tokio::net::TcpStream;

use crate::os;
use crate::stream::{Stream, Transport};

/// Records that one key of AES-GCM makes, as they are counted here: a spliced one may become two,
/// and RFC 8446, 5.5, allows 2^24.5.
#[doc(alias = "bound")]
const RECORDS_OF_A_KEY: u64 = 1 << 23;

/// Bytes of a record's content (RFC 8446, 5.1).
pub(crate) const RECORD: u64 = 16 * 1024;

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
            is_ready(stream, session) && attach(stream)
        }
        Transport::TlsClient(tls) => {
            let (stream, session) = tls.get_mut();
            is_ready(stream, session) && attach(stream)
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

/// Whether the kernel knows the cipher, and nothing waits to be read or written.
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

    session.process_new_packets().is_ok_and(|state| {
        state.plaintext_bytes_to_read() == 0
            && state.tls_bytes_to_write() == 0
            && !state.peer_has_closed()
    })
}

/// Prepares the socket; whether it is one that the kernel takes.
fn attach(stream: &Stream) -> bool {
    match stream.transport() {
        Transport::Tcp(tcp) => os::attach_tls(tcp).is_ok(),
        _ => false,
    }
}
