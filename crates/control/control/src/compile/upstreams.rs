//! Upstreams: the next nodes, and the servers.

use hermes_api::{Hash, Name};
use hermes_config::model::{HttpVersion, OneOrMany};
use serde_json::{Map, Value as Json, json};

use super::Read;
use super::draft::Draft;
use super::plan::{Plan, ServicePlan};
use super::source_map::SourceField;
use crate::resources::{Key, NextHop, NodeSpec, WrittenLink};

/// The weight of an endpoint is at most this.
const MOST_WEIGHT: u32 = 1000;

/// Bytes of the longest name that is made of the names of nodes; records and metrics carry it.
#[doc(alias = "bound")]
const LONGEST_NAME: usize = 100;

/// The files by which a node shows who it is, and those that it believes, the authorities under this key.
pub(super) fn tls(authorities: &str) -> Map<String, Json> {
    let files = [
        (authorities, "${HERMES_AUTHORITIES}"),
        ("crl_file", "${HERMES_REVOKED}"),
        ("cert_file", "${HERMES_IDENTITY}/node.pem"),
        ("key_file", "${HERMES_IDENTITY}/node.key"),
    ];
    let files = files.into_iter();
    files
        .map(|(key, file)| (key.to_owned(), json!(file)))
        .collect()
}

/// A node as others reach it.
#[derive(Clone, Copy)]
pub(super) struct Reached<'t> {
    pub(super) name: &'t Name,
    pub(super) node: &'t NodeSpec,
    /// Its share relative to the others.
    pub(super) share: u32,
}

/// The next nodes of a name or route.
pub(super) struct Hops<'a> {
    /// The resource that it comes from.
    pub(super) key: &'a Key,
    pub(super) hops: &'a [NextHop<'a>],
}

