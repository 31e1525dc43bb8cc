//! How connections are accepted and opened: TLS as over TCP, with ALPN `h3`.

use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

use super::ALPN;
use super::congestion::Congestion;
use super::keys::Keys;
use super::record::Record;
use super::transport::{BI_STREAMS, KEEP_ALIVE, Sizes, transport, transport_of_known_path};
use crate::tls::{TlsClient, TlsFileError};

/// The value that allows early data in QUIC (RFC 9001 section 4.6.1).
const EARLY_DATA: u32 = u32::MAX;

/// Connections that wait to be taken by [`super::Endpoint::accept`].
#[doc(alias = "bound")]
const WAITING: usize = 1024;

/// Bytes of early packets that are kept of one such connection.
#[doc(alias = "bound")]
const WAITING_BYTES: u64 = 64 << 10;

/// Bytes of early packets that are kept of all such connections.
#[doc(alias = "bound")]
const WAITING_BYTES_OF_ALL: u64 = 16 << 20;

/// Servers with kept tickets, 8 of each at most: upstreams rarely have more endpoints.
#[doc(alias = "bound")]
const SERVERS: usize = 64;

/// How connections are accepted.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Certificate, key and authorities for client certificates, as over TCP; its ALPN is not used.
    pub tls: Arc<rustls::ServerConfig>,
    /// Take streams of a returning client before its handshake has ended (0-RTT). Anyone who sees them on the way can repeat
    /// them. Not for a configuration that asks clients for certificates: those come later.
    pub early_data: bool,
    /// Streams of both directions that a client may have open at once.
    pub streams: u32,
    /// The congestion control of what is sent to clients.
    pub congestion: Congestion,
    /// Clients must prove their address first (Retry) while this many handshakes of this socket are unfinished.
    pub retry_above: usize,
    /// The keys that all sockets of the port share.
    pub keys: Keys,
    /// The recordings of connections.
    pub record: Record,
}

impl ServerOptions {
    /// The usual: no early data, [`super::RETRY_ABOVE`], nothing written down.
    #[must_use]
    pub fn new(tls: Arc<rustls::ServerConfig>, keys: Keys) -> Self {
        Self {
            tls,
            early_data: false,
            streams: BI_STREAMS,
            congestion: Congestion::default(),
            retry_above: super::RETRY_ABOVE,
            keys,
            record: Record::default(),
        }
    }

    /// The form that quinn takes.
    pub(super) fn build(&self) -> Result<quinn::ServerConfig, TlsFileError> {
        let mut tls = rustls::ServerConfig::clone(&self.tls);
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.max_early_data_size = if self.early_data { EARLY_DATA } else { 0 };

        if let Some(log) = self.record.key_log() {
            tls.key_log = log;
        }
        let crypto = QuicServerConfig::try_from(tls).map_err(|error| no_suite(&error))?;
        let mut config = quinn::ServerConfig::new(Arc::new(crypto), self.keys.token());
        config
            .transport_config(transport(
                None,
                self.streams,
                KEEP_ALIVE,
                Sizes::OWN,
                self.congestion,
            ))
            .migration(true)
            .max_incoming(WAITING)
            .incoming_buffer_size(WAITING_BYTES)
            .incoming_buffer_size_total(WAITING_BYTES_OF_ALL);

        Ok(config)
    }
}

/// How connections are opened. Cheap to clone; clones share the TLS sessions.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    config: quinn::ClientConfig,
    early_data: bool,
    keep_alive: Duration,
    congestion: Congestion,
    /// Round-trip time of the path, if it is known.
    rtt: Option<Duration>,
    record: Record,
}

impl ClientConfig {
    /// Verification and our own certificate are those of `tls`; its ALPN is not used. With `early_data`, a connection to a
    /// server that is known can be used before its handshake has ended: for requests that may be repeated only.
    ///
    /// # Errors
    /// When `tls` does not allow TLS 1.3 with AES-128-GCM, which QUIC begins with.
    pub fn new(tls: &TlsClient, early_data: bool, record: Record) -> Result<Self, TlsFileError> {
        // Sessions are kept for this configuration alone: another one may verify differently, and
        // show another certificate.
        let mut tls = tls.apart(SERVERS);
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.enable_early_data = early_data;

        if let Some(log) = record.key_log() {
            tls.key_log = log;
        }
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| no_suite(&error))?;
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport(
            None,
            BI_STREAMS,
            KEEP_ALIVE,
            Sizes::OWN,
            Congestion::default(),
        ));

        Ok(Self {
            config,
            early_data,
            keep_alive: KEEP_ALIVE,
            congestion: Congestion::default(),
            rtt: None,
            record,
        })
    }

    /// Sends a PING whenever a connection was silent for `every`, but no later than after the usual 15 s.
    #[must_use]
    pub fn kept_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every.min(KEEP_ALIVE);
        self.configured()
    }

    /// Sets the congestion control.
    #[must_use]
    pub fn controlled(mut self, congestion: Congestion) -> Self {
        self.congestion = congestion;
        self.configured()
    }

    fn configured(mut self) -> Self {
        let transport = transport(
            None,
            BI_STREAMS,
            self.keep_alive,
            Sizes::OWN,
            self.congestion,
        );
        self.config.transport_config(transport);
        self
    }

    /// A copy for a path with the round-trip time of an earlier connection (RFC 9002, 6.2.2): if
    /// the first packet is lost, as by a server that is still starting, the next one follows soon.
    #[must_use]
    pub fn expecting(&self, rtt: Option<Duration>) -> Self {
        Self {
            rtt,
            ..self.clone()
        }
    }

    pub(super) fn early_data(&self) -> bool {
        self.early_data
    }

    /// For one connection.
    pub(super) fn one(&self, sizes: Sizes) -> quinn::ClientConfig {
        let mut config = self.config.clone();
        let qlog = || self.record.qlog("client");
        match self.rtt {
            Some(rtt) => {
                config.transport_config(transport_of_known_path(
                    qlog(),
                    self.keep_alive,
                    sizes,
                    self.congestion,
                    rtt,
                ));
            }
            None if self.record.writes_qlog() || sizes != Sizes::OWN => {
                config.transport_config(transport(
                    qlog(),
                    BI_STREAMS,
                    self.keep_alive,
                    sizes,
                    self.congestion,
                ));
            }
            None => {}
        }

        config
    }
}

fn no_suite(error: &quinn::crypto::rustls::NoInitialCipherSuite) -> TlsFileError {
    TlsFileError::elsewhere("tls", format!("not usable for QUIC: {error}"))
}
