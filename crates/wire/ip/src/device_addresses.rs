//! The addresses of a device that several tunnels share: one of each family.

use std::net::IpAddr;

use hermes_proto::connect_ip::RequestedAddress;
use hermes_proto::ip::{
    AddressField, IpPrefix, Packet, PacketError, rewrite_address, rewrite_quoted,
};

/// The treatment of an address that a tunnel assigns and the device does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherAddress {
    /// The tunnel is not used for that family.
    #[default]
    Refuse,
    /// Packets get the address of the tunnel on their way, one for one.
    Translate,
}

/// The addresses of a device. The configuration gives them, or the first tunnel; from the others the same are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceAddresses {
    v4: Option<IpPrefix>,
    v6: Option<IpPrefix>,
    other: OtherAddress,
}

/// The consequences of a tunnel's addresses for the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adoption {
    /// New addresses of a family that the device had no address of.
    pub new: Vec<IpPrefix>,
    /// These are not used, as the device has others.
    pub refused: Vec<IpPrefix>,
    /// Packets of this tunnel are translated so.
    pub translations: Vec<Translation>,
}

impl DeviceAddresses {
    /// With the addresses of the configuration, the first of each family.
    pub fn new(configured: &[IpPrefix], other: OtherAddress) -> Self {
        let first = |is_ipv4| {
            let mut family = configured.iter().filter(|one| one.is_ipv4() == is_ipv4);
            family.next().copied()
        };
        Self {
            v4: first(true),
            v6: first(false),
            other,
        }
    }

    /// The addresses to request of a tunnel: those of the device, or any address of a wanted family
    /// that it has no address of.
    pub fn wishes(&self, wants_v4: bool, wants_v6: bool) -> Vec<IpPrefix> {
        // RFC 9484, 4.7.2: a wish for any address of a family is all zeros.
        let any = |is_ipv4| RequestedAddress::any(1, is_ipv4).prefix;
        let v4 = wants_v4.then(|| self.v4.unwrap_or(any(true)));
        let v6 = wants_v6.then(|| self.v6.unwrap_or(any(false)));
        [v4, v6].into_iter().flatten().collect()
    }

    /// Takes the addresses that a tunnel assigned.
    pub fn adopt(&mut self, assigned: &[IpPrefix]) -> Adoption {
        let mut adoption = Adoption::default();
        for is_ipv4 in [true, false] {
            let family: Vec<_> = assigned
                .iter()
                .filter(|one| one.is_ipv4() == is_ipv4)
                .copied()
                .collect();
            self.adopt_family(is_ipv4, &family, &mut adoption);
        }
        adoption
    }

    fn adopt_family(&mut self, is_ipv4: bool, assigned: &[IpPrefix], adoption: &mut Adoption) {
        let Some(first) = assigned.first() else {
            return;
        };
        let own = match is_ipv4 {
            true => &mut self.v4,
            false => &mut self.v6,
        };
        let Some(own) = *own else {
            *own = Some(*first);
            adoption.new.push(*first);
            return;
        };
        // Programs have connections from the first address: it stays, and later tunnels are to assign the same.
        if assigned.iter().any(|one| one.covers(&own)) {
            return;
        }

        match self.other {
            OtherAddress::Refuse => adoption.refused.extend(assigned),
            OtherAddress::Translate => adoption.translations.push(Translation {
                device: own.address(),
                tunnel: first.address(),
            }),
        }
    }

    /// The address of a family.
    pub fn address(&self, is_ipv4: bool) -> Option<IpPrefix> {
        if is_ipv4 { self.v4 } else { self.v6 }
    }
}

/// One address for another, in all packets of a tunnel. The [filter](crate::PacketFilter) of the tunnel knows the address of the tunnel:
/// packets are translated before they are judged on their way in, and after that on their way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// The address of the device.
    pub device: IpAddr,
    /// The address of the tunnel.
    pub tunnel: IpAddr,
}

impl Translation {
    /// Translates a packet that goes into the tunnel, where it has the address of the device. `is_complete`: the checksum of its
    /// transport is.
    ///
    /// # Errors
    /// [`PacketError`], with nothing changed.
    pub fn to_peer(&self, packet: &mut [u8], is_complete: bool) -> Result<bool, PacketError> {
        let source = Packet::parse(packet)?.source();
        // Packets of networks behind the device have addresses of their own, which pass as they are.
        if source != self.device {
            return Ok(false);
        }
        // An error about a packet to the device must quote it as a packet to the address of the
        // tunnel.
        let field = AddressField::Destination;
        rewrite_quoted(packet, field, self.device, self.tunnel)?;
        rewrite_address(packet, AddressField::Source, self.tunnel, is_complete)?;
        Ok(true)
    }

    /// Translates a packet that comes out of the tunnel, where it has the address of the tunnel.
    ///
    /// # Errors
    /// [`PacketError`], with nothing changed.
    pub fn from_peer(&self, packet: &mut [u8], is_complete: bool) -> Result<bool, PacketError> {
        let destination = Packet::parse(packet)?.destination();
        if destination != self.tunnel {
            return Ok(false);
        }
        rewrite_quoted(packet, AddressField::Source, self.tunnel, self.device)?;
        rewrite_address(packet, AddressField::Destination, self.device, is_complete)?;
        Ok(true)
    }
}
