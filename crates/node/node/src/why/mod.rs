//! Why an exchange was refused, and what would become of one that is only supposed.
//!
//! - `note`: where refusals are noted. An exchange that is not refused pays nothing.
//! - `remembered`: the last refusals, with what is needed to say later what was compared.
//! - `recount`: the steps of a refusal, when someone asks for them.
//! - `forecast`: what would become of an exchange, of a file as of a running node; `asked` adds what only a running node knows,
//!   `file_policies` what the policies in Rego of a file decide.
//! - `packet`: a packet of a tunnel that is only supposed, and what the rules on packets say of it.
//! - `supposed_claims`: what the token of a supposed user claims.
//! - `account`: the answer, the same for all.

mod answered;
mod asked;
mod file_policies;
pub mod forecast;
pub(crate) mod packet;
pub mod question;
mod recount;
pub mod supposed_claims;
mod written;

pub use file_policies::FilePolicies;
pub use forecast::{Filtered, Filtering, Forecaster, SupposedExchange};
pub use packet::SupposedPacket;

#[cfg(test)]
mod tests;
