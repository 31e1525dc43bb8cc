//! The desired state of an overlay, as its operators write it.
//!
//! A *resource* has the envelope of Kubernetes (`apiVersion`, `kind`, `metadata`, `spec`); the keys of its spec are those of a node's
//! own file wherever they mean the same. All resources together are a [`Tree`], which is read from texts with every mistake at once
//! ([`read`]), checked as a whole ([`check`]), and compiled into the documents of nodes.
//!
//! What it is not: the state of nodes, which they report, and the store, which keeps the canonical JSON of each resource.
//!
//! Begin reading in `resource.rs`; `specs` has the keys of each kind.

mod check;
mod expose;
mod finding;
mod graph;
mod key;
mod origin;
mod read;
mod resource;
mod sealing;
mod specs;
mod tree;
mod ways;

pub use check::check;
pub(crate) use check::is_below;
pub use expose::{BadExposure, Exposure, expose};
pub use finding::{Finding, Findings};
pub(crate) use graph::{Graph, WrittenLink};
pub use key::{BadKey, DEFAULT_TENANT, Key, Kind};
pub use origin::Origin;
pub use read::{Source, read};
pub use resource::{API_VERSION, Metadata, Resource, Spec, format};
pub use sealing::{Boxes, Sealed, SealedSecret, Sealer, SecretText, unsealed_for};
pub(crate) use specs::exported;
pub use specs::{
    BorderNode, ExportedName, GroupSpec, Guards, LinkSpec, NameSpec, NodeSpec, OverlaySpec,
    PeeringSpec, PlacementSpec, PolicySpec, RolloutPlan, RouteSpec, SecretSpec, ServiceEnd,
    ServiceSpec, SliceName, SliceSpec, StopOn, TenantSpec, UserSpec,
};
pub use tree::{Tree, TreeFull};
pub(crate) use ways::{NextHop, WayFinder, Ways};

#[cfg(test)]
mod tests;
