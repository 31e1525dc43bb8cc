//! The addresses of clients, hops and server.

/// The networks of all of it.
pub(super) const NETWORKS: &str = "10.80.0.0/16";
pub(super) const FIRST_HOP_FAR: &str = "10.80.1.1";
/// The second hop, as the first one reaches it.
pub(super) const SECOND_HOP: &str = "10.80.1.2";
pub(super) const SECOND_HOP_FAR: &str = "10.80.2.1";
pub(super) const SERVER: &str = "10.80.2.2";

/// The network of a client's link.
pub(super) fn network(client: u8) -> String {
    format!("10.80.{}.0/24", 10 + client)
}

/// The first hop, as this client reaches it.
pub(super) fn hop_address(client: u8) -> String {
    format!("10.80.{}.1", 10 + client)
}

pub(super) fn client_address(client: u8) -> String {
    format!("10.80.{}.2", 10 + client)
}
