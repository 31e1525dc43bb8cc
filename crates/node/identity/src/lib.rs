//! Whose an exchange is: what a listener asks for, whether what was shown proves it, and what follows from that.
//!
//! Credentials are consumed at the hop that asked (RFC 9110 section 11.7): after [`Authenticator::authenticate`] the
//! fields hold none of them. A credential that was shown and is wrong is refused, even if another way to
//! authenticate would have sufficed.
//!
//! - [`Authenticator`]: begin reading here; what one listener asks for. `basic` and `bearer` check it, `challenge` says what is missing.
//! - [`Proof`]: what an identity rests on, so that an open tunnel can be checked later: would it
//!   still be accepted?
//! - [`AuthContext`]: what authentication found out; `hermes_rules::judge` decides from it whose
//!   the exchange is.
//! - `hashing` and `turns`: passwords are checked a few at a time, in an order in which no source takes the others' turns.
//!
//! What it is not: it does not verify certificates (the TLS layer has done that), it knows no
//! route, and it writes no response: the data plane turns its verdict into one.
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
