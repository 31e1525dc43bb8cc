//! The addresses that a request may choose.

use std::net::SocketAddr;

use hermes_config::model::Egress;
use hermes_net::LocalAddresses;
use hermes_rules::{Denied, EgressRules};

/// The rules on addresses that a request chooses, and the addresses of this machine.
pub(super) struct AddressRules {
    egress: EgressRules,
    /// As they are at any moment: an address that the machine gets later is its own, too.
    local: LocalAddresses,
}

impl AddressRules {
    /// `own` are the addresses at which the process listens.
    pub(super) fn new(egress: &Egress, own: &[SocketAddr], local: LocalAddresses) -> Self {
        Self {
            egress: EgressRules::compile(egress, own),
            local,
        }
    }

    /// # Errors
    /// With the rule that denies it.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), Denied> {
        self.egress.check(address, |ip| self.local.contains(ip))
    }
}
