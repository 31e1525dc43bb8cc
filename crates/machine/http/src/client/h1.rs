//! The client side of an HTTP/1.1 connection: one exchange at a time.

use std::sync::Arc;

use hermes_net::memory::FieldsCharge;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{KEEP_ALIVE, UPGRADE};
use hermes_proto::h1::{self as codec, Framing, MessageLimits};
use hermes_proto::upgrade::Protocol;
use hermes_proto::websocket::check_accept;
use http::{HeaderValue, Method, StatusCode};

use crate::error::{Cause, NO_ROOM, Processed, StreamError};
use crate::h1::client::{Receiver, encode, framing};
use crate::h1::{BodyReceiver, BodySender, Connection, Ends, Home, ReadSide, Rejoin, WayBack};
use crate::pending::{Awaited, Event};
use crate::{Incoming, Kind, Outgoing, RequestHead, ResponseHead};

/// Opens an exchange on an idle connection. `length` is that of the content, `None` if unknown; afterwards the connection
/// goes to `home`, if there is one and both sides allow it.
///
/// # Errors
/// The head cannot be written in HTTP/1.1; nothing was sent.
pub fn open(
    connection: Connection,
    head: &RequestHead,
    length: Option<u64>,
    receiver: Receiver,
    home: Option<Arc<dyn Home>>,
) -> Result<(Outgoing, crate::Pending), StreamError> {
    let limits = MessageLimits::of_responses();
    open_within(connection, head, length, receiver, home, limits)
}

/// As [`open`], for a response within these limits.
///
/// # Errors
/// As for [`open`].
pub fn open_within(
    mut connection: Connection,
    head: &RequestHead,
    length: Option<u64>,
    receiver: Receiver,
    home: Option<Arc<dyn Home>>,
    limits: MessageLimits,
) -> Result<(Outgoing, crate::Pending), StreamError> {
    let framing = framing(head, length);
    let key = crate::websocket::key_for(head)?;
    encode(
        head,
        framing,
        receiver,
        key.as_ref(),
        &mut connection.write.pieces.head,
    )
    .map_err(|error| StreamError {
        processed: Processed::No,
        ..error
    })?;

    // Reused from the exchange before: a connection allocates it once.
    let rejoin = connection.rejoin.unwrap_or_else(Rejoin::of_client);
    let (of_reading, of_writing) = rejoin.part(home);
    let outgoing = BodySender::content(connection.write, framing, of_writing);
    let pending = NextResponse {
        read: Some((connection.read, of_reading)),
        method: head.method.clone(),
        kind: head.kind(),
        protocol: head.protocol.clone(),
        accept: key.as_ref().map(crate::websocket::accept),
        limits,
        charge: FieldsCharge::default(),
    };

    Ok((Outgoing::H1(outgoing), Awaited::H1(pending).into()))
}

/// The response to come.
#[derive(Debug)]
pub struct NextResponse {
    read: Option<(ReadSide, WayBack<ReadSide>)>,
    method: Method,
    kind: Kind,
    /// The protocol that was asked for: the server may not switch to another one.
    protocol: Option<Protocol>,
    /// The `Sec-WebSocket-Accept` that must come.
    accept: Option<HeaderValue>,
    limits: MessageLimits,
    /// The charge of the last head, or for the received part of the next one.
    charge: FieldsCharge,
}

