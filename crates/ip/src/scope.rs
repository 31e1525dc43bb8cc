//! Which packets a tunnel was asked for (RFC 9484, section 4.6).

use std::net::IpAddr;

use hermes_proto::ip::{ICMP, ICMPV6, IpPrefix};
use hermes_proto::ip_template::{IpScope, IpTarget};

/// Numbers of extension headers, which are walked and carry what is scoped: Hop-by-Hop, Routing, Fragment, Destination Options,
/// Mobility, HIP and Shim6.
const EXTENSION_HEADERS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

/// Which packets a tunnel is for, with names resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketScope {
    /// None: any.
    targets: Option<Vec<IpPrefix>>,
    protocol: Option<u8>,
}

/// Why no tunnel can have such a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The protocol is an extension header (RFC 9484, section 4.6 lets us refuse it).
    #[error("IP protocol {0} is an extension header, not what a packet carries")]
    ExtensionHeader(u8),
    /// A name has no addresses.
    #[error("{0} has no address")]
    NoAddress(String),
}

impl PacketScope {
    /// Any packets.
    pub fn any() -> Self {
        Self::default()
    }

    /// What a request asks for. `resolved` are the addresses of the target where that is a name; they are not looked at otherwise.
    ///
    /// # Errors
    /// [`ScopeError`].
    pub fn of(scope: &IpScope, resolved: &[IpAddr]) -> Result<Self, ScopeError> {
        if let Some(protocol) = scope.protocol
            && EXTENSION_HEADERS.contains(&protocol)
        {
            return Err(ScopeError::ExtensionHeader(protocol));
        }

        let targets = match &scope.target {
            IpTarget::Any => None,
            IpTarget::Name(name) if resolved.is_empty() => {
                return Err(ScopeError::NoAddress(name.clone()));
            }
            IpTarget::Name(_) => Some(resolved.iter().copied().map(IpPrefix::host).collect()),
            IpTarget::Prefix { address, length } => {
                // Its form was checked where it was read.
                IpPrefix::around(*address, *length)
                    .ok()
                    .map(|prefix| vec![prefix])
            }
        };
        Ok(Self {
            targets,
            protocol: scope.protocol,
        })
    }

    /// The targets; `None` for any.
    pub fn targets(&self) -> Option<&[IpPrefix]> {
        self.targets.as_deref()
    }

    /// The IP protocol; `None` for any.
    pub fn protocol(&self) -> Option<u8> {
        self.protocol
    }

    /// Whether a packet of the client to `target` is meant.
    pub fn takes_to(&self, target: IpAddr, protocol: u8) -> bool {
        self.takes_protocol(protocol) && self.takes_target(target)
    }

    /// Whether a packet to the client from `target` is meant. Errors may come from any router on the way (RFC 9484, section 8).
    pub fn takes_from(&self, target: IpAddr, protocol: u8) -> bool {
        is_icmp(protocol) || (self.takes_protocol(protocol) && self.takes_target(target))
    }

    fn takes_protocol(&self, protocol: u8) -> bool {
        self.protocol
            .is_none_or(|only| only == protocol || is_icmp(protocol))
    }

    fn takes_target(&self, target: IpAddr) -> bool {
        self.targets
            .as_ref()
            .is_none_or(|targets| targets.iter().any(|prefix| prefix.contains(target)))
    }
}

fn is_icmp(protocol: u8) -> bool {
    protocol == ICMP || protocol == ICMPV6
}
