//! Capture of the traffic of this machine, or of machines that it is the router of.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{FlowProtocol, OneOrMany, Prefixes, ProtocolPort, one_or_many};
use super::tun::TunSenders;

/// The traffic of a machine that a listener captures, each connection and datagram for its original destination.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCapture {
    /// Interfaces by which the traffic of other machines comes to this one, which is their router. Traffic to this machine itself is
    /// not captured.
    #[serde(default)]
    pub interfaces: OneOrMany<String>,
    /// Local senders whose traffic is captured. This node's own is not, and neither are answers to clients from elsewhere.
    #[serde(default)]
    pub only: Option<TunSenders>,
    /// Destinations that are not captured. Link-local addresses and groups never are.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub exclude: Vec<IpNet>,
    /// Whether `tcp` or `udp` is captured. Default: both.
    #[serde(default)]
    pub protocols: Option<OneOrMany<FlowProtocol>>,
    /// Ports that are refused, such as `udp/443`: datagrams by ICMP, connections by a reset. Browsers that find no HTTP/3 use TCP.
    #[serde(default)]
    pub refuse: OneOrMany<ProtocolPort>,
    /// Split connections as if there were no node between: the beginning of each is held until the target has answered, so that a
    /// client sees as it would without the node that it is refused, unreachable, forbidden, or gets no answer. Default: false, which
    /// accepts clients first.
    #[serde(default)]
    pub split: bool,
    /// The means of the kernel. Default: TPROXY, and REDIRECT where the kernel lacks that.
    #[serde(default)]
    pub mode: Option<CaptureMode>,
    /// The congestion control of connections on the clients' side. Default: that of the machine.
    #[serde(default)]
    pub congestion: Option<CaptureCongestion>,
    /// The traffic's fate when this node dies. Default: `open`.
    #[serde(default)]
    pub fail: CaptureFailure,
}

/// The means of the kernel by which traffic is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaptureMode {
    /// Connections and datagrams are taken as they are.
    Tproxy,
    /// Connections, and no datagrams, are translated to a port of this machine.
    Redirect,
}

/// The fate of captured traffic when the node dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaptureFailure {
    /// It goes its ordinary way, as if there had been no node.
    #[default]
    Open,
    /// It is dropped until a node captures it again; an orderly stop lets it go. It takes Linux 6.9.
    Closed,
}

/// A congestion control of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaptureCongestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, which looks at the rate of delivery rather than at losses.
    Bbr,
    /// Reno (RFC 5681).
    Reno,
}

impl CaptureCongestion {
    /// Its name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Reno => "reno",
        }
    }
}

impl HostCapture {
    /// Whether this protocol is captured.
    pub fn takes(&self, protocol: FlowProtocol) -> bool {
        let given = self.protocols.as_ref();
        given.is_none_or(|given| given.contains(&protocol))
    }
}
