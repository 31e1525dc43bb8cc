//! All resources of an overlay.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;
use hermes_config::{Place, Problem};

use super::specs::{NodeSpec, OverlaySpec, RolloutPlan, TenantSpec};
use super::{Finding, Key, Kind, Origin, Resource, Spec};

/// Resources of one overlay.
#[doc(alias = "bound")]
const MOST_RESOURCES: usize = 100_000;

/// The desired state: resources by their names, and where they are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    resources: BTreeMap<Key, Resource>,
    /// The tenants that have a node of a name: nodes have one name in the whole overlay, whosever they are.
    nodes: BTreeMap<Name, BTreeSet<Name>>,
    origins: BTreeMap<Key, Origin>,
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
            Some(origin) => drop(self.origins.insert(key.clone(), origin)),
            None => drop(self.origins.remove(&key)),
        }
        if key.kind == Kind::Node {
            let tenants = self.nodes.entry(key.name.clone()).or_default();
            tenants.insert(key.tenant.clone());
        }
        self.resources.insert(key, resource);
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
        self.resources.get(key)
    }

    /// Where it is written, if that is known.
    pub fn origin(&self, key: &Key) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// All resources with their names, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Resource)> {
        self.resources.iter()
    }

    /// All resources, in the order of their names.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
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
        self.resources
            .values()
            .skip_while(move |one| one.key().kind < kind)
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
