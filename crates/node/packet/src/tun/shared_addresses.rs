//! The addresses of a device that several tunnels share: the first tunnel assigns them, and the others are asked for the same.

use std::collections::{HashMap, HashSet};

use hermes_ip::{Adoption, DeviceAddresses, OtherAddress};
use hermes_proto::ip::IpPrefix;
use parking_lot::Mutex;

use super::assignment::Assignment;
use super::wanted_addresses::{MOST_REQUESTS, OtherAssigned};

/// The addresses that all tunnels of a device have.
#[derive(Debug)]
pub(super) struct SharedAddresses {
    state: Mutex<SharedState>,
}

#[derive(Debug, Default)]
struct SharedState {
    addresses: DeviceAddresses,
    is_configured: bool,
    /// The tunnels that have them.
    holders: HashSet<u64>,
    /// Tunnels that were asked for these addresses after they had assigned others, and how often.
    asked: HashMap<u64, u8>,
}

/// The decision when one of the tunnels assigns addresses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AddressDecision {
    /// The tunnel assigned the addresses of the device: nothing to do.
    Agreed,
    /// Ask for these, which the device has.
    Request(Vec<IpPrefix>),
    /// Packets are translated in this tunnel; the device gets the addresses of a new family.
    Translate(Adoption),
    /// The device gets these, in place of those that a tunnel gave it.
    Adopt(Vec<IpPrefix>),
    /// End the tunnel; why.
    Refuse(String),
}

