//! Serving a connection: the alternation of silence and exchanges.

mod h1;
mod h2;
pub mod h3;
mod idle_connection;
pub(crate) mod options;
mod version;

use hermes_net::{Stream, Watch};

pub use idle_connection::IdleConnection;
pub use options::{Handler, Options};

/// Serves one connection until it ends, is drained, or is forced to stop.
pub async fn serve<H: Handler>(stream: Stream, options: &Options, handler: H, watch: &Watch) {
    let mut client = IdleConnection::new(stream);
    while client.spoken(client.time(options), watch).await {
        // Boxed: between exchanges, which is most of the time, a connection has no room for them.
        let Some(silent) = Box::pin(client.serve(options, handler.clone(), watch)).await else {
            return;
        };
        client = silent;
    }
}
