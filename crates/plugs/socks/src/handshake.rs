//! The messages of a client, and the words for one that is refused.

use std::io;
use std::time::Duration;

use hermes_net::Stream;
use hermes_plug::Gate;
use hermes_proto::socks::{self, SocksError, SocksMethod, SocksReply, SocksRequest, SocksVersion};
use hermes_proto::socks6::{self, Socks6AuthReply, Socks6Error};
use tokio::io::AsyncReadExt;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::held::{dismiss, unknown};
use crate::sessions::Sessions6;

/// How long a client may take for one of its messages, of which there are at most three. The time for which its password is checked does not
/// count.
#[doc(alias = "bound")]
pub(crate) const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// The reason why a handshake ends without a wish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error(transparent)]
    Stream(#[from] io::Error),
    #[error("the client took longer than {} s for a message", MESSAGE_TIME.as_secs())]
    TooSlow(#[from] Elapsed),
    #[error(transparent)]
    Message(#[from] SocksError),
    #[error("the client offers no way to authenticate that the listener takes")]
    Unacceptable,
    #[error("clients of SOCKS4 cannot show the password that the listener asks for")]
    NoPassword,
    #[error("the password was refused")]
    WrongPassword,
    #[error("the request: {0}")]
    Request6(#[from] Socks6Error),
    /// With these bytes, which say all.
    #[error("a request of SOCKS6 was answered without a connection")]
    Answered(Vec<u8>),
}

/// The wishes of a client about the protocols below SOCKS6 (8.1 of its draft).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StackOptions {
    /// Whether it wants to hear of errors about its datagrams.
    pub udp_errors: Option<bool>,
    /// TCP Fast Open towards the target, with at most so many bytes; 0 says any number.
    pub fast_open: Option<u16>,
    /// Whether the connection to the target is to use several paths.
    pub multipath: Option<bool>,
}

/// The end of a handshake.
pub(crate) struct Shaken {
    pub gate: Gate,
    pub request: SocksRequest,
    pub stack: StackOptions,
}

impl Shaken {
    /// Of a version without such options.
    pub fn new(gate: Gate, request: SocksRequest) -> Self {
        Self {
            gate,
            request,
            stack: StackOptions::default(),
        }
    }
}

/// A handshake with a client.
pub(crate) struct Handshake<'a> {
    pub(crate) stream: Stream,
    /// Bytes that have come and were not read yet.
    pub(crate) buffer: Vec<u8>,
    /// That of the message that is being read.
    pub(crate) version: SocksVersion,
    /// Those of SOCKS6, where it is served.
    pub(crate) sessions: Option<&'a Sessions6>,
}

impl<'a> Handshake<'a> {
    pub fn new(stream: Stream, sessions: Option<&'a Sessions6>) -> Self {
        Self {
            sessions,
            stream,
            buffer: Vec::new(),
            version: SocksVersion::V5,
        }
    }

    /// Reads a message of at most this many bytes.
    pub(crate) async fn read<T, E>(
        &mut self,
        until: Instant,
        most: usize,
        decode: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
    ) -> Result<T, HandshakeError>
    where
        HandshakeError: From<E>,
    {
        timeout_at(until, self.read_message(most, decode)).await?
    }

    async fn read_message<T, E>(
        &mut self,
        most: usize,
        decode: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
    ) -> Result<T, HandshakeError>
    where
        HandshakeError: From<E>,
    {
        loop {
            if let Some((message, length)) = decode(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(message);
            }

            // No message is longer: the decoder has refused it by then.
            let room = most.saturating_sub(self.buffer.len());
            let mut next = (&mut self.stream).take(room as u64);
            if next.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Tells the client why it is refused, as far as its version has words, and closes the connection.
    pub(crate) async fn refuse(self, error: &HandshakeError) {
        let reply = match (error, self.version) {
            (HandshakeError::Stream(_) | HandshakeError::TooSlow(_), _) => {
                return self.stream.abort();
            }
            // It speaks something else, and would not understand.
            (HandshakeError::Message(SocksError::UnknownVersion(_)), _) => {
                return self.stream.abort();
            }
            (HandshakeError::Unacceptable, _) => SocksMethod::Unacceptable.encode().to_vec(),
            (HandshakeError::WrongPassword, _) => socks::password_status(false).to_vec(),
            (HandshakeError::NoPassword, version) => {
                SocksReply::NotAllowed.encode(version, unknown())
            }
            (HandshakeError::Message(error), version) => error.reply().encode(version, unknown()),
            (HandshakeError::Answered(reply), _) => reply.clone(),
            // Who the client is was not asked yet.
            (HandshakeError::Request6(_), _) => {
                let refused = Socks6AuthReply {
                    is_success: false,
                    options: Vec::new(),
                };
                socks6::encode_auth_reply(&refused)
            }
        };
        dismiss(self.stream, &reply).await;
    }
}