impl SharedAddresses {
    /// Begins with the configured addresses; `other` says how to handle different ones that a tunnel assigns.
    pub(super) fn new(configured: &[IpPrefix], other: OtherAssigned) -> Self {
        let other = match other {
            OtherAssigned::Translate => OtherAddress::Translate,
            OtherAssigned::Adopt | OtherAssigned::Refuse => OtherAddress::Refuse,
        };
        let state = SharedState {
            addresses: DeviceAddresses::new(configured, other),
            is_configured: !configured.is_empty(),
            ..SharedState::default()
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// The addresses to request of a new tunnel.
    pub(super) fn held(&self) -> Vec<IpPrefix> {
        self.state.lock().held()
    }

    /// Decides about an assignment to one of the tunnels.
    pub(super) fn handle_assigned(
        &self,
        tunnel: u64,
        assignment: Assignment<'_>,
    ) -> AddressDecision {
        self.state.lock().handle(tunnel, assignment)
    }

    /// A tunnel has ended. The device keeps its addresses for the next one.
    pub(super) fn leave(&self, tunnel: u64) {
        let mut state = self.state.lock();
        state.holders.remove(&tunnel);
        state.asked.remove(&tunnel);
    }
}

impl SharedState {
    fn held(&self) -> Vec<IpPrefix> {
        let families = [true, false];
        families
            .into_iter()
            .filter_map(|is_ipv4| self.addresses.address(is_ipv4))
            .collect()
    }

    fn handle(&mut self, tunnel: u64, assignment: Assignment<'_>) -> AddressDecision {
        let Assignment {
            usable: assigned,
            is_answer,
            has_refused,
            ..
        } = assignment;
        if assigned.is_empty() {
            return match has_refused {
                true => self.refuse(tunnel, "no address"),
                false => AddressDecision::Agreed,
            };
        }

        // On a copy: most outcomes below leave the addresses of the device as they are.
        let mut addresses = self.addresses.clone();
        let mut adoption = addresses.adopt(assigned);
        let is_other = !adoption.refused.is_empty() || !adoption.translations.is_empty();
        let asked = self.asked.entry(tunnel).or_default();
        let is_decided = is_answer && *asked > 0 || *asked >= MOST_REQUESTS;
        if is_other && !is_decided {
            *asked += 1;
            return AddressDecision::Request(self.held());
        }

        let refused = std::mem::take(&mut adoption.refused);
        if refused.is_empty() && is_other {
            let is_new = !adoption.new.is_empty();
            self.addresses = addresses;
            self.asked.remove(&tunnel);
            self.holders.remove(&tunnel);
            adoption.new = if is_new { self.held() } else { Vec::new() };
            return AddressDecision::Translate(adoption);
        }
        if refused.is_empty() {
            let new = adoption.new;
            self.addresses = addresses;
            self.asked.remove(&tunnel);
            self.holders.insert(tunnel);
            return match new.is_empty() {
                true => AddressDecision::Agreed,
                false => AddressDecision::Adopt(self.held()),
            };
        }

        let is_alone = self.holders.iter().all(|holder| *holder == tunnel);
        if self.is_configured || !is_alone {
            let other: Vec<String> = refused.iter().map(ToString::to_string).collect();
            return self.refuse(tunnel, &other.join(", "));
        }

        // No tunnel has the device's previous addresses.
        self.addresses = DeviceAddresses::default();
        self.addresses.adopt(assigned);
        self.asked.remove(&tunnel);
        self.holders = HashSet::from([tunnel]);
        AddressDecision::Adopt(self.held())
    }

    fn refuse(&mut self, tunnel: u64, assigned: &str) -> AddressDecision {
        self.asked.remove(&tunnel);
        self.holders.remove(&tunnel);
        let held: Vec<String> = self.held().iter().map(ToString::to_string).collect();
        let held = held.join(", ");
        AddressDecision::Refuse(format!(
            "the tunnel was assigned {assigned}, and the device has {held}, which was asked for: its tunnels share one address"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(texts: &[&str]) -> Vec<IpPrefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// The answer, where there was a request.
    fn answered(
        shared: &SharedAddresses,
        tunnel: u64,
        assigned: &[IpPrefix],
        has_refused: bool,
    ) -> AddressDecision {
        let assignment = Assignment {
            has_refused,
            ..Assignment::unasked(assigned).answer()
        };
        shared.handle_assigned(tunnel, assignment)
    }

    #[test]
    fn the_first_tunnel_gives_the_address_and_one_with_another_is_refused() {
        let [own, other] = [&["10.7.0.3/32"], &["10.9.0.3/32"]].map(|one| prefixes(one));
        let shared = SharedAddresses::new(&[], OtherAssigned::Refuse);
        assert!(shared.held().is_empty());
        assert_eq!(
            answered(&shared, 1, &own, false),
            AddressDecision::Adopt(own.clone())
        );
        assert_eq!(shared.held(), own);

        let request = AddressDecision::Request(own.clone());
        assert_eq!(answered(&shared, 2, &other, false), request);
        assert_eq!(answered(&shared, 2, &own, false), AddressDecision::Agreed);

        assert_eq!(answered(&shared, 3, &other, false), request);
        let AddressDecision::Refuse(reason) = answered(&shared, 3, &other, false) else {
            panic!("it shares no address");
        };
        assert!(
            reason.contains("10.9.0.3") && reason.contains("10.7.0.3"),
            "{reason}"
        );
        assert!(matches!(
            answered(&shared, 3, &[], true),
            AddressDecision::Refuse(_)
        ));
    }

    #[test]
    fn a_device_changes_its_address_where_no_other_tunnel_has_it() {
        let [own, other] = [&["10.7.0.3/32"], &["10.9.0.3/32"]].map(|one| prefixes(one));
        let shared = SharedAddresses::new(&[], OtherAssigned::Refuse);
        answered(&shared, 1, &own, false);
        shared.leave(1);
        assert_eq!(
            answered(&shared, 2, &other, false),
            AddressDecision::Request(own)
        );
        assert_eq!(
            answered(&shared, 2, &other, false),
            AddressDecision::Adopt(other)
        );
    }

    #[test]
    fn what_the_configuration_says_stays_and_another_family_is_added() {
        let own = prefixes(&["10.7.0.3/32"]);
        let both = prefixes(&["10.7.0.3/32", "fd07::3/128"]);
        let shared = SharedAddresses::new(&own, OtherAssigned::Refuse);
        assert_eq!(
            answered(&shared, 1, &both, false),
            AddressDecision::Adopt(both.clone())
        );
        let other = prefixes(&["10.9.0.3/32"]);
        assert_eq!(
            answered(&shared, 1, &other, false),
            AddressDecision::Request(both)
        );
        assert!(matches!(
            answered(&shared, 1, &other, false),
            AddressDecision::Refuse(_)
        ));
    }

    #[test]
    fn a_tunnel_with_another_address_is_translated_where_it_may_be() {
        let own = prefixes(&["10.7.0.3/32"]);
        let other = prefixes(&["10.9.0.3/32"]);
        let shared = SharedAddresses::new(&own, OtherAssigned::Translate);
        assert_eq!(answered(&shared, 1, &own, false), AddressDecision::Agreed);

        let request = AddressDecision::Request(own.clone());
        let translated = AddressDecision::Translate(Adoption {
            translations: vec![hermes_ip::Translation {
                device: own[0].address(),
                tunnel: other[0].address(),
            }],
            ..Adoption::default()
        });
        // Each time that it assigns another one it is asked again, once.
        for _ in 0..2 {
            assert_eq!(answered(&shared, 2, &other, false), request);
            assert_eq!(answered(&shared, 2, &other, false), translated);
        }
        assert_eq!(answered(&shared, 2, &own, false), AddressDecision::Agreed);
    }
}
