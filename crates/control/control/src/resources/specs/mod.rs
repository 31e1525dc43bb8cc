//! The keys of each kind of resource.

mod group;
mod link;
mod name;
mod node;
mod overlay;
mod peering;
mod placement;
mod policy;
mod route;
mod secret;
mod service;
mod slice;
mod tenant;

pub use group::{GroupSpec, UserSpec};
pub use link::LinkSpec;
pub use name::NameSpec;
pub use node::NodeSpec;
pub use overlay::{Guards, OverlaySpec, RolloutPlan, StopOn};
pub(crate) use peering::exported;
pub use peering::{BorderNode, ExportedName, PeeringSpec};
pub use placement::PlacementSpec;
pub use policy::PolicySpec;
pub use route::RouteSpec;
pub use secret::SecretSpec;
pub use service::{ServiceEnd, ServiceSpec};
pub use slice::{SliceName, SliceSpec};
pub use tenant::TenantSpec;
