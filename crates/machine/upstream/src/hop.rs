//! How an endpoint was reached last: for its status, and for chains.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hermes_net::quic::WeakConnection;
use parking_lot::Mutex;
use serde::Serialize;

use crate::nested_mtu::NestedMtu;
use crate::reached::{Reached, Transport};

/// Bytes of a QUIC datagram before the UDP payload in it: the shortest stream and the context (RFC 9297, 2.1; RFC 9298, 5).
const PREFIX: usize = 2;

/// A hop at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HopStatus {
    /// The upstream's name.
    pub hop: String,
    /// The endpoint as it is configured.
    pub endpoint: String,
    /// The HTTP version of the link that was made last; `None` before the first.
    pub http: Option<u8>,
    /// The carrier of that link: `udp` or `tcp` if it is reached directly; `datagrams` or a
    /// `stream` of the hop before it.
    pub carried_by: Option<&'static str>,
    /// The largest UDP payload that a datagram on the link carries now, in bytes; `None` where capsules carry them, of any size.
    pub largest_datagram: Option<usize>,
    /// Packets that were dropped because the hop before it did not carry them: as a rule those that measure the path.
    pub dropped: u64,
    /// Why it is a stream.
    pub stream_because: Option<String>,
    /// Milliseconds of a round trip to it: over HTTP/3 as it is now, over TCP as the kernel measured it when it was connected to last;
    /// `None` where a stream of the hop before it carries the link.
    pub round_trip_ms: Option<f64>,
}

/// Which HTTP version an endpoint is used over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) number: u8,
    /// Since when, however many connections there were.
    pub(crate) since: SystemTime,
    /// Why that and not another.
    pub(crate) because: String,
}

impl Version {
    fn now(number: u8, because: String) -> Self {
        Self {
            number,
            since: SystemTime::now(),
            because,
        }
    }
}

/// How it was reached.
#[derive(Debug, Default)]
pub(crate) struct Last {
    link: Mutex<Option<LastLink>>,
    /// Round-trip time of the last TCP connection, measured when it was made.
    tcp_round_trip: Mutex<Option<Duration>>,
}

#[derive(Debug, Clone)]
struct LastLink {
    version: Version,
    connection: Option<WeakConnection>,
    nested_mtu: Option<Arc<NestedMtu>>,
}

impl Last {
    /// Notes how it was reached: `because` gives the reason if the version changed.
    pub(crate) fn reached(&self, reached: &Reached, because: impl FnOnce(u8) -> String) {
        let (number, connection) = match &reached.transport {
            Transport::H1(_) => (1, None),
            Transport::H2(_) => (2, None),
            Transport::H3(connection) => (3, Some(connection.downgrade())),
        };

        let mut known = self.link.lock();
        let before = known.take();

        // The QUIC connection still exists beside TCP, and may be used again.
        let connection = connection.or_else(|| before.as_ref()?.connection.clone());
        let kept = before
            .map(|before| before.version)
            .filter(|version| version.number == number);
        let version = kept.unwrap_or_else(|| Version::now(number, because(number)));
        *known = Some(LastLink {
            version,
            connection,
            nested_mtu: reached.nested_mtu.clone(),
        });
    }

    /// The kernel has measured a round trip to it.
    pub(crate) fn measured(&self, round_trip: Option<Duration>) {
        *self.tcp_round_trip.lock() = round_trip;
    }

    /// Milliseconds of a round trip: of the connection of HTTP/3 in use, else of the TCP connection that was made last.
    pub(crate) fn round_trip_ms(&self) -> Option<f64> {
        let known = self.link.lock().clone()?;
        let is_quic = known.version.number == 3;
        let connection = known.connection.filter(|_| is_quic);
        let quic = connection.and_then(|connection| Some(connection.upgrade()?.rtt()));
        let measured = if is_quic {
            quic
        } else {
            *self.tcp_round_trip.lock()
        };
        // Microseconds are as exact as it gets.
        measured.map(|time| time.as_micros() as f64 / 1000.0)
    }

    /// The version in use; `None` before the first connection.
    pub(crate) fn version(&self) -> Option<Version> {
        self.link.lock().as_ref().map(|known| known.version.clone())
    }

    /// A connection of HTTP/3 that seemed to be dead is used again.
    pub(crate) fn returned(&self, because: &str) {
        if let Some(known) = self
            .link
            .lock()
            .as_mut()
            .filter(|known| known.version.number != 3)
        {
            known.version = Version::now(3, because.to_owned());
        }
    }

    /// Why another version than HTTP/3 is used has become clear.
    pub(crate) fn explain(&self, because: &str) {
        if let Some(known) = self
            .link
            .lock()
            .as_mut()
            .filter(|known| known.version.number != 3)
        {
            because.clone_into(&mut known.version.because);
        }
    }

    /// Its status; `behind` says whether it is reached through another hop, and `quic` is the
    /// memory of HTTP/3 to it, if that is wanted.
    pub(crate) fn status(
        &self,
        hop: &str,
        endpoint: &str,
        behind: bool,
        quic: Option<String>,
    ) -> HopStatus {
        let known = self.link.lock().clone();
        let quic_now = known.as_ref().filter(|known| known.version.number == 3);
        let connection = quic_now.and_then(|known| known.connection.as_ref()?.upgrade());
        let nested_mtu = known.as_ref().and_then(|known| known.nested_mtu.clone());
        let http = known.map(|known| known.version.number);
        let by_mtu = nested_mtu
            .as_ref()
            .and_then(|nested_mtu| nested_mtu.stream_because());

        let stream_because = match http {
            Some(3) => by_mtu,
            Some(version) if behind => Some(match quic {
                Some(words) => format!("HTTP/3: {words}"),
                None => format!("it uses HTTP/{version}"),
            }),
            _ => None,
        };

        let carried_by = http.map(|http| match (behind, http, &stream_because) {
            (false, 3, _) => "udp",
            (false, ..) => "tcp",
            (true, 3, None) => "datagrams",
            (true, ..) => "stream",
        });

        HopStatus {
            hop: hop.to_owned(),
            endpoint: endpoint.to_owned(),
            http,
            carried_by,
            largest_datagram: connection
                .and_then(|quic| Some(quic.max_datagram_size()?.saturating_sub(PREFIX))),
            dropped: nested_mtu.map_or(0, |nested_mtu| nested_mtu.count_dropped()),
            round_trip_ms: self.round_trip_ms(),
            stream_because,
        }
    }
}
