//! Resources from texts.

use std::path::Path;
use std::sync::OnceLock;

use hermes_config::{Problem, WrittenDocument, read_documents, schema_of};
use serde_json::Value as Json;

use super::resource::{Envelope, unknown_kind};
use super::specs::{
    GroupSpec, LinkSpec, NameSpec, NodeSpec, OverlaySpec, PeeringSpec, PlacementSpec, PolicySpec,
    RouteSpec, SecretSpec, ServiceSpec, SliceSpec, TenantSpec, UserSpec,
};
use super::{Finding, Findings, Key, Kind, Origin, Resource, Tree};

/// A text of resources.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its name in mistakes.
    pub name: &'a Path,
    /// YAML, or JSON; `---` divides several resources.
    pub text: &'a str,
}

/// Reads texts of resources; whether the resources fit together is left to [`check`](super::check()).
///
/// # Errors
/// Everything that is wrong with the form of any of them, and resources that are there twice.
pub fn read(sources: &[Source<'_>]) -> Result<Tree, Findings> {
    let mut tree = Tree::default();
    let mut findings = Findings::default();
    for source in sources {
        let read = read_documents(source.name, source.text);
        findings.extend(read.problems.into_iter().map(Finding::from));
        for document in &read.documents {
            match resource(document) {
                Ok(resource) => add(&mut tree, resource, document, &mut findings),
                Err(found) => findings.extend(found),
            }
        }
    }
    findings.first(0).or(tree)
}

fn add(tree: &mut Tree, resource: Resource, document: &WrittenDocument, findings: &mut Findings) {
    let key = resource.key().clone();
    let place = document.places().locate("metadata.name");
    let problem = |reason: String, remedy: &str| Problem {
        place: place.clone(),
        ..Problem::new("metadata.name", reason).remedy(remedy)
    };

    // The first one counts: otherwise each of its references would be told as well.
    if let Some(first) = tree.origin(&key) {
        let reason = format!(
            "this resource was already given at {}:{}",
            first.file, first.line
        );
        findings.extend([Finding::new(&key, problem(reason, "keep one of them"))]);
        return;
    }
    if let Err(full) = tree.insert(resource, Some(Origin::of(document))) {
        findings.extend([Finding::new(
            &key,
            problem(full.to_string(), "make a second overlay"),
        )]);
    }
}

/// One resource, or all mistakes of its form.
fn resource(document: &WrittenDocument) -> Result<Resource, Vec<Finding>> {
    let places = document.places();
    let word = document.text(&["kind"]).unwrap_or_default();
    let Some(kind) = Kind::of(word) else {
        let has_none = document.text(&["kind"]).is_none();
        let problem = if has_none {
            Problem::new("", "this is no resource: it has no `kind`")
                .remedy("begin with `apiVersion: hermes/v1` and `kind:`")
        } else {
            unknown_kind(word)
        };
        return Err(vec![places.placed(problem).into()]);
    };

    let named = |problem: Problem| Finding {
        resource: name_of(document, kind),
        problem,
    };
    // The schema finds all mistakes at once, the types only the first.
    let json = document
        .check(schema(kind))
        .map_err(|problems| problems.into_iter().map(named).collect::<Vec<_>>())?;
    Resource::from_json(&json).map_err(|found| vec![named(places.placed(found.problem))])
}

/// The name that a resource would have, for its mistakes.
fn name_of(document: &WrittenDocument, kind: Kind) -> Option<Key> {
    let metadata = |key: &str| document.text(&["metadata", key]);
    let key = Key::new(kind, metadata("name")?.parse().ok()?);
    match metadata("tenant") {
        Some(tenant) => Some(Key {
            tenant: tenant.parse().ok()?,
            ..key
        }),
        None => Some(key),
    }
}

/// The schema of a kind, made once.
fn schema(kind: Kind) -> &'static Json {
    static SCHEMAS: [OnceLock<Json>; Kind::ALL.len()] =
        [const { OnceLock::new() }; Kind::ALL.len()];
    SCHEMAS[kind as usize].get_or_init(|| match kind {
        Kind::Overlay => schema_of::<Envelope<OverlaySpec>>(),
        Kind::Node => schema_of::<Envelope<NodeSpec>>(),
        Kind::Link => schema_of::<Envelope<LinkSpec>>(),
        Kind::Service => schema_of::<Envelope<ServiceSpec>>(),
        Kind::Name => schema_of::<Envelope<NameSpec>>(),
        Kind::Route => schema_of::<Envelope<RouteSpec>>(),
        Kind::User => schema_of::<Envelope<UserSpec>>(),
        Kind::Group => schema_of::<Envelope<GroupSpec>>(),
        Kind::Policy => schema_of::<Envelope<PolicySpec>>(),
        Kind::Tenant => schema_of::<Envelope<TenantSpec>>(),
        Kind::Secret => schema_of::<Envelope<SecretSpec>>(),
        Kind::Slice => schema_of::<Envelope<SliceSpec>>(),
        Kind::Peering => schema_of::<Envelope<PeeringSpec>>(),
        Kind::Placement => schema_of::<Envelope<PlacementSpec>>(),
    })
}
