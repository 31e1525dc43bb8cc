//! The parts of a tree that a document depends on.
//!
//! A document says what it has [read](Read) while it is made. A change says the same of itself: [`touched`] has a branch for each kind of
//! resource, and a new kind has to have its own. A document that has read nothing that a change touches stays as it is, unless something
//! that changed leads through its node from now on (see [`Compiler::touched`](super::Compiler::touched)).

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;

use crate::resources::{Key, Kind, NodeSpec, Resource, ServiceSpec, Spec, Tree};

/// A part of a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// One resource, whether it is there or not.
    Resource(Key),
    /// Every resource of a kind.
    Every(Kind),
    /// The proxies and the links between them: who may send to whom, but not at which address.
    Terrain,
    /// The domain of certificates.
    TrustDomain,
    /// The nodes of a service with their weights, and whether they answer themselves, but not the addresses of its servers.
    Ends(Key),
    /// All names of a tenant.
    NamesOf(Name),
    /// The policies that every node asks.
    Policies,
    /// The policies that are for some nodes, this one among them.
    PoliciesAt(Name),
}

/// The parts that a document was made of. A change of others leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads(BTreeSet<Read>);

impl Reads {
    /// Whether the document may differ after a change of these parts.
    pub fn any_of(&self, touched: &BTreeSet<Read>) -> bool {
        touched.iter().any(|read| self.0.contains(read))
    }

    pub(super) fn add(&mut self, read: Read) {
        self.0.insert(read);
    }

    pub(super) fn resource(&mut self, key: &Key) {
        self.add(Read::Resource(key.clone()));
    }

    /// A name or route, and the ends of its service.
    pub(super) fn way(&mut self, key: &Key, service: &Name) {
        self.resource(key);
        self.add(Read::Ends(key.sibling(Kind::Service, service)));
    }
}

/// Adds the parts that a change of one resource touches: from `before` to `after`, of which one may be missing.
pub(super) fn touched(
    before: Option<&Resource>,
    after: Option<&Resource>,
    touched: &mut BTreeSet<Read>,
) {
    let Some(key) = before.or(after).map(Resource::key) else {
        return;
    };
    touched.insert(Read::Resource(key.clone()));
    let specs = [before, after].map(|resource| resource.map(Resource::spec));
    match key.kind {
        Kind::Overlay => touched.extend(differs(specs, trust_domain).then_some(Read::TrustDomain)),
        Kind::Node => touched.extend(differs(specs, terrain).then_some(Read::Terrain)),
        Kind::Link => drop(touched.insert(Read::Terrain)),
        Kind::Service => {
            touched.extend(differs(specs, ends).then(|| Read::Ends(key.clone())));
        }
        Kind::Name => drop(touched.insert(Read::NamesOf(key.tenant.clone()))),
        Kind::Policy => specs
            .into_iter()
            .flatten()
            .for_each(|spec| asked_at(spec, touched)),
        Kind::User | Kind::Tenant => drop(touched.insert(Read::Every(key.kind))),
        // Each proxy asks whether another overlay's users come to it.
        Kind::Peering => drop(touched.insert(Read::Every(key.kind))),
        // No document is made of a Placement.
        Kind::Placement => {}
        // Documents that they do not lead through yet have not read them, and are found by the ways.
        Kind::Route | Kind::Slice => {}
        // A document that names them has read them.
        Kind::Group => drop(touched.insert(Read::Every(key.kind))),
        Kind::Secret => {}
    }
}

/// Whether a change of these resources decides about no exchange otherwise: all that moves are the servers of services and the addresses
/// of nodes, at the ends of the same ways.
pub fn only_moves(before: &Tree, after: &Tree, changed: &[&Key]) -> bool {
    let mut parts = BTreeSet::new();
    for key in changed {
        touched(before.resource(key), after.resource(key), &mut parts);
    }
    let is_moved = |read: &Read| matches!(read, Read::Resource(key) if matches!(key.kind, Kind::Service | Kind::Node));
    parts.iter().all(is_moved)
}

/// Whether a part of a spec is another one after a change.
fn differs<'s, T: PartialEq>(
    specs: [Option<&'s Spec>; 2],
    part: fn(&'s Spec) -> Option<T>,
) -> bool {
    let [before, after] = specs.map(|spec| spec.and_then(part));
    before != after
}

fn trust_domain(spec: &Spec) -> Option<&str> {
    match spec {
        Spec::Overlay(overlay) => overlay.trust_domain.as_deref(),
        _ => None,
    }
}

/// The properties of a proxy that ways depend on.
fn terrain(spec: &Spec) -> Option<impl PartialEq + use<'_>> {
    let Spec::Node(node) = spec else {
        return None;
    };
    let NodeSpec {
        listen,
        reach,
        attach,
        tenants,
        ..
    } = &**node;
    let is_reachable = listen.is_some() && !reach.is_empty();
    let enters = [node.ingress, node.is_entry()];
    // Devices are not on any way.
    (!node.is_device()).then_some((listen.is_some(), is_reachable, enters, attach, tenants))
}

fn ends(spec: &Spec) -> Option<(BTreeMap<&Name, u32>, bool)> {
    match spec {
        Spec::Service(service) => Some((weights(service), service.handle.is_some())),
        _ => None,
    }
}

/// The nodes of a service, each with the weight of its servers.
pub(super) fn weights(service: &ServiceSpec) -> BTreeMap<&Name, u32> {
    let mut weights: BTreeMap<&Name, u32> = BTreeMap::new();
    for end in &service.at {
        let weight = weights.entry(&end.node).or_default();
        *weight = weight.saturating_add(end.weight());
    }
    weights
}

/// The nodes that ask a policy.
fn asked_at(spec: &Spec, touched: &mut BTreeSet<Read>) {
    let Spec::Policy(policy) = spec else {
        return;
    };
    match policy.at.is_empty() {
        true => drop(touched.insert(Read::Policies)),
        false => touched.extend(policy.at.iter().cloned().map(Read::PoliciesAt)),
    }
}
