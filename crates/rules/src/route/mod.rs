//! Routes: which one an exchange takes, and why not the others.
//!
//! A document's routes are compiled once ([`Table::compile`]) and then asked for each exchange with its [`Facts`].
//! The first route whose conditions all hold decides.

mod compiled;
mod condition;
mod explain;
mod facts;
pub(crate) mod host;
pub(crate) mod index;
mod matcher;
mod path;
mod split;
mod table;

pub use compiled::{Act, Hop, Route, Unfit};
pub(crate) use condition::canonical_net;
pub use explain::Explanation;
pub use facts::{Facts, Scope, Target};
pub use matcher::Matcher;
pub(crate) use path::normalise_written;
pub use path::{normalise, rewrite_path};
pub use split::{Split, hops_of};
pub use table::Table;
