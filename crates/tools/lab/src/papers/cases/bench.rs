//! The parts that both cases share.

use std::time::Duration;

use super::super::bench::PaperBench;
use crate::pki::{PROXY, Pki};

/// How long a system may take to start.
pub(super) const START_LIMIT: Duration = Duration::from_secs(30);

/// Pause between two looks.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// A case with its sizes.
pub(super) struct CaseBench<'a> {
    /// The bench of all papers.
    pub papers: &'a PaperBench<'a>,
    /// Certificates of both nodes.
    pub pki: &'a Pki,
    /// Megabytes of each transfer.
    pub sizes: &'a [u64],
}

/// The keys of `tls` at the node beside the clients.
pub(super) fn client_tls(pki: &Pki) -> String {
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let ca = pki.ca();
    format!(
        "ca_file: {}, cert_file: {}, key_file: {}, server_name: {PROXY}",
        ca.display(),
        cert.display(),
        key.display()
    )
}

/// The keys of `tls` at the node beside the site.
pub(super) fn server_tls(pki: &Pki) -> String {
    let cert = pki.cert(PROXY);
    let key = pki.key(PROXY);
    let ca = pki.ca();
    format!(
        "client_ca_file: {}, cert_file: {}, key_file: {}",
        ca.display(),
        cert.display(),
        key.display()
    )
}
