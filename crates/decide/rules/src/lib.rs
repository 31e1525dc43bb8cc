//! Pure decisions with their reasons: routes, overlay fields, identity, egress.
//!
//! Functions from a configuration and the facts of an exchange to a decision that can say why. The
//! data plane, `hermes check` and every later `why` use the same ones. There is no run time,
//! socket, clock or source of randomness in here; random numbers are arguments.
//!
//! - [`route`]: which route an exchange takes (RFC 3986, 6.2.2 for paths; RFC 9110, 4.2.3 for hosts).
//! - [`attach`]: who may be attached under which name.
//! - [`broadcast`]: who may have a request copied.
//! - [`chains`]: several next proxies, one behind the other.
//! - [`ends`]: addresses at which the overlay ends.
//! - [`session`]: the classes of UDP sessions, and how long each may be silent.
//! - [`shadow`]: routes that can never match.
//! - [`retry`]: whether a failed attempt is followed by another (RFC 9110, 9.2.2).
//! - [`packets`]: which flows may pass a tunnel of IP.
//! - [`policy`]: whether an exchange may go on, and with which fields.
//! - [`judge`]: the one decision that joins the others, phase by phase.
//! - [`lint`](mod@lint): everything about a document that its schema cannot say.
//! - [`log_filter`]: whether a log filter would log anything.
//! - [`warn`](mod@warn): parts of a sound document without effect.
//! - [`trust`]: the user of an exchange, and the overlay fields that it keeps.
//! - [`fields`] and [`template`]: changes to fields.
//! - [`reevaluate`](mod@reevaluate): the fate of an open tunnel when the rules change.
//! - [`versions`](mod@versions): which HTTP versions a listener speaks.
//! - [`egress`]: which addresses a request may choose (RFC 6890 and the registries it points to).
//!
//! Begin reading in [`judge`], which joins the others.

pub mod attach;
pub mod broadcast;
pub mod chains;
mod client_field;
pub mod egress;
pub mod ends;
pub mod fields;
pub mod judge;
pub mod lint;
pub mod log_filter;
mod overlap;
mod overlay_names;
pub mod packets;
pub mod policy;
pub mod reevaluate;
mod restart;
pub mod retry;
pub mod route;
pub mod session;
pub mod shadow;
mod tcp_in_tcp;
pub mod template;
pub mod trust;
mod user_aliases;
pub mod versions;
pub mod warn;
mod whom;

pub use client_field::{Client, ClientField};
pub use egress::{Denied, EgressRules, held_addresses};
pub use fields::{BadField, ControlledFields, OverlayFields, Provenance, TrailerRules, apply};
pub use hermes_proto::fields::Fields;
pub use judge::Rules;
pub use lint::{is_in_custody, lint};
pub use overlay_names::OverlayNames;
pub use reevaluate::{reevaluate, still_believed};
pub use restart::{SECTIONS as RESTART_SECTIONS, needs_restart};
pub use route::{
    ClaimedGroups, Explanation, Facts, Matcher, Names, Table, Target, normalise, rewrite_path,
};
pub use template::{Values, render};
pub use trust::{Border, Mandate, Refusal, Source, believe};
pub use user_aliases::UserAliases;
pub use versions::versions;
pub use warn::warn;
pub use whom::Whom;
