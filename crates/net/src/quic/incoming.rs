//! Connections that clients ask for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::connection::Connection;
use super::endpoint::Serving;
use super::error::ConnectionError;
use crate::peer::canonical;

/// Unfinished handshakes of one socket from which on clients must prove their address first (RFC 9000 section 8.1.2): more
/// than a burst of honest clients, less than what a forger of addresses would need to be felt.
pub const RETRY_ABOVE: usize = 64;
/// Unfinished handshakes of one socket; more are refused. Each is a few milliseconds of work and some 50 KiB.
pub const HANDSHAKES: usize = 1024;

/// A connection that a client asks for. Dropped, it is refused.
#[derive(Debug)]
pub struct Incoming {
    pub(super) quinn: quinn::Incoming,
    pub(super) serving: Arc<Serving>,
    pub(super) local: Option<SocketAddr>,
    pub(super) handshake: Handshake,
}

/// Counts one unfinished handshake for as long as it lives.
#[derive(Debug)]
pub(super) struct Handshake {
    open: Arc<AtomicUsize>,
}

impl Handshake {
    pub(super) fn begin(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self { open: open.clone() }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Incoming {
    /// Where the client is, or says it is: see [`Self::is_validated`].
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        canonical(self.quinn.remote_address())
    }

    /// True when the client has proved that it receives what is sent to its address.
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.quinn.remote_address_validated()
    }

    /// Runs the handshake. It has no time limit of its own. With early data the connection is there before its end.
    ///
    /// # Errors
    /// When the handshake fails. The client was told why.
    pub async fn accept(self) -> Result<Connection, ConnectionError> {
        let Self { quinn, serving, local, handshake } = self;
        // Not what was in force when the client's first packet came: a new certificate counts from now on.
        let Some(current) = serving.current() else {
            quinn.refuse();
            return Err(ConnectionError::Local);
        };
        let mut connecting = quinn.accept_with(current.one())?;
        if !current.early_data {
            return Ok(Connection::new(connecting.await?, local, None));
        }
        connecting.handshake_data().await?;
        drop(handshake);
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => Ok(Connection::new(connection, local, Some(accepted))),
            Err(connecting) => Ok(Connection::new(connecting.await?, local, None)),
        }
    }

    /// Tells the client that it may not connect.
    pub fn refuse(self) {
        self.quinn.refuse();
    }

    /// Asks the client to prove its address; one that did is refused.
    pub fn retry(self) {
        // What cannot be asked comes back and is refused as it is dropped.
        drop(self.quinn.retry());
    }
}
