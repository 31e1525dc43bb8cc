//! Routes: which one an exchange takes, and why not the others.
//!
//! A document's routes are compiled once ([`Table::compile`]) and then asked for each exchange with
//! its [`Facts`]. The first route with all its conditions met decides.

mod compiled;
mod condition;
mod explain;
mod facts;
mod hidden;
pub(crate) mod host;
pub(crate) mod index;
mod matcher;
mod names;
mod path;
mod readings;
mod split;
mod table;

pub use compiled::{Act, Hop, Route, Unfit};
pub(crate) use condition::{Condition, canonical_net};
pub use explain::Explanation;
pub(crate) use facts::View;
pub use facts::{ClaimedGroups, Facts, Scope, Target};
pub use hidden::HiddenPaths;
pub use matcher::Matcher;
pub use names::{Names, expand_users};
pub(crate) use path::normalise_written;
pub use path::{normalise, rewrite_path};
pub(crate) use readings::has_readings;
pub use readings::{AmbiguousPath, readings};
pub use split::{Split, hops_of};
pub use table::{Table, Unmatched};
