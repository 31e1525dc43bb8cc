//! The addresses that packets of one tunnel get on their way, where the tunnel assigned others than the device has.

use std::net::IpAddr;

use hermes_ip::Translation;
use serde::Serialize;

/// What is translated in one tunnel: at most one address of each family. It knows nothing of flows, so it holds nothing for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Translations {
    v4: Option<Translation>,
    v6: Option<Translation>,
}

/// An address of a device, and what it is in the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TranslatedAddress {
    /// That of the device.
    pub device: IpAddr,
    /// That of the tunnel.
    pub tunnel: IpAddr,
}

impl Translations {
    pub(super) fn of(translations: &[Translation]) -> Self {
        let first = |is_ipv4| {
            let mut family = translations
                .iter()
                .filter(|one| one.device.is_ipv4() == is_ipv4);
            family.next().copied()
        };
        Self {
            v4: first(true),
            v6: first(false),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    /// What is to be seen of them.
    pub(super) fn addresses(self) -> impl Iterator<Item = TranslatedAddress> {
        let all = [self.v4, self.v6].into_iter().flatten();
        all.map(|one| TranslatedAddress {
            device: one.device,
            tunnel: one.tunnel,
        })
    }

    /// Translates a packet that the device gave. What is no packet stays: it is not let through.
    pub(super) fn leave(&self, packet: &mut [u8], is_complete: bool) {
        if let Some(translation) = self.of_packet(packet) {
            let _ = translation.to_peer(packet, is_complete);
        }
    }

    /// Translates a packet that the device gets.
    pub(super) fn arrive(&self, packet: &mut [u8], is_complete: bool) {
        if let Some(translation) = self.of_packet(packet) {
            let _ = translation.from_peer(packet, is_complete);
        }
    }

    /// A packet as the device gets it, in `room` where it is translated.
    pub(super) fn arrived<'a>(
        &self,
        packet: &'a [u8],
        is_complete: bool,
        room: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        if self.is_empty() {
            return packet;
        }
        room.clear();
        room.extend_from_slice(packet);
        self.arrive(room, is_complete);
        room
    }

    fn of_packet(&self, packet: &[u8]) -> Option<Translation> {
        match packet.first()? >> 4 {
            4 => self.v4,
            _ => self.v6,
        }
    }
}
