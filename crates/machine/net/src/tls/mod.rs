//! TLS 1.2 and 1.3 with rustls and the aws-lc-rs provider, which is always named explicitly.
//!
//! [`server`] and [`client`] make configurations from files, or from text in their place; [`accept`] and [`connect`] wrap a stream.

mod client;
mod file_error;
mod files;
mod handshake;
mod judged_server;
mod kept_records;
mod kernel;
mod kernel_halves;
mod names;
mod record_cursor;
mod revocation;
mod revocation_list;
mod server;
mod sessions;
mod source;
mod system;
mod trust_domains;
mod validity;
mod words;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use crate::shown_chain::ShownChain;
pub use client::{ClientOptions, RevocationsInForce, TlsClient, client};
pub use file_error::{TlsFileError, TlsPart};
pub use handshake::{TlsError, TlsErrorKind, accept, connect};
pub use judged_server::{AnyServer, JudgedServer, ServerJudge};
pub(crate) use kept_records::KeptRecords;
pub use kernel::kernel_carries;
pub(crate) use kernel::leave_to_kernel;
pub(crate) use kernel_halves::{KernelReadHalf, KernelWriteHalf};
pub use names::certificate_names;
use record_cursor::RecordCursor;
pub use server::{
    Clients, TlsServerOptions, certified, certified_as_is, certified_key, server, server_by,
};
pub use source::{FILE_BYTES, TlsSource};
pub use system::{reread_system_authorities, system_generation};
pub use trust_domains::TrustDomain;
pub use validity::{Span, Unlisted, of_certificate, of_certificates, of_revocations, unlisted};
pub(crate) use words::of_text;
pub use words::{Fault, alert_ends_handshake, remedy_of_alert, remedy_of_certificate};

/// The one provider of cryptography.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
