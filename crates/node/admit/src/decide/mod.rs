//! The decision on an exchange whose user is known, the same for every exchange and in every [`Mode`]:
//!
//! ```text
//! believe -> permit (policy) -> authorize (filters) -> route
//! ```
//!
//! | exchange | mode | its user | filters | denials |
//! |---|---|---|---|---|
//! | arrives at a listener | [`Mode::Arriving`] | found by *identify* | asked | logged; an anonymous client is asked who it is |
//! | is opened by a handler | [`Mode::Opened`] | that of the exchange in whose name it is | asked | logged |
//! | is an open tunnel | [`Mode::Reevaluated`] | believed again | asked by its carrier, later | logged if they change it |
//! | is supposed (`hermes policy test`) | [`Mode::DryRun`] | supposed | those in this process | not logged |
//!
//! `hermes why` explains the same decision with the pure rules alone ([`hermes_rules::judge`]): it tells each comparison, and asks nothing.

mod authorize;
mod candidate;
mod decision_logger;
mod dry_run;
mod policy;

pub use authorize::Denied;
pub use candidate::{Candidate, Grant, Mode};
pub use decision_logger::DecisionLogger;
pub use dry_run::DryRun;
pub use policy::Permitted;
