//! Authentication: the methods of a listener, the verification of credentials, and the resulting
//! identity.
//!
//! Credentials are consumed at the hop that asked (RFC 9110 section 11.7): after
//! [`Authenticator::authenticate`] the fields do not hold them any more. A wrong credential is
//! refused, even if another way to authenticate would have sufficed.
//!
//! - [`Authenticator`]: begin reading here; the methods of one listener. `basic` and `bearer`
//!   verify credentials, `challenge` asks for missing ones.
//! - [`Proof`]: the basis of an identity, so that an open tunnel can be checked later: would it
//!   still be accepted?
//! - [`AuthContext`]: the result of authentication; `hermes_rules::judge` decides from it about the
//!   user of the exchange.
//! - [`signed_url`]: URLs that carry the permission to fetch them.
//! - `hashing` and `turns`: passwords are checked a few at a time, in an order in which no source takes the others' turns.
//!
//! The crate does not verify certificates (the TLS layer has done that), knows no route, and writes
//! no response: the data plane turns its verdict into one.
//!
//! Specifications: RFC 9110 section 11, RFC 7617 (Basic), RFC 6750 (Bearer), RFC 7515 to 7519 (JSON Web Tokens).

mod auth_context;
mod authenticator;
mod basic;
mod bearer;
pub mod cache;
mod challenge;
mod claims;
mod credentials;
mod hashing;
mod keys;
mod proof;
pub mod signed_url;
mod turns;
mod user_name;
mod users;

#[cfg(test)]
mod tests;

pub use auth_context::{AuthContext, is_sent};
pub use authenticator::{Authenticator, Identity};
pub use challenge::Challenge;
pub use claims::LEEWAY;
pub use proof::{Proof, SupposedToken};
pub use user_name::USER_LIMIT;
