//! A shared HTTP cache between requests and their next hop (RFC 9111), named by `through` of a route.
//!
//! It stores whole answers to GET, serves them again, also in part, validates those that are stale, and says with `Cache-Status`
//! (RFC 9211) how it used them. Targeted control (RFC 9213) counts before `Cache-Control`. It is no private cache, answers nothing from
//! parts that are not whole together, and invents no freshness.
//!
//! Two users share a stored response only where the origin says that it is for everyone. A request field that the cache does not
//! know is part of the key, so that no request decides the answer to another one.
//!
//! The rules are pure: `control`, `freshness`, `storable`, `selection`, `precondition` and `range` take fields and ages.
//! Begin reading in `asked` and `fetch`, which ask them in the order of RFC 9111.

mod asked;
mod body;
mod cache_status;
mod choice;
mod collect;
mod collect_part;
mod control;
mod disk;
mod fetch;
mod flights;
mod freshness;
mod handler;
mod kept;
mod ledger;
mod moment;
mod name;
mod parts;
mod plug;
mod precondition;
mod promotion;
mod question;
mod range;
mod rest;
mod restore;
mod selection;
mod serve;
mod settings;
mod shared;
mod storable;
mod storage;
mod stored;
mod tags;

pub use plug::register;
