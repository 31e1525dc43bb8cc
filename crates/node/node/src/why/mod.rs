//! Why an exchange was refused, and the forecast of a supposed one.
//!
//! - `note`: where refusals are noted. An exchange that is not refused pays nothing.
//! - `remembered`: the last refusals, with their requests, so that the comparison can be made again.
//! - `recount`: the steps of a refusal, when someone asks for them.
//! - `forecast`: the fate of an exchange, by a file as by a running node; `asked` adds the knowledge of a running node,
//!   `file_policies` the policies in Rego of a file.
//! - `packet`: a packet of a supposed tunnel, and the verdict of the rules on packets.
//! - `supposed_claims`: the claims of a supposed user's token.
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
