//! The status of an upstream.

use std::net::SocketAddr;

use serde::Serialize;

/// An upstream at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// HTTP versions, the preferred one first.
    pub http: Vec<u8>,
    /// Whether its endpoints speak TLS.
    pub tls: bool,
    /// The congestion control of its connections; absent where that is the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<&'static str>,
    /// The upstream through which it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Instead of endpoints: the name under which the nodes are attached that it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached: Option<String>,
    /// Its endpoints.
    pub endpoints: Vec<EndpointStatus>,
    /// Whether so few endpoints are healthy that all are used.
    pub panics: bool,
    /// Exchanges that wait for room under its limits.
    pub waiting: usize,
    /// Exchanges and connections that its limits refused since the start.
    pub refused: u64,
}

/// An endpoint at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct EndpointStatus {
    /// The address as it is configured.
    pub address: String,
    /// Its share of the exchanges.
    pub weight: u16,
    /// Where it stands, if that is configured.
    pub zone: Option<String>,
    /// `healthy`, `failing` (half of the last attempts failed, or all of the latest; it is used all the same), `unhealthy` (checks
    /// fail) or `ejected` (exchanges failed).
    pub health: &'static str,
    /// Why it is not healthy, or which of the last attempts failed.
    pub reason: Option<String>,
    /// The addresses of its name.
    pub addresses: Vec<SocketAddr>,
    /// Exchanges that it is serving.
    pub active: usize,
    /// Failures since the start.
    pub failures: u64,
    /// Why it failed, unless it succeeded since.
    pub last_error: Option<String>,
    /// The HTTP version that new exchanges use now; `None` before the first connection.
    pub http: Option<u8>,
    /// Since when it is that one (RFC 3339).
    pub http_since: Option<String>,
    /// Why it is that one.
    pub http_because: Option<String>,
    /// Milliseconds of a round trip to it: over HTTP/3 as it is now, over TCP as the kernel measured it when it was connected to last.
    pub round_trip_ms: Option<f64>,
    /// Whether HTTP/3 reaches it, and why not; only where the upstream speaks that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3: Option<String>,
    /// Seconds until HTTP/3 is tried again beside the version in use; only where it is left out for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3_again_in_seconds: Option<u64>,
}
