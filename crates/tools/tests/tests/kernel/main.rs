//! What Hermes leaves to a kernel that this machine may not have: the same programs in an emulated machine, with a kernel of Debian.
//!
//! QEMU interprets its instructions, so that it needs no more rights than any program, and shows no times that count.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod emulated;
mod tls;
