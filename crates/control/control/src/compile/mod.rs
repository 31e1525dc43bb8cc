//! From the desired state to the document of each node.
//!
//! A [`Compiler`] looks at a whole tree once: which node sends to which, and on which way to each service. Then it makes documents, each
//! in the language of a node's own file, with the resource and field that every part of it comes from. It is pure: equal trees give
//! equal documents.
//!
//! Documents hold variables for all that differs between nodes with the same document (see [`VARIABLES`]), so all devices of users
//! share one, and a device that joins changes no document: an ingress knows devices by the pattern of their certificates.
//!
//! | Node    | Its document                                                                                       |
//! |---------|----------------------------------------------------------------------------------------------------|
//! | device  | Its listeners; everything goes to the ingresses, under the user's name                             |
//! | ingress | Takes devices by the pattern of their certificates; asks the policies; sends on by name             |
//! | relay   | Takes the nodes that send here by their certificates; asks the policies; sends on by name            |
//! | end     | The same, and dials the servers                                                                     |
//!
//! A node that can be reached refuses certificates of the overlay that no rule here sends to it: they would be users under
//! the names of their certificates, whom rules for users do not mean.
//!
//! A [`Network`] of documents says what becomes of an exchange that walks through it.
//!
//! Begin reading in `plan.rs`, and then in `proxy.rs`.

mod access;
mod attachments;
mod between;
mod circles;
mod compiler;
mod detour;
mod device;
mod draft;
mod foreign_rules;
mod losses;
mod peerings;
mod peers;
mod plan;
mod policy;
mod proof;
mod proxy;
mod rank;
mod reads;
mod routes;
mod secrets;
mod slices;
mod source_map;
mod targets;
mod tenant_rules;
mod tenants;
mod upstreams;
mod walk;
mod way_points;

pub(crate) use access::users_of;
pub use access::{ANYONE, Access, AccessChanges, Accessible, access_changes};
pub use between::{between, mixed};
pub use circles::{Documents, Turn, has_order, turns};
pub use compiler::{Compiled, Compiler, Recipient, Touched, compile};
pub use losses::{Loss, losses};
pub use proof::VARIABLES;
pub use reads::{Read, Reads, only_moves};
pub use source_map::{SourceField, SourceMap};
pub use walk::{Hop, Network, Onward, SupposedExchange, Walk};
pub use way_points::{is_partible, way_points};

#[cfg(test)]
mod tests;
