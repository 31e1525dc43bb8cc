//! From the first byte of a client to its wish: methods, password and request.

use bytes::Bytes;
use hermes_net::Stream;
use hermes_plug::{Gate, ShownPassword};
use hermes_proto::socks::{
    self, MAX_MESSAGE, SocksError, SocksHello, SocksMethod, SocksMethods, SocksRequest,
    SocksVersion,
};
use hermes_proto::socks6;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::handshake::{Handshake, HandshakeError, MESSAGE_TIME, Shaken, StackOptions};
use crate::six;

/// A client that is known as far as it has to be, and has said its wish.
pub(crate) struct Wish {
    pub stream: Stream,
    /// For exchanges of its user.
    pub gate: Gate,
    pub request: SocksRequest,
    /// Of SOCKS6.
    pub stack: StackOptions,
}

impl Handshake<'_> {
    /// Finds out who the client is and what it wants; one that is refused is told why, and gone.
    pub async fn wish(mut self, gate: Gate) -> Option<Wish> {
        match self.shake(gate).await {
            Ok(shaken) => {
                // A client may send what is for its target before it has the reply.
                if !self.buffer.is_empty() {
                    self.stream.unread(Bytes::from(self.buffer));
                }
                Some(Wish {
                    stream: self.stream,
                    gate: shaken.gate,
                    request: shaken.request,
                    stack: shaken.stack,
                })
            }
            Err(error) => {
                tracing::debug!(peer = %self.stream.info().peer, "a client of SOCKS is refused: {error}");
                self.refuse(&error).await;
                None
            }
        }
    }

    async fn shake(&mut self, gate: Gate) -> Result<Shaken, HandshakeError> {
        let until = Instant::now() + MESSAGE_TIME;
        let first = self.read(until, 1, |bytes| {
            Ok::<_, SocksError>(bytes.first().map(|first| (*first, 0)))
        });
        self.version = match first.await? {
            4 => SocksVersion::V4,
            socks6::VERSION if self.sessions.is_some() => SocksVersion::V6,
            _ => SocksVersion::V5,
        };
        if let Some(sessions) = self.sessions.filter(|_| self.version == SocksVersion::V6) {
            return six::shake(self, sessions, gate, until).await;
        }

        let hello = self.read(until, MAX_MESSAGE, socks::decode_hello);
        let methods = match hello.await? {
            SocksHello::Methods(methods) => methods,
            SocksHello::Request(_) if gate.requires_password() == Some(true) => {
                return Err(HandshakeError::NoPassword);
            }
            SocksHello::Request(request) => return Ok(Shaken::new(gate, request)),
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
        let until = Instant::now() + MESSAGE_TIME;
        let request = self.read(until, MAX_MESSAGE, socks::decode_request);
        Ok(Shaken::new(gate, request.await?))
    }

    /// Reads a password and has it checked.
    async fn password(&mut self, gate: &Gate) -> Result<Gate, HandshakeError> {
        let until = Instant::now() + MESSAGE_TIME;
        let shown = self.read(until, MAX_MESSAGE, |bytes| {
            let owned = |(shown, length): (socks::SocksPassword<'_>, _)| {
                ((shown.user.to_vec(), shown.password.to_vec()), length)
            };
            socks::decode_password(bytes).map(|shown| shown.map(owned))
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
