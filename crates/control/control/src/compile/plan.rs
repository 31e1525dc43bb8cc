//! A tree as documents need it: which node sends to which, on the way to which service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::Name;
use hermes_config::model::{HostMatch, TargetMatch};
use hermes_config::{Problem, element};

use super::detour::{Detour, Step, Terrain};
use super::peerings::{PeeringPlan, mistakes, peerings};
use super::rank::ranks;
use super::reads::weights;
use super::slices::{SlicePlan, slices};
use super::tenants::{TenantPlan, tenants};
use crate::resources::{
    DEFAULT_TENANT, Finding, Findings, Graph, Key, Kind, NameSpec, Resource, ServiceSpec, Spec,
    Tree, WayFinder, Ways,
};

/// A tree, seen as a whole.
pub(super) struct Plan<'t> {
    pub(super) tree: &'t Tree,
    /// All nodes, whosever they are.
    pub(super) graph: Graph<'t>,
    pub(super) tenants: BTreeMap<&'t Name, TenantPlan<'t>>,
    /// The domain of certificates.
    pub(super) domain: String,
    services: BTreeMap<&'t Key, ServicePlan<'t>>,
    /// In the order in which nodes ask for them.
    pub(super) names: Vec<NamePlan<'t>>,
    pub(super) detours: Vec<Detour<'t>>,
    pub(super) slices: Vec<SlicePlan<'t>>,
    pub(super) peerings: Vec<PeeringPlan<'t>>,
    /// The nodes that send to each node.
    senders: BTreeMap<&'t Name, BTreeSet<&'t Name>>,
    ranks: BTreeMap<&'t Name, u32>,
}

/// A service, and the ways to it.
pub(super) struct ServicePlan<'t> {
    pub(super) key: &'t Key,
    pub(super) resource: &'t Resource,
    pub(super) spec: &'t ServiceSpec,
    pub(super) ways: Arc<Ways<'t>>,
    /// Nodes on the ways from those where exchanges enter; none where no name leads to it.
    passed: BTreeSet<&'t Name>,
}

/// What users ask for.
pub(super) struct NamePlan<'t> {
    pub(super) key: &'t Key,
    pub(super) resource: &'t Resource,
    pub(super) spec: &'t NameSpec,
    /// As the document has them.
    pub(super) targets: Vec<TargetMatch>,
}

impl NamePlan<'_> {
    fn service_key(&self) -> Key {
        self.key.sibling(Kind::Service, &self.spec.service)
    }
}

impl<'t> Plan<'t> {
    /// Looks at a tree that was checked.
    ///
    /// # Errors
    /// Detours that lead nowhere, or turn in a circle.
    pub(super) fn new(tree: &'t Tree, domain: String) -> Result<Self, Findings> {
        let mut plan = Self {
            tree,
            graph: Graph::new(tree),
            tenants: tenants(tree),
            domain,
            services: BTreeMap::new(),
            names: names(tree),
            detours: Vec::new(),
            slices: Vec::new(),
            peerings: Vec::new(),
            senders: BTreeMap::new(),
            ranks: BTreeMap::new(),
        };
        plan.services = plan.find_services();
        plan.slices = slices(&plan);
        plan.peerings = peerings(&plan);

        let mut findings = Findings::default();
        findings.extend(mistakes(&plan));
        for resource in tree.of_kind(Kind::Route) {
            match plan.detour(resource) {
                Ok(detour) => plan.detours.extend(detour),
                Err(finding) => findings.extend([*finding]),
            }
        }
        plan.senders = plan.find_senders();
        plan.ranks = ranks(plan.graph.nodes().map(|(name, _)| name), &plan.senders);
        findings.extend(plan.attached_senders());
        findings.or(plan)
    }

