//! The addresses that packets of one tunnel get on their way, where the tunnel assigned others than the device has.

use std::net::IpAddr;

use hermes_ip::Translation;
use serde::Serialize;

/// The translated addresses of one tunnel: at most one of each family. There is no state for flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Translations {
    v4: Option<Translation>,
    v6: Option<Translation>,
}

/// An address of a device, and its translation in the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TranslatedAddress {
    /// The address of the device.
    pub device: IpAddr,
    /// The address of the tunnel.
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

    /// The status of the translations.
    pub(super) fn addresses(self) -> impl Iterator<Item = TranslatedAddress> {
        let all = [self.v4, self.v6].into_iter().flatten();
        all.map(|one| TranslatedAddress {
            device: one.device,
            tunnel: one.tunnel,
        })
    }

    /// Translates a packet of the device. An invalid packet stays unchanged: it is not let through.
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