impl NextResponse {
    pub(crate) async fn event(
        &mut self,
        tunnel: Option<&mut Outgoing>,
    ) -> Result<Event, StreamError> {
        let head = self.head().await?;
        let mut response = ResponseHead {
            status: head.status,
            fields: head.fields,
            version: head.version,
        };

        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Event::Interim(response));
        }
        let (mut read, way_back) = self
            .read
            .take()
            .ok_or_else(|| StreamError::new(Cause::Incomplete))?;
        if self.accepted(head.status)? {
            if let Some(protocol) = &self.protocol {
                check_switched(&response.fields, protocol)?;
            }
            if let Some(expected) = &self.accept {
                check_accept(&response.fields, expected)
                    .map_err(|error| StreamError::new(Cause::Protocol(error.to_string())))?;
                // It answers our key, not that of the client, whose own hop has another.
                hermes_proto::websocket::strip(&mut response.fields);
            }

            if let Some(Outgoing::H1(outgoing)) = tunnel {
                outgoing.become_tunnel();
                if self.kind == Kind::Connect {
                    outgoing.leave_tls_to_kernel(&mut read)?;
                }
            }
            let ends = if self.kind == Kind::Upgrade {
                Ends::Closed
            } else {
                Ends::Notified
            };

            return Ok(Event::Tunnel(
                response,
                Incoming::H1(BodyReceiver::tunnel(read, ends)),
            ));
        }

        // RFC 9112, 9.3: no exchange can follow. Nor may one follow a refused tunnel: the server
        // may already read on in the other protocol.
        if !head.keep_alive || head.framing == Framing::UntilClose || self.kind != Kind::Message {
            way_back.spoil();
        }
        read.kept_seconds = kept_seconds(&response.fields);
        let incoming = BodyReceiver::content(read, head.framing, &self.limits, way_back);
        let incoming = incoming.charged(std::mem::take(&mut self.charge));
        Ok(Event::Final(response, Incoming::H1(incoming)))
    }

    /// The next head. Dropping the future loses nothing.
    async fn head(&mut self) -> Result<codec::ResponseHead, StreamError> {
        let method = self.wire_method();
        let (read, _) = self
            .read
            .as_mut()
            .ok_or_else(|| StreamError::new(Cause::Incomplete))?;

        loop {
            let head = codec::decode_response(&mut read.buffer, &self.limits, &method)?;
            let bytes = match &head {
                Some(head) => head.fields.footprint(),
                None => read.buffer.len(),
            };
            // Part of a head is charged as it grows: a server that sends it byte by byte holds no more than it pays for.
            let held = self.charge.hold(&read.half.info().peer, bytes);
            held.map_err(|_| StreamError::new(Cause::Memory(NO_ROOM)))?;

            if let Some(head) = head {
                return Ok(head);
            }
            if read.fill().await? == 0 {
                return Err(StreamError::new(Cause::Incomplete));
            }
        }
    }

    fn wire_method(&self) -> Method {
        if self.kind.is_extended() {
            Method::GET
        } else {
            self.method.clone()
        }
    }

    /// Whether this status opens the tunnel that was asked for.
    fn accepted(&self, status: StatusCode) -> Result<bool, StreamError> {
        let switching = status == StatusCode::SWITCHING_PROTOCOLS;
        match self.kind {
            Kind::ConnectUdp | Kind::ConnectIp | Kind::ConnectTcp | Kind::Upgrade => Ok(switching),
            _ if switching => Err(StreamError::new(Cause::Protocol(
                "101 without an upgrade".to_owned(),
            ))),
            Kind::Connect => Ok(status.is_success()),
            Kind::Message => Ok(false),
        }
    }
}

/// Seconds for which the server keeps the connection between exchanges, where it says so (RFC 2068, 19.7.1.1); 18 hours at most.
fn kept_seconds(fields: &Fields) -> Option<u16> {
    let said = fields.get(KEEP_ALIVE)?;
    let mut parameters = said.as_bytes().split(|byte| matches!(byte, b',' | b';'));
    let seconds = parameters.find_map(|parameter| {
        let (name, value) = std::str::from_utf8(parameter).ok()?.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then(|| value.trim().trim_matches('"').parse::<u32>().ok())?
    });
    seconds.map(|seconds| seconds.try_into().unwrap_or(u16::MAX))
}

/// RFC 9110, 15.2.2: a 101 names the new protocol. The bytes of any other than the requested one
/// would be misread.
fn check_switched(fields: &Fields, protocol: &Protocol) -> Result<(), StreamError> {
    let mut lines = fields.values(UPGRADE);
    let said = lines
        .next()
        .and_then(|line| Protocol::parse(line.as_bytes()).ok());
    if said.as_ref() == Some(protocol) && lines.next().is_none() {
        return Ok(());
    }

    let said = said.map_or_else(
        || "nothing, or several protocols,".to_owned(),
        |said| said.to_string(),
    );
    let reason = format!("101 switches to {said} where {protocol} was asked for");
    Err(StreamError::new(Cause::Protocol(reason)))
}

impl Drop for NextResponse {
    /// The response is not waited for any more.
    fn drop(&mut self) {
        if let Some((read, way_back)) = &self.read {
            way_back.abandon(read);
        }
    }
}
