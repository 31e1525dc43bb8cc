//! A connection for one exchange, and the exchange that is opened on it.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use hermes_http::h1::client::Receiver;
use hermes_http::{RequestHead, StreamError, client, h1};
use hermes_net::{StreamInfo, within};
use hermes_proto::h1::MessageLimits;

use crate::connect::{self, Attempt, DialAddresses};
use crate::endpoint::Active;
use crate::endpoint_attempts::{EndpointAttempt, EndpointAttempts};
use crate::failure::ConnectFailure;
use crate::limits::Room;
use crate::opened::Opened;
use crate::pinned::Own;
use crate::pool::{Berth, Carrier, Dialling, Key, Pool, Slot, Taken};
use crate::reached::Bounds;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// A connection on which one exchange can be opened. Dropped without that, an HTTP/1.1 connection closes.
#[derive(Debug)]
pub struct Checkout {
    /// The endpoint as it is configured, or host and port of the origin.
    pub endpoint: Arc<str>,
    /// The address that was dialled; `None` for a Unix socket, or behind another proxy.
    pub address: Option<SocketAddr>,
    /// Whether other exchanges used the connection before, so that the peer may be closing it just now.
    pub reused: bool,
    carrier: Carrier,
    room: Room,
    active: Active,
    /// Where a connection of its own is kept afterwards; nowhere if absent.
    home: Option<(Arc<Pool>, Arc<Slot>)>,
    /// Bounds of the response.
    answers: MessageLimits,
}

impl Checkout {
    pub(crate) fn new(
        home: Option<(Arc<Pool>, Arc<Slot>)>,
        taken: Taken,
        endpoint: Arc<str>,
        active: Active,
    ) -> Self {
        let Taken {
            carrier,
            address,
            reused,
            room,
        } = taken;
        Self {
            endpoint,
            address,
            reused,
            carrier,
            room,
            active,
            answers: home
                .as_ref()
                .map_or_else(MessageLimits::of_responses, |(_, slot)| {
                    slot.answers.message
                }),
            home,
        }
    }

    /// For an exchange after which no other may have the connection: one of HTTP/1.1 closes. A link goes on.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { home: None, ..self }
    }

    /// The other end.
    pub(crate) fn source(&self) -> Arc<StreamInfo> {
        match &self.carrier {
            Carrier::H1(connection, _) => connection.source().clone(),
            Carrier::Shared(link, _) => link.source(),
        }
    }

    /// Whether exchanges share the connection: a link, whose end is noticed.
    pub fn is_link(&self) -> bool {
        matches!(self.carrier, Carrier::Shared(..))
    }

    /// Opens the exchange. `length` is that of the content, `None` if unknown; `receiver` decides
    /// the form of the target on HTTP/1.1; the connection is kept for another exchange afterwards.
    ///
    /// # Errors
    /// The head cannot be written, the link is closing, or the peer lacks extended CONNECT. Nothing was processed.
    pub async fn open(
        self,
        head: &RequestHead,
        length: Option<u64>,
        receiver: Receiver,
    ) -> Result<Opened, StreamError> {
        let Self {
            endpoint,
            address,
            reused,
            carrier,
            room,
            active,
            home,
            answers,
        } = self;

        let active = active.in_rooms(None, Some(room.clone()));
        let ((outgoing, pending), stream) = match carrier {
            Carrier::H1(connection, berth) => {
                // The berth travels with its connection: an exchange on a kept one allocates none.
                let home = home.map(|(pool, slot)| -> Arc<dyn h1::Home> {
                    let berth = berth.unwrap_or_else(|| Arc::new(Berth::new(address, room)));
                    berth.for_exchange(pool, slot)
                });
                (
                    client::h1::open_within(*connection, head, length, receiver, home, answers)?,
                    None,
                )
            }
            Carrier::Shared(link, counted) => (link.open(head, length).await?, Some(counted)),
        };

        Ok(Opened {
            outgoing,
            pending,
            active: active.with_stream(stream),
            endpoint,
            address,
            reused,
        })
    }
}

impl Worker {
    /// A connection for one exchange, for itself or within a tunnel: to be had within these bounds.
    pub(crate) async fn checkout(
        &self,
        upstream: &Arc<Upstream>,
        bounds: Bounds,
    ) -> Result<Checkout, ConnectFailure> {
        self.take(
            upstream,
            bounds,
            EndpointAttempts::begin(upstream, None, bounds.until).await?,
            None,
        )
        .await
    }

    /// A connection to one of the endpoints that `attempts` names, one after the other.
    pub(crate) async fn take(
        &self,
        upstream: &Arc<Upstream>,
        bounds: Bounds,
        mut attempts: EndpointAttempts<'_>,
        own: Option<Own<'_>>,
    ) -> Result<Checkout, ConnectFailure> {
        // Authentication belongs to a connection, which leads to one endpoint (RFC 4559).
        attempts.prefer(own.and_then(|own| own.index(upstream.id)));
        while let Some(next) = attempts.next() {
            let tried = next.endpoint.clone();
            let until = next.until;
            let attempt = pin!(endpoint(self, upstream, next, bounds.depth, own));

            match within(|| until, attempt).await {
                Some(Ok(checkout)) => return Ok(checkout),
                Some(Err(failure)) => attempts.failed(&tried, failure),
                None => attempts.failed(&tried, ConnectFailure::timeout(&*tried.text)),
            }
        }

        Err(attempts.failure())
    }
}

/// Gets a connection to one endpoint; one that no one else has where it is for `own`, in HTTP/1.1 if that is spoken there.
pub(crate) async fn endpoint(
    client: &Worker,
    upstream: &Arc<Upstream>,
    attempt: EndpointAttempt,
    depth: u8,
    own: Option<Own<'_>>,
) -> Result<Checkout, ConnectFailure> {
    let EndpointAttempt {
        index,
        endpoint,
        active,
        until,
    } = attempt;

    let addresses = connect::dial_addresses(client, upstream, &endpoint).await?;
    // An address that the name no longer stands for serves no new exchange.
    let fits = |address: Option<SocketAddr>| match (&addresses, address) {
        (Some(known), Some(address)) => known.contains(&address),
        (known, address) => known.is_none() == address.is_none(),
    };

    // By numbers: an upstream that was built anew has another one, so that it never gets connections of its predecessor.
    let key = Key::Endpoint(upstream.id, index);
    let slot = match own {
        None => client.pool.slot(key, Some(upstream), upstream.may_share()),
        Some(own) => own.slot(key, || {
            client
                .pool
                .own_slot(Some(upstream), index, !upstream.speaks_h1())
        }),
    };

    let attempt = Attempt {
        client,
        upstream,
        endpoint: &endpoint,
        bounds: Bounds { until, depth },
    };

    let h1_alone = own.is_some() && upstream.speaks_h1();
    let dial = || dialling(attempt, h1_alone, &addresses);
    let taken = client.pool.acquire(&slot, &fits, dial).await?;
    // Only a new connection says that the endpoint can be reached; a kept one proves nothing new.
    if !taken.reused {
        endpoint.succeeded();
    }

    Ok(Checkout::new(
        Some((client.pool.clone(), slot)),
        taken,
        endpoint.text.clone(),
        active,
    ))
}

/// Boxed as `dyn`, so that crates that await it do not compile it again.
#[inline(never)]
fn dialling<'a>(
    attempt: Attempt<'a>,
    h1_alone: bool,
    addresses: &'a DialAddresses,
) -> Dialling<'a> {
    if h1_alone {
        Box::pin(attempt.http1(addresses))
    } else {
        Box::pin(attempt.http(addresses))
    }
}