/// The upstream of these nodes.
pub(super) fn of_nodes(
    plan: &Plan<'_>,
    nodes: &[Reached<'_>],
    http: Option<&OneOrMany<HttpVersion>>,
    draft: &mut Draft,
) -> Json {
    draft.reads.add(Read::TrustDomain);
    let greatest = nodes.iter().map(|one| one.share).max().unwrap_or(1).max(1);
    let are_equal = nodes.iter().all(|one| one.share == greatest);
    let mut endpoints = Vec::new();
    for one in nodes {
        draft.reads.resource(&plan.tree.node_key(one.name));
        // Any member could answer at an address; only this node has a certificate of this name.
        let server_name = format!("{}.{}", one.name, plan.domain);
        for address in &one.node.reach {
            let mut endpoint =
                json!({ "address": address.to_string(), "server_name": server_name });
            if !are_equal {
                endpoint["weight"] = scaled(one.share, greatest).into();
            }
            if let Some(zone) = &one.node.zone {
                endpoint["zone"] = zone.as_str().into();
            }
            endpoints.push(endpoint);
        }
    }

    let mut upstream = json!({ "endpoints": endpoints, "tls": tls("ca_file") });
    if let Some(http) = http {
        let versions: Vec<u8> = http.iter().map(|version| version.number()).collect();
        upstream["http"] = json!(versions);
    }
    upstream
}

/// A share as a weight: never nothing.
fn scaled(share: u32, greatest: u32) -> u32 {
    if greatest <= MOST_WEIGHT {
        return share.max(1);
    }
    let scaled = u64::from(share) * u64::from(MOST_WEIGHT) / u64::from(greatest);
    u32::try_from(scaled).unwrap_or(MOST_WEIGHT).max(1)
}

/// Adds the upstream of the next nodes, unless it is there; returns its name.
pub(super) fn next(plan: &Plan<'_>, from: &Name, hops: &Hops<'_>, draft: &mut Draft) -> String {
    let Hops { key, hops } = hops;
    let graph = plan.graph_of(key);
    // A node that keeps connections to this one is reached by these, and an upstream of them has no other endpoints.
    if let Some(first) = hops
        .first()
        .filter(|hop| plan.graph.is_attached(hop.node, from))
    {
        let name = format!("to-{}", first.node);
        let source = SourceField::made(&plan.tree.node_key(first.node), "spec.attach");
        let upstream = json!({ "attached": first.node });
        draft.entry("upstreams", &name, upstream, Some(source));
        return name;
    }

    let hops: Vec<_> = hops
        .iter()
        .filter(|hop| !plan.graph.is_attached(hop.node, from))
        .collect();
    let http_of = |hop: &NextHop<'_>| graph.link(from, hop.node).and_then(|link| link.http);
    // All endpoints of an upstream speak the same versions: nodes behind links of others are left out.
    let http = hops.first().and_then(|hop| http_of(hop));
    let alike = hops.iter().filter(|hop| http_of(hop) == http);
    let nodes: Vec<_> = alike
        .filter_map(|hop| {
            let node = plan.graph.node(hop.node)?;
            let NextHop { node: name, share } = **hop;
            Some(Reached { name, node, share })
        })
        .collect();

    // A tenant's own link may say another version than the operator's to the same node.
    let mut links = nodes.iter().filter_map(|one| graph.link(from, one.name));
    let own = links.find(|link| !link.key.is_operators());
    let name = name_of(own.map(|_| &key.tenant), &nodes);
    if !draft.has("upstreams", &name) {
        let first = nodes.first();
        let source = first.map(|first| way_there(plan, graph.link(from, first.name), first));
        let endpoints = of_nodes(plan, &nodes, http, draft);
        draft.entry("upstreams", &name, endpoints, source);
    }
    name
}

/// The source of an upstream: the link to its first node, or how that is reached.
fn way_there(plan: &Plan<'_>, link: Option<WrittenLink<'_>>, first: &Reached<'_>) -> SourceField {
    match link {
        Some(link) => SourceField::made(link.key, "spec"),
        None => SourceField::made(&plan.tree.node_key(first.name), "spec.reach"),
    }
}

/// The name of an upstream says to which nodes it leads; where they are many, it is short and stays the same.
fn name_of(tenant: Option<&Name>, nodes: &[Reached<'_>]) -> String {
    if let Some(tenant) = tenant {
        return format!("{tenant}.{}", name_of(None, nodes));
    }
    let greatest = nodes.iter().map(|one| one.share).max();
    let are_equal = nodes.iter().all(|one| Some(one.share) == greatest);
    let parts = nodes.iter().map(|one| match are_equal {
        true => one.name.to_string(),
        false => format!("{}*{}", one.name, one.share),
    });
    let name = format!("to-{}", parts.collect::<Vec<_>>().join("+"));
    if name.len() <= LONGEST_NAME {
        return name;
    }
    format!("to-{}", Hash::of(name.as_bytes()).short())
}

/// Adds the upstream of a service's servers at a node, unless it is there; returns its name.
pub(super) fn servers(service: &ServicePlan<'_>, node: &Name, draft: &mut Draft) -> String {
    let name = match service.key.is_operators() {
        true => format!("service-{}", service.key.name),
        false => format!("{}.service-{}", service.key.tenant, service.key.name),
    };
    draft.reads.resource(service.key);
    if draft.has("upstreams", &name) {
        return name;
    }
    let written = service.resource.written();
    let ends = service.spec.at.iter().enumerate();
    let here = ends.filter(|(_, end)| end.node == *node);

    let mut endpoints = Vec::new();
    let mut sources = Vec::new();
    for (index, end) in here {
        let Some(address) = end.address.as_ref().map(ToString::to_string) else {
            continue;
        };
        sources.push(format!("spec.at[{index}]"));
        endpoints.push(match end.weight {
            Some(weight) => json!({ "address": address, "weight": weight }),
            None => address.into(),
        });
    }

    let mut upstream = json!({ "endpoints": endpoints });
    let path = hermes_config::child("upstreams", &name);
    for key in ["health", "http", "tls"] {
        if let Some(value) = written.get(key) {
            upstream[key] = value.clone();
            let source = SourceField::copied(service.key, format!("spec.{key}"));
            draft.source(hermes_config::child(&path, key), Some(source));
        }
    }
    for (index, field) in sources.into_iter().enumerate() {
        let path = hermes_config::element(&format!("{path}.endpoints"), index);
        draft.source(path, Some(SourceField::made(service.key, field)));
    }
    draft.entry(
        "upstreams",
        &name,
        upstream,
        Some(SourceField::made(service.key, "spec")),
    );
    name
}
