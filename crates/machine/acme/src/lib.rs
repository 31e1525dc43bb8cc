//! Certificates that an authority issues by itself (ACME): obtained, kept on disk, renewed.
//!
//! A [`Managed`] certificate is one `tls.acme` of a configuration: listeners show it, and its challenges, through rustls. The
//! [`Keeper`] orders and renews the certificates of the configuration in force, on the runtime of administration. [`Tokens`] says
//! how requests for `/.well-known/acme-challenge/` are answered.
//!
//! It decides nothing about exchanges, and knows no listener. Handshakes and requests read the
//! current state, and never wait for an authority or a disk.
//!
//! Specifications: RFC 8555 (ACME, http-01), RFC 8737 (tls-alpn-01), RFC 9773 (renewal information).
//!
//! Begin reading in [`keeper`](Keeper): the life of a certificate. `order` is one attempt to obtain it.

mod client;
mod failure;
mod folder;
mod keeper;
mod managed;
mod order;
mod progress;
mod schedule;
mod tokens;

pub use folder::FolderError;
pub use keeper::Keeper;
pub use managed::{ALPN, Certificates, Managed};
pub use progress::{Progress, ProgressState};
pub use tokens::{PATH, Tokens};
