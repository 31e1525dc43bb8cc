//! One object from several origins: `through: [ { origins: { others: [cdn.internal] } } ]`.
//!
//! A transfer is a row of pieces (RFC 9110, section 14), each from the origin that answers best at that time, so a transfer that runs moves to another
//! origin and back. Only pieces that certainly are of one representation are put together: the same strong validator, the same
//! length, the right place. It is for downloads by GET; all else passes to the next hop of the route.
//!
//! - `book`: how well each origin answers, and which is asked next: pure. `ways`: how each origin is asked. `transfer`: one object on its way. `digest`: the digest of the
//!   whole, where the origin has told one.
//! - `handler`: which requests become transfers. Begin reading there.

mod book;
mod digest;
mod handler;
mod plug;
mod settings;
mod transfer;
mod ways;

pub use plug::register;
