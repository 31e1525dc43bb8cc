//! From the first byte of a client to its wish: methods, password and request.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::Stream;
use hermes_plug::{Gate, ShownPassword};
use hermes_proto::socks::{
    self, Decoded, MAX_MESSAGE, SocksError, SocksHello, SocksMethod, SocksMethods, SocksReply,
    SocksRequest, SocksVersion,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::error::Elapsed;

use crate::held::{dismiss, unknown};

/// How long a client may take for one of its messages, of which there are at most three. The time for which its password is checked does not
/// count.
#[doc(alias = "bound")]
const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// A client that is known as far as it has to be, and has said its wish.
pub(crate) struct Wish {
    pub stream: Stream,
    /// For exchanges of its user.
    pub gate: Gate,
    pub request: SocksRequest,
}

/// The reason why a handshake ends without a wish.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
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
}

/// A handshake with a client.
pub(crate) struct Handshake {
    stream: Stream,
    /// Bytes that have come and were not read yet.
    buffer: Vec<u8>,
    /// That of the message that is being read.
    version: SocksVersion,
}

impl Handshake {
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            version: SocksVersion::V5,
        }
    }

    /// Finds out who the client is and what it wants; one that is refused is told why, and gone.
    pub async fn wish(mut self, gate: Gate) -> Option<Wish> {
        match self.shake(gate).await {
            Ok((gate, request)) => {
                // A client may send what is for its target before it has the reply.
                if !self.buffer.is_empty() {
                    self.stream.unread(Bytes::from(self.buffer));
                }
                let stream = self.stream;
                Some(Wish {
                    stream,
                    gate,
                    request,
                })
            }
            Err(error) => {
                tracing::debug!(peer = %self.stream.info().peer, "a client of SOCKS is refused: {error}");
                self.refuse(&error).await;
                None
            }
        }
    }

    async fn shake(&mut self, gate: Gate) -> Result<(Gate, SocksRequest), HandshakeError> {
        let hello = self.read(|bytes| {
            let is_v4 = bytes.first() == Some(&4);
            (socks::decode_hello(bytes), is_v4)
        });
        let methods = match hello.await? {
            SocksHello::Methods(methods) => methods,
            SocksHello::Request(_) if gate.requires_password() == Some(true) => {
                return Err(HandshakeError::NoPassword);
            }
            SocksHello::Request(request) => return Ok((gate, request)),
        };

        let method = choose(methods, gate.requires_password());
        let gate = match method {
            SocksMethod::Unacceptable => return Err(HandshakeError::Unacceptable),
            SocksMethod::None => {
                self.stream.write_all(&method.encode()).await?;
                gate
            }
            SocksMethod::Password => {
                self.stream.write_all(&method.encode()).await?;
                self.password(&gate).await?
            }
        };
        let request = self.read(|bytes| (socks::decode_request(bytes), false));
        Ok((gate, request.await?))
    }

    /// Reads a password and has it checked.
    async fn password(&mut self, gate: &Gate) -> Result<Gate, HandshakeError> {
        let shown = self.read(|bytes| {
            let owned = |(shown, length): (socks::SocksPassword<'_>, _)| {
                ((shown.user.to_vec(), shown.password.to_vec()), length)
            };
            (
                socks::decode_password(bytes).map(|shown| shown.map(owned)),
                false,
            )
        });
        let (user, password) = shown.await?;

        let source = self.stream.info().clone();
        let shown = ShownPassword {
            user: &user,
            password: &password,
            source: &source,
        };
        let known = gate.of_password(shown).await;
        let known = known.ok_or(HandshakeError::WrongPassword)?;
        self.stream.write_all(&socks::password_status(true)).await?;
        Ok(known)
    }

    /// Reads a message.
    async fn read<T>(
        &mut self,
        decode: impl Fn(&[u8]) -> (Decoded<T>, bool),
    ) -> Result<T, HandshakeError> {
        tokio::time::timeout(MESSAGE_TIME, self.read_message(decode)).await?
    }

    async fn read_message<T>(
        &mut self,
        decode: impl Fn(&[u8]) -> (Decoded<T>, bool),
    ) -> Result<T, HandshakeError> {
        loop {
            let (decoded, is_v4) = decode(&self.buffer);
            if is_v4 {
                self.version = SocksVersion::V4;
            }
            if let Some((message, length)) = decoded? {
                self.buffer.drain(..length);
                return Ok(message);
            }

            // No message is longer: the decoder has refused it by then.
            let room = MAX_MESSAGE.saturating_sub(self.buffer.len());
            let mut next = (&mut self.stream).take(room as u64);
            if next.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Tells the client why it is refused, as far as its version has words, and closes the connection.
    async fn refuse(self, error: &HandshakeError) {
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
        };
        dismiss(self.stream, &reply).await;
    }
}

/// The way to authenticate: `requires` says whether a password must be shown, `None` that none is asked for.
fn choose(offered: SocksMethods, requires: Option<bool>) -> SocksMethod {
    match requires {
        Some(_) if offered.password => SocksMethod::Password,
        Some(true) => SocksMethod::Unacceptable,
        Some(false) | None if offered.none => SocksMethod::None,
        Some(false) | None => SocksMethod::Unacceptable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_taken_where_it_is_asked_for_and_nothing_less() {
        let offers = |none, password| SocksMethods { none, password };
        for (offered, requires, chosen) in [
            (offers(true, true), None, SocksMethod::None),
            (offers(false, true), None, SocksMethod::Unacceptable),
            (offers(true, true), Some(true), SocksMethod::Password),
            (offers(true, false), Some(true), SocksMethod::Unacceptable),
            (offers(true, true), Some(false), SocksMethod::Password),
            (offers(true, false), Some(false), SocksMethod::None),
            (offers(false, false), Some(false), SocksMethod::Unacceptable),
        ] {
            assert_eq!(
                choose(offered, requires),
                chosen,
                "{offered:?} {requires:?}"
            );
        }
    }
}
