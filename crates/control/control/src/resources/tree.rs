//! All resources of an overlay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::{Hash, Name};
use hermes_config::{Place, Problem};

use super::specs::{NodeSpec, OverlaySpec, PeeringSpec, RolloutPlan, TenantSpec};
use super::{Finding, Key, Kind, Origin, Resource, Spec};

/// Resources of one overlay.
#[doc(alias = "bound")]
const MOST_RESOURCES: usize = 100_000;

/// The desired state: resources by their names, and where they are written. A copy shares all resources with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    resources: BTreeMap<Key, Arc<Resource>>,
    /// The tenants that have a node of a name: nodes have one name in the whole overlay, whosever they are.
    nodes: BTreeMap<Name, BTreeSet<Name>>,
    origins: BTreeMap<Key, Arc<KeptOrigin>>,
}

/// An origin, and the name of its blob: each change of an overlay asks for that of every resource.
#[derive(Debug, PartialEq)]
struct KeptOrigin {
    origin: Origin,
    hash: Hash,
}

/// There is no room for another resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an overlay has at most {MOST_RESOURCES} resources")]
pub struct TreeFull;

impl Tree {
    /// Adds a resource, or puts it in the place of the one with its name.
    ///
    /// # Errors
    /// There are too many.
    pub fn insert(&mut self, resource: Resource, origin: Option<Origin>) -> Result<(), TreeFull> {
        let key = resource.key().clone();
        // A resource that is replaced needs no room.
        if self.resources.len() >= MOST_RESOURCES && !self.resources.contains_key(&key) {
            return Err(TreeFull);
        }
        // The lines of a resource that was replaced would mislead.
        match origin {
            Some(origin) => {
                let hash = Hash::of(&origin.canonical());
                let kept = Arc::new(KeptOrigin { origin, hash });
                self.origins.insert(key.clone(), kept);
            }
            None => drop(self.origins.remove(&key)),
        }
        if key.kind == Kind::Node {
            let tenants = self.nodes.entry(key.name.clone()).or_default();
            tenants.insert(key.tenant.clone());
        }
        self.resources.insert(key, Arc::new(resource));
        Ok(())
    }

    /// Removes a resource; returns whether it was there.
    pub fn remove(&mut self, key: &Key) -> bool {
        self.origins.remove(key);
        if let Some(tenants) = self
            .nodes
            .get_mut(&key.name)
            .filter(|_| key.kind == Kind::Node)
        {
            tenants.remove(&key.tenant);
            if tenants.is_empty() {
                self.nodes.remove(&key.name);
            }
        }
        self.resources.remove(key).is_some()
    }

    /// The resource of this name.
    pub fn resource(&self, key: &Key) -> Option<&Resource> {
        self.resources.get(key).map(|resource| &**resource)
    }

    /// The keys by which another tree differs, in their order. Resources that both share are not looked at.
    pub fn differing(&self, other: &Self) -> Vec<Key> {
        let is_same =
            |one: &Arc<Resource>, other: &Arc<Resource>| Arc::ptr_eq(one, other) || one == other;
        let mut differing = Vec::new();
        let mut others = other.resources.iter().peekable();
        for (key, resource) in &self.resources {
            // Both are in one order: neither is searched.
            while let Some((only, _)) = others.next_if(|(other, _)| *other < key) {
                differing.push(only.clone());
            }
            match others.next_if(|(other, _)| *other == key) {
                Some((_, other)) if is_same(resource, other) => {}
                _ => differing.push(key.clone()),
            }
        }
        differing.extend(others.map(|(key, _)| key.clone()));
        differing
    }

    /// Where it is written, if that is known.
    pub fn origin(&self, key: &Key) -> Option<&Origin> {
        self.origins.get(key).map(|kept| &kept.origin)
    }

    /// The name of the blob of that.
    pub fn origin_hash(&self, key: &Key) -> Option<Hash> {
        self.origins.get(key).map(|kept| kept.hash)
    }

    /// All resources with their names, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Resource)> {
        let resources = self.resources.iter();
        resources.map(|(key, resource)| (key, &**resource))
    }

    /// All resources, in the order of their names.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values().map(|resource| &**resource)
    }

    /// The number of resources.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The resources of a kind, in the order of tenants and names.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Resource> {
        let from = self.resources.range(Key::least(kind)..);
        from.map(|(_, resource)| &**resource)
            .take_while(move |one| one.key().kind == kind)
    }

    /// The nodes of the overlay's operator; devices of users are not among them.
    pub fn proxies(&self) -> impl Iterator<Item = (&Key, &NodeSpec)> {
        let nodes = self.of_kind(Kind::Node);
        nodes.filter_map(|resource| match resource.spec() {
            Spec::Node(node) if !node.is_device() => Some((resource.key(), &**node)),
            _ => None,
        })
    }

    /// The node of this name, whosever it is.
    pub fn node(&self, name: &Name) -> Option<&NodeSpec> {
        match self.resource(&self.node_key(name))?.spec() {
            Spec::Node(node) => Some(node),
            _ => None,
        }
    }

    /// The name of the resource of a node, which its operator would write if no one has.
    pub fn node_key(&self, name: &Name) -> Key {
        let key = Key::new(Kind::Node, name.clone());
        match self.nodes.get(name).and_then(|tenants| tenants.first()) {
            Some(tenant) => Key {
                tenant: tenant.clone(),
                ..key
            },
            None => key,
        }
    }

    /// The tenant of this name.
    pub fn tenant(&self, name: &Name) -> Option<&TenantSpec> {
        match self.resource(&Key::new(Kind::Tenant, name.clone()))?.spec() {
            Spec::Tenant(tenant) => Some(tenant),
            _ => None,
        }
    }

    /// Other operators' overlays.
    pub fn peerings(&self) -> impl Iterator<Item = (&Key, &PeeringSpec)> {
        let peerings = self.of_kind(Kind::Peering);
        peerings.filter_map(|resource| match resource.spec() {
            Spec::Peering(peering) => Some((resource.key(), &**peering)),
            _ => None,
        })
    }

    /// The other overlay of a user, who is `NAME@DOMAIN`.
    pub fn peering_of(&self, user: &str) -> Option<&PeeringSpec> {
        let (_, domain) = user.rsplit_once('@')?;
        let mut peerings = self.peerings().map(|(_, peering)| peering);
        peerings.find(|peering| peering.domain == domain)
    }

    /// The properties of the whole, if it has a resource of them.
    pub fn overlay(&self) -> Option<(&Key, &OverlaySpec)> {
        let resource = self.of_kind(Kind::Overlay).next()?;
        match resource.spec() {
            Spec::Overlay(overlay) => Some((resource.key(), overlay)),
            _ => None,
        }
    }

    /// How changes spread.
    pub fn rollout(&self) -> RolloutPlan {
        self.overlay()
            .map(|(_, overlay)| overlay.rollout.clone())
            .unwrap_or_default()
    }

    /// Where a field of a resource is written, if that is known.
    pub fn place(&self, key: &Key, field: &str) -> Option<Place> {
        self.origin(key)?.places().locate(field)
    }

    /// A mistake in a field of a resource, with its place.
    pub fn finding(&self, key: &Key, problem: Problem) -> Finding {
        let place = self.place(key, &problem.path);
        Finding::new(key, Problem { place, ..problem })
    }
}
