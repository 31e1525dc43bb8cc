//! Chains of next proxies: every payload through 1 to 4 of them, and what the outer ones can see.

mod changes;
mod ends;
mod overlay;
mod payloads;
mod sealed;
mod status;
