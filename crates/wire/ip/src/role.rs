//! The two ends of a tunnel.

/// Which end of the tunnel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpRole {
    /// Sends the request.
    Client,
    /// Answers the request.
    Proxy,
}
