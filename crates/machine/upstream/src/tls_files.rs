//! TLS of a client, from the files that a document names, or the texts in their place.

use hermes_config::model::{ClientTls, DataSource};
use hermes_config::{Problem, child};
use hermes_net::tls::{self, ClientOptions, TlsClient, TlsFileError, TlsPart, TlsSource};

/// Reads a client's TLS, which stands at `path`, for connections that offer these application protocols.
///
/// # Errors
/// A file or text that cannot be used.
pub fn client_tls(path: &str, details: &ClientTls, alpn: &[&[u8]]) -> Result<TlsClient, Problem> {
    let lists = details.crl_file.iter().flatten();
    let lists: Vec<_> = lists.map(tls_source).collect();
    let client = tls::client(ClientOptions {
        authorities: details.ca_file.as_ref().map(tls_source),
        revocation_lists: &lists,
        certificate: details.cert_file.as_ref().map(tls_source),
        key: details.key_file.as_ref().map(tls_source),
        insecure_skip_verify: details.insecure_skip_verify,
        alpn,
    });
    client.map_err(|error| client_problem(path, error))
}

/// The place of a certificate, a key or a list that a document names.
pub fn tls_source(source: &DataSource) -> TlsSource<'_> {
    source.either(TlsSource::File, TlsSource::Inline)
}

/// A mistake in a client's TLS, which stands at `path`, at the key below that names the file.
pub(crate) fn client_problem(path: &str, error: TlsFileError) -> Problem {
    tls_problem(path, "ca_file", error)
}

/// A mistake in a server's TLS, likewise.
pub fn server_problem(path: &str, error: TlsFileError) -> Problem {
    tls_problem(path, "client_ca_file", error)
}

fn tls_problem(path: &str, authorities: &str, error: TlsFileError) -> Problem {
    let key = error.part.map(|part| match part {
        TlsPart::Certificate => "cert_file",
        TlsPart::Key => "key_file",
        TlsPart::Authorities => authorities,
        TlsPart::RevocationLists => "crl_file",
    });
    Problem {
        remedy: error.remedy,
        ..Problem::new(
            key.map_or_else(|| path.to_owned(), |key| child(path, key)),
            format!("{}: {}", error.name, error.reason),
        )
    }
}
