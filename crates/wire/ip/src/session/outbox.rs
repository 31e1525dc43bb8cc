//! Capsules that have yet to be sent: at most one of each type, except that refusals may need several.

use hermes_proto::connect_ip::{
    AddressAssign, AddressRequest, AssignedAddress, IpCapsule, MAX_ADDRESSES, RequestedAddress,
    RouteAdvertisement,
};

#[derive(Debug, Default)]
pub(super) struct Outbox {
    requests: Vec<RequestedAddress>,
    /// Whether the assignments have changed.
    assigned: bool,
    /// Said once, and not again (RFC 9484, section 4.7.2).
    refusals: Vec<AssignedAddress>,
    /// Whether the routes have changed.
    routed: bool,
}

impl Outbox {
    pub(super) fn assign(&mut self, refusals: Vec<AssignedAddress>) {
        self.assigned = true;
        self.refusals.extend(refusals);
    }

    /// Refusals that are still to be sent.
    pub(super) fn refusals(&self) -> usize {
        self.refusals.len()
    }

    pub(super) fn advertise(&mut self) {
        self.routed = true;
    }

    pub(super) fn request(&mut self, requests: &[RequestedAddress]) {
        self.requests.extend(requests);
    }

    /// The next capsule, from the current assignments and routes.
    pub(super) fn poll(
        &mut self,
        assigned: &[AssignedAddress],
        routes: &RouteAdvertisement,
    ) -> Option<IpCapsule> {
        if !self.requests.is_empty() {
            let count = self.requests.len().min(MAX_ADDRESSES);
            let requests = self.requests.drain(..count).collect();
            // We gave the IDs ourselves: it is never malformed.
            return AddressRequest::new(requests).ok().map(IpCapsule::Request);
        }

        if std::mem::take(&mut self.assigned) {
            // RFC 9484, 4.7.1: each ADDRESS_ASSIGN replaces the one before, so every one has all addresses, and refusals fill the rest.
            let room = MAX_ADDRESSES.saturating_sub(assigned.len());
            let count = self.refusals.len().min(room);
            let mut addresses = assigned.to_vec();
            addresses.extend(self.refusals.drain(..count));
            // The rest of the refusals goes in a further capsule, which repeats the addresses.
            self.assigned = !self.refusals.is_empty();
            return Some(IpCapsule::Assign(AddressAssign { addresses }));
        }

        std::mem::take(&mut self.routed).then(|| IpCapsule::Routes(routes.clone()))
    }
}
