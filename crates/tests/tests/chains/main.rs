//! Chains of next proxies: every payload through 1 to 4 of them, and what the outer ones can see.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod changes;
mod overlay;
mod payloads;
mod sealed;
mod status;