    /// A route; `None` where its service is unknown, which is told elsewhere.
    fn detour(&self, resource: &'t Resource) -> Result<Option<Detour<'t>>, Box<Finding>> {
        let Spec::Route(spec) = resource.spec() else {
            return Ok(None);
        };
        let key = resource.key();
        let Some(service) = self.service(key, &spec.to) else {
            return Ok(None);
        };
        let terrain = Terrain {
            tree: self.tree,
            graph: self.graph_of(key),
        };
        Detour::new(terrain, resource, spec, &service.ways).map(Some)
    }

    /// Nodes that attach to one that they also send to: there they are peers, and a peer has no user who could be attached.
    fn attached_senders(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for (name, node) in self.graph.nodes() {
            for (index, hub) in node.attach.iter().enumerate() {
                if self.senders(hub).any(|sender| sender == name) {
                    let reason = format!("the node also sends to `{hub}`, and cannot do both yet");
                    let problem = Problem::new(element("spec.attach", index), reason);
                    let problem = problem.remedy("attach to another node, or change the links");
                    let key = self.tree.node_key(name);
                    found.push(self.tree.finding(&key, problem));
                }
            }
        }
        found
    }

    /// The nodes and links that exchanges may take whose name, route or service is this resource.
    pub(super) fn graph_of(&self, key: &Key) -> &Graph<'t> {
        let tenant = self.tenants.get(&key.tenant);
        tenant.map_or(&self.graph, |tenant| &tenant.graph)
    }

    /// The tenants besides the operator.
    pub(super) fn others(&self) -> impl Iterator<Item = &TenantPlan<'t>> {
        let tenants = self.tenants.values();
        tenants.filter(|tenant| tenant.name.as_str() != DEFAULT_TENANT)
    }

    /// The service that a resource means by this name.
    pub(super) fn service(&self, by: &Key, name: &Name) -> Option<&ServicePlan<'t>> {
        self.services.get(&by.sibling(Kind::Service, name))
    }

    /// All targets of a tenant's names.
    pub(super) fn targets_of(&self, tenant: &TenantPlan<'_>) -> Vec<TargetMatch> {
        let names = self.names.iter();
        let names = names.filter(|name| name.key.tenant == *tenant.name);
        names.flat_map(|name| name.targets.clone()).collect()
    }

    /// The nodes that send to this one.
    pub(super) fn senders(&self, node: &Name) -> impl Iterator<Item = &'t Name> {
        self.senders.get(node).into_iter().flatten().copied()
    }

    /// The names that a node has to know.
    pub(super) fn names_at(
        &self,
        node: &Name,
    ) -> impl Iterator<Item = (&NamePlan<'t>, &ServicePlan<'t>)> {
        self.names.iter().filter_map(move |name| {
            let service = self.service(name.key, &name.spec.service)?;
            service.passed.contains(node).then_some((name, service))
        })
    }

    /// The nodes that the way of a resource leads through.
    pub(super) fn led_through(&self, key: &Key, nodes: &mut BTreeSet<Name>) {
        let of_service = |service: &ServicePlan<'_>, nodes: &mut BTreeSet<Name>| {
            nodes.extend(service.passed.iter().map(|node| (*node).clone()));
        };
        let is_detour = |detour: &&Detour<'_>| match key.kind {
            Kind::Route => detour.key == key,
            _ => detour.key.sibling(Kind::Service, &detour.spec.to) == *key,
        };
        let exports = self.peerings.iter().flat_map(|peering| &peering.exports);
        let exported = exports.filter(|export| [export.name, export.service].contains(&key));
        let passed = exported.flat_map(|export| &export.passed);
        nodes.extend(passed.map(|node| (*node).clone()));
        match key.kind {
            Kind::Name => {
                let named = self.tree.resource(key).map(Resource::spec);
                if let Some(Spec::Name(name)) = named
                    && let Some(service) = self.service(key, &name.service)
                {
                    of_service(service, nodes);
                }
            }
            Kind::Service | Kind::Route => {
                if let Some(service) = self.services.get(key) {
                    of_service(service, nodes);
                }
                let steps = self.detours.iter().filter(is_detour);
                let steps = steps.flat_map(|detour| detour.steps.keys());
                nodes.extend(steps.map(|node| (*node).clone()));
            }
            Kind::Slice => {
                let slices = self.slices.iter().filter(|slice| slice.key == key);
                let passed = slices.flat_map(|slice| &slice.passed);
                nodes.extend(passed.map(|node| (*node).clone()));
            }
            _ => {}
        }
    }

    /// The place of a node in the order from receivers to senders.
    pub(super) fn rank(&self, node: &Name) -> u32 {
        self.ranks.get(node).copied().unwrap_or_default()
    }

    fn find_services(&self) -> BTreeMap<&'t Key, ServicePlan<'t>> {
        let named = self.names.iter();
        let named: BTreeSet<Key> = named.map(NamePlan::service_key).collect();
        let tenants = self.tenants.values();
        let found = tenants.flat_map(|tenant| self.find_services_of(tenant, &named));
        found.collect()
    }

    /// Services of one tenant: each has nodes and links of its own.
    fn find_services_of(
        &self,
        tenant: &TenantPlan<'t>,
        named: &BTreeSet<Key>,
    ) -> Vec<(&'t Key, ServicePlan<'t>)> {
        let graph = &tenant.graph;
        let entries = || {
            let entries = graph.nodes().filter(|(_, node)| node.is_entry());
            entries.map(|(name, _)| name)
        };
        let mut finder = WayFinder::new(graph);
        let services = self.tree.of_kind(Kind::Service);
        let services = services.filter(|service| service.key().tenant == *tenant.name);
        let services = services.filter_map(|resource| {
            let Spec::Service(spec) = resource.spec() else {
                return None;
            };
            let key = resource.key();
            let ways = finder.ways(weights(spec));
            // A node learns nothing of services that no one can ask for.
            let passed = match named.contains(key) {
                true => ways.passed(graph, entries()),
                false => BTreeSet::new(),
            };
            let service = ServicePlan {
                key,
                resource,
                spec,
                ways,
                passed,
            };
            Some((key, service))
        });
        services.collect()
    }

    fn find_senders(&self) -> BTreeMap<&'t Name, BTreeSet<&'t Name>> {
        let mut senders: BTreeMap<&'t Name, BTreeSet<&'t Name>> = BTreeMap::new();
        let mut add = |from: &'t Name, to: &'t Name| {
            senders.entry(to).or_default().insert(from);
        };
        for service in self.services.values() {
            for from in &service.passed {
                let hops = service.ways.hops(self.graph_of(service.key), from);
                hops.iter().for_each(|hop| add(from, hop.node));
            }
        }
        for slice in &self.slices {
            for from in &slice.passed {
                let hops = slice.ways.hops(self.graph_of(slice.key), from);
                hops.iter().for_each(|hop| add(from, hop.node));
            }
        }
        for peering in &self.peerings {
            let graph = self.graph_of(peering.key);
            for from in &peering.passed {
                let hops = peering.ways.hops(graph, from);
                hops.iter().for_each(|hop| add(from, hop.node));
            }
            for export in &peering.exports {
                let Some(service) = self.services.get(export.service) else {
                    continue;
                };
                for from in &export.passed {
                    let hops = service.ways.hops(graph, from);
                    hops.iter().for_each(|hop| add(from, hop.node));
                }
            }
        }
        for detour in &self.detours {
            for (from, step) in &detour.steps {
                if let Step::Forward(hops) = step {
                    hops.iter().for_each(|hop| add(from, hop.node));
                }
            }
        }
        senders
    }
}

