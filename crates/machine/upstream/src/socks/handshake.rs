//! The handshake with a proxy: method, password, and request.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use hermes_net::{Stream, StreamInfo};
use hermes_proto::socks::client::{self, ProxyReply, UnfitText};
use hermes_proto::socks::{
    MAX_MESSAGE, SocksCommand, SocksError, SocksMethod, SocksPassword, SocksReply,
};
use hermes_proto::socks6::{
    self, MAX_ASSOCIATION_MESSAGE, Socks6Command, Socks6Credentials, Socks6Error,
    Socks6ReplyOption, Socks6Request, Socks6RequestOptions,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::optimistic::OptimisticStream;

use crate::failure::{ConnectFailure, FailureKind};
use crate::socks_hop::HopPassword;

/// A wish that the proxy has served.
pub(super) struct Served {
    /// The connection to it: from here on that to the target, or the one by whose end an association ends.
    pub(super) stream: Stream,
    /// The proxy's address for the wish.
    pub(super) bound: Option<SocketAddr>,
    /// The association of SOCKS6 that has begun.
    pub(super) association: Option<u64>,
}

/// Why a proxy has not served a wish.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    Stream(#[from] io::Error),
    #[error("it does not speak SOCKS5 as RFC 1928 has it: {0}")]
    Message(#[from] SocksError),
    #[error("it does not speak SOCKS6 as the draft has it: {0}")]
    Message6(#[from] Socks6Error),
    #[error(transparent)]
    Unfit(#[from] UnfitText),
    #[error("it wants credentials: write `credentials` at the upstream")]
    WantsPassword,
    #[error("it takes no password: remove `credentials` at the upstream")]
    TakesNoPassword,
    #[error("it does not accept `credentials` of the upstream")]
    WrongPassword,
    #[error("it replied: {}", words(*.0))]
    Refused(SocksReply),
}

impl Failed {
    /// Whether the proxy works, and refuses this wish or this node.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Stream(_) | Self::Message(_) | Self::Message6(_))
    }

    /// The failure of a connection to `target` via `proxy`.
    pub(super) fn explain(&self, target: &str, proxy: &str) -> ConnectFailure {
        let kind = match self {
            Self::Refused(SocksReply::NotAllowed) => FailureKind::Denied,
            Self::Refused(SocksReply::ConnectionRefused) => FailureKind::Refused,
            Self::Refused(SocksReply::NetworkUnreachable) => FailureKind::Unreachable,
            Self::Refused(SocksReply::TimedOut) => FailureKind::Timeout,
            _ => return failure(target, proxy, self.to_string()),
        };
        ConnectFailure::new(kind, target, format!("via {proxy}: {self}"))
    }
}

/// A failure that says nothing of the target.
pub(super) fn failure(target: &str, proxy: &str, reason: String) -> ConnectFailure {
    let kind = FailureKind::Via { status: None };
    ConnectFailure::new(kind, target, format!("via {proxy}: {reason}"))
}

fn words(reply: SocksReply) -> &'static str {
    match reply {
        SocksReply::Succeeded => "succeeded",
        SocksReply::GeneralFailure => "general failure",
        SocksReply::NotAllowed => "its rules do not allow it",
        SocksReply::NetworkUnreachable => "network unreachable",
        SocksReply::HostUnreachable => "host unreachable",
        SocksReply::ConnectionRefused => "connection refused",
        SocksReply::TtlExpired => "TTL expired",
        SocksReply::CommandNotSupported => "command not supported",
        SocksReply::AddressTypeNotSupported => "address type not supported",
        SocksReply::TimedOut => "no connection in time",
    }
}

/// A handshake with a proxy. Its time is bounded by the caller.
pub(super) struct Handshake {
    stream: Stream,
    /// Bytes that have come and were not read yet.
    buffer: Vec<u8>,
}

impl Handshake {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Has the proxy serve a wish.
    pub(super) async fn ask(
        mut self,
        password: Option<&HopPassword>,
        command: &SocksCommand,
    ) -> Result<Served, Failed> {
        let request = client::encode_request(command)?;
        // The request waits for the method though there is one alone: microsocks and others lose bytes behind a message.
        self.write(&client::encode_methods(password.is_some()))
            .await?;

        let method = self.read(MAX_MESSAGE, client::decode_method).await?;
        match (method, password) {
            (SocksMethod::None, None) => {}
            (SocksMethod::Password, Some(password)) => self.show(password).await?,
            (SocksMethod::Unacceptable, Some(_)) => return Err(Failed::TakesNoPassword),
            (SocksMethod::Unacceptable | SocksMethod::Password, None) => {
                return Err(Failed::WantsPassword);
            }
            // It would serve a stranger.
            (SocksMethod::None, Some(_)) => return Err(SocksError::UnknownMethod(0).into()),
        }

        self.write(&request).await?;
        let ProxyReply { reply, bound } = self.read(MAX_MESSAGE, client::decode_reply).await?;
        self.served(reply, bound)
    }

    async fn show(&mut self, password: &HopPassword) -> Result<(), Failed> {
        let shown = SocksPassword {
            user: password.user.as_bytes(),
            password: password.password.as_bytes(),
        };
        self.write(&client::encode_password(shown)?).await?;
        match self
            .read(MAX_MESSAGE, client::decode_password_status)
            .await?
        {
            true => Ok(()),
            false => Err(Failed::WrongPassword),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// The same by SOCKS6, in one message. Where it is early, the replies are not awaited.
    pub(super) async fn ask_6(
        mut self,
        password: Option<&HopPassword>,
        command: &SocksCommand,
        is_early: bool,
    ) -> Result<Served, Failed> {
        let command = match command {
            SocksCommand::Connect(target) => Socks6Command::Connect(target.clone()),
            SocksCommand::Bind(target) => Socks6Command::Bind(target.clone()),
            SocksCommand::Associate => Socks6Command::Associate,
        };
        let is_association = command == Socks6Command::Associate;
        let credentials = password.map(|password| Socks6Credentials {
            user: password.user.as_bytes().to_vec(),
            password: password.password.as_bytes().to_vec(),
        });
        let request = Socks6Request {
            command,
            options: Socks6RequestOptions {
                credentials,
                ..Socks6RequestOptions::default()
            },
        };
        self.write(&socks6::encode_request(&request)).await?;
        if is_early && !is_association {
            let info = StreamInfo::clone(self.stream.info());
            let stream = Box::new(OptimisticStream::new(self.stream));
            return Ok(Served {
                stream: Stream::other(stream, info),
                bound: None,
                association: None,
            });
        }

        let known = self
            .read(socks6::MAX_MESSAGE, socks6::decode_auth_reply)
            .await?;
        if !known.is_success {
            let wrong = Socks6ReplyOption::PasswordStatus(false);
            return Err(match password {
                None => Failed::WantsPassword,
                Some(_) if known.options.contains(&wrong) => Failed::WrongPassword,
                Some(_) => Failed::TakesNoPassword,
            });
        }
        let reply = self
            .read(socks6::MAX_MESSAGE, socks6::decode_operation_reply)
            .await?;
        if !is_association || reply.reply != SocksReply::Succeeded {
            return self.served(reply.reply, reply.bound);
        }

        let begun = self.read(MAX_ASSOCIATION_MESSAGE, |bytes| {
            let decoded = socks6::decode_association_message(bytes)?;
            Ok::<_, Socks6Error>(decoded.map(|(begun, length)| (begun.association, length)))
        });
        let association = Some(begun.await?);
        Ok(Served {
            association,
            ..self.served(reply.reply, reply.bound)?
        })
    }

    fn served(mut self, reply: SocksReply, bound: Option<SocketAddr>) -> Result<Served, Failed> {
        if reply != SocksReply::Succeeded {
            return Err(Failed::Refused(reply));
        }
        // A target that speaks first may have been heard with the reply.
        if !self.buffer.is_empty() {
            self.stream.unread(Bytes::from(self.buffer));
        }
        Ok(Served {
            stream: self.stream,
            bound,
            association: None,
        })
    }

    /// Reads a message of at most this many bytes.
    async fn read<T, E>(
        &mut self,
        most: usize,
        decode: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
    ) -> Result<T, Failed>
    where
        Failed: From<E>,
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
}
