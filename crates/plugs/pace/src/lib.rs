//! Requests to an origin that bounds its rate, at the pace that it says: `through: [ pace ]`.
//!
//! Clients of an API that answers 429 (RFC 6585) or 503 with `Retry-After` ask again on their own, and so make it worse. This function holds
//! their requests until the origin has room for them, lets users take turns, and asks again itself where an answer says that nothing was
//! done. A client sees no 429 that it could not have avoided.
//!
//! - `words`: what an answer says of the origin's bounds. `budget`: the pure core, which knows neither sockets nor clocks: learned from
//!   these words (and by gaps where there are none, `spacing`), or the token buckets of *Rethinking HTTP API Rate Limiting* (ATB and AATB).
//! - `turns`: who waits, by user. `origin`: both together. `handler`: a request on its way. Begin reading there.
//! - `keeper`: turns of another node, where several share one budget; `permits`: those that are lent.
//! - `shares`: a bound for each user, over all origins.
//! - `kept`: contents that may be sent again.

mod answered;
mod bucket;
mod budget;
mod handler;
mod keeper;
mod kept;
mod learned;
mod origin;
mod origins;
mod permits;
mod plug;
mod settings;
mod shared;
mod shares;
#[cfg(test)]
mod simulation;
mod spacing;
mod turns;
mod words;

pub use plug::register;