/// All names, the narrower ones first: the first route that matches decides.
fn names(tree: &Tree) -> Vec<NamePlan<'_>> {
    let names = tree.of_kind(Kind::Name).filter_map(|resource| {
        let Spec::Name(spec) = resource.spec() else {
            return None;
        };
        let key = resource.key();
        let own = || key.name.as_str().parse().ok().into_iter().collect();
        let written = spec.name.as_ref().map(|names| names.0.clone());
        Some(NamePlan {
            key,
            resource,
            spec,
            targets: written.unwrap_or_else(own),
        })
    });
    let mut names: Vec<_> = names.collect();
    // A wider name before a narrower one would take all of its exchanges, which nodes refuse as a mistake.
    names.sort_by_cached_key(|name| {
        let widest = name.targets.iter().map(breadth).max();
        // A tenant's users mean its names first.
        (name.key.is_operators(), widest, name.spec.users.is_none())
    });
    names
}

/// How much a target takes: first the kind of its condition, then how short it is, then whether it takes every port.
fn breadth(target: &TargetMatch) -> (u8, usize, bool) {
    let (kind, length) = match &target.host {
        HostMatch::Exact(host) => (0, host.len()),
        HostMatch::Net(net) => (1, net.prefix_len().into()),
        HostMatch::Suffix(suffix) if suffix.is_empty() => (4, 0),
        HostMatch::Suffix(suffix) => (2, suffix.len()),
        HostMatch::Regex(_) | HostMatch::Service(_) => (3, 0),
    };
    (kind, usize::MAX - length, target.port.is_none())
}
