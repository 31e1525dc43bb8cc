//! Which packets a tunnel was asked for (RFC 9484, section 4.6).

use std::net::IpAddr;

use hermes_proto::connect_ip::RouteAdvertisement;
use hermes_proto::ip::{ANY_PROTOCOL, ICMP, ICMPV6, IpPrefix, IpRange};
use hermes_proto::ip_template::{IpScope, IpTarget};

/// Numbers of extension headers, which the filter walks through to the scoped protocol: Hop-by-Hop,
/// Routing, Fragment, Destination Options, Mobility, HIP and Shim6.
const EXTENSION_HEADERS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

/// Which packets a tunnel is for, with names resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketScope {
    /// `None`: any.
    targets: Option<Vec<IpPrefix>>,
    protocol: Option<u8>,
}

/// Why no tunnel can have such a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The protocol is an extension header (RFC 9484, section 4.6 lets us refuse it).
    #[error("IP protocol {0} is an extension header, not a payload")]
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

    /// The scope of a request. `resolved` are the addresses of a target that is a name; they are
    /// ignored otherwise.
    ///
    /// # Errors
    /// [`ScopeError`].
    pub fn of(scope: &IpScope, resolved: &[IpAddr]) -> Result<Self, ScopeError> {
        // RFC 9484, 4.6: an extension header is not a protocol that a packet carries.
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

    /// The routes within the scope, for its protocol (RFC 9484, section 8: a tunnel for one flow
    /// learns of that flow alone). Empty if they would be too many for a capsule.
    pub fn narrow(&self, routes: &RouteAdvertisement) -> RouteAdvertisement {
        let ranges = routes
            .ranges()
            .iter()
            .filter_map(|range| self.of_protocol(range));
        let ranges: Vec<IpRange> = match &self.targets {
            None => ranges.collect(),
            Some(targets) => ranges
                .flat_map(|range| {
                    let target =
                        |target: &IpPrefix| range.shared(&IpRange::of(*target, ANY_PROTOCOL));
                    targets.iter().filter_map(target).collect::<Vec<_>>()
                })
                .collect(),
        };
        RouteAdvertisement::of(ranges).unwrap_or_default()
    }

    /// A range for the protocol of both, if there is one.
    fn of_protocol(&self, range: &IpRange) -> Option<IpRange> {
        match self.protocol {
            Some(only) if range.protocol() == ANY_PROTOCOL => {
                IpRange::new(range.start(), range.end(), only).ok()
            }
            Some(only) if range.protocol() != only => None,
            _ => Some(*range),
        }
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

#[cfg(test)]
mod tests {
    use hermes_proto::ip::UDP;

    use super::*;

    /// As `first-last/protocol`.
    fn told(scope: &PacketScope, prefixes: &[&str]) -> Vec<String> {
        let whole = |prefix: &&str| IpRange::of(prefix.parse().unwrap(), ANY_PROTOCOL);
        let routes = RouteAdvertisement::of(prefixes.iter().map(whole).collect()).unwrap();
        let narrow = scope.narrow(&routes);
        let text =
            |range: &IpRange| format!("{}-{}/{}", range.start(), range.end(), range.protocol());
        narrow.ranges().iter().map(text).collect()
    }

    #[test]
    fn a_tunnel_is_told_of_the_routes_that_it_is_for() {
        let routes = ["10.0.2.0/24", "10.7.0.0/24", "fd07::/64"];
        let any = PacketScope::any();
        assert_eq!(told(&any, &routes).len(), 3);

        let name = IpScope {
            target: IpTarget::Name("server.example".into()),
            protocol: Some(UDP),
        };
        let resolved = ["10.0.2.2", "192.0.2.1", "fd07::9"].map(|text| text.parse().unwrap());
        let name = PacketScope::of(&name, &resolved).unwrap();
        assert_eq!(
            told(&name, &routes),
            ["10.0.2.2-10.0.2.2/17", "fd07::9-fd07::9/17"]
        );

        let wide = IpScope {
            target: IpTarget::Prefix {
                address: [10, 0, 0, 0].into(),
                length: 8,
            },
            protocol: None,
        };
        let wide = PacketScope::of(&wide, &[]).unwrap();
        assert_eq!(
            told(&wide, &routes),
            ["10.0.2.0-10.0.2.255/0", "10.7.0.0-10.7.0.255/0"]
        );
    }
}
