//! Bytes that open a connection (TCP Fast Open, RFC 7413).

use bytes::{Buf, Bytes};
use hermes_net::{Stream, Transport, connect};
use parking_lot::Mutex;

use crate::failure::ConnectFailure;

/// Bytes of a tunnel that may reach its target with the packet that opens the connection (TCP Fast Open).
#[derive(Debug)]
pub struct FirstBytes(Mutex<Bytes>);

impl FirstBytes {
    /// These, of which none has left.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self(Mutex::new(bytes))
    }

    /// Those that have not left.
    #[must_use]
    pub fn rest(&self) -> Bytes {
        self.0.lock().clone()
    }

    /// Opens a connection with them.
    ///
    /// # Errors
    /// There is no connection.
    pub(crate) async fn open(
        &self,
        stream: &mut Stream,
        endpoint: &str,
    ) -> Result<(), ConnectFailure> {
        let Transport::Tcp(tcp) = stream.transport() else {
            return Ok(());
        };
        let bytes = self.rest();
        let opened = connect::open_with(tcp, &bytes).await;
        let taken = opened.map_err(|error| ConnectFailure::connect(endpoint, &error))?;
        // Of an attempt that has failed, all are sent again by the next.
        self.0.lock().advance(taken);
        Ok(())
    }
}
