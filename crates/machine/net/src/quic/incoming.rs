//! Connections that clients ask for.

use std::net::SocketAddr;
use std::sync::Arc;

use super::connection::{Connection, Unfinished};
use super::endpoint::Serving;
use super::error::ConnectionError;
use super::handshakes::Handshake;
use crate::peer::canonical;

/// A connection that a client asks for. Dropped, it is refused.
#[derive(Debug)]
pub struct Incoming {
    pub(super) quinn: quinn::Incoming,
    pub(super) serving: Arc<Serving>,
    pub(super) local: Option<SocketAddr>,
    pub(super) handshake: Handshake,
}

impl Incoming {
    /// Where the client is, or says it is: see [`Self::is_validated`].
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        canonical(self.quinn.remote_address())
    }

    /// True if the client has proved that it receives at its address.
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.quinn.remote_address_validated()
    }

    /// Runs the handshake. It has no time limit of its own. With early data the connection is there before its end, and before
    /// the client has proved its address: it counts among the unfinished until [`Connection::confirmed`] resolves for its holder.
    ///
    /// # Errors
    /// When the handshake fails. The client was told why.
    pub async fn accept(self) -> Result<Connection, ConnectionError> {
        let Self {
            quinn,
            serving,
            local,
            handshake,
        } = self;

        // Not the settings at the time of the client's first packet: a new certificate counts from
        // now on.
        let Some(current) = serving.current() else {
            quinn.refuse();
            return Err(ConnectionError::Local);
        };

        let mut connecting = quinn.accept_with(current.one())?;
        if !current.early_data {
            return Ok(Connection::new(connecting.await?, local, None));
        }

        connecting.handshake_data().await?;
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => {
                let unfinished = Unfinished {
                    accepted,
                    _counted: Some(handshake),
                };
                Ok(Connection::new(connection, local, Some(unfinished)))
            }
            Err(connecting) => Ok(Connection::new(connecting.await?, local, None)),
        }
    }

    /// Tells the client that it may not connect.
    pub fn refuse(self) {
        self.quinn.refuse();
    }

    /// Asks the client to prove its address; one that did is refused.
    pub fn retry(self) {
        // A connection that cannot be retried comes back, and is refused on drop.
        drop(self.quinn.retry());
    }
}
