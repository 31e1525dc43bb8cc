//! TLS of a client, from the files that a document names.

use std::path::Path;

use hermes_config::model::{ClientTls, FilePath};
use hermes_config::{Problem, child};
use hermes_net::tls::{self, ClientOptions, TlsClient, TlsFileError};

/// Reads the files of a client's TLS, which stands at `path`, for connections that offer these application protocols.
///
/// # Errors
/// A file that cannot be used.
pub fn client_tls(path: &str, details: &ClientTls, alpn: &[&[u8]]) -> Result<TlsClient, Problem> {
    let client = tls::client(ClientOptions {
        crl_files: &details.crl_files(),
        ca_file: file(&details.ca_file),
        cert_file: file(&details.cert_file),
        key_file: file(&details.key_file),
        insecure_skip_verify: details.insecure_skip_verify,
        alpn,
    });
    client.map_err(|error| file_problem(path, details.files(), error))
}

fn file(file: &Option<FilePath>) -> Option<&Path> {
    file.as_ref().map(|file| file.0.as_path())
}

/// A file that cannot be used, at the key below `path` that names it; at `path` itself, if no key
/// does.
pub fn file_problem<'a>(
    path: &str,
    mut files: impl Iterator<Item = (&'static str, &'a FilePath)>,
    error: TlsFileError,
) -> Problem {
    let key = files.find(|(_, file)| file.0 == error.file);
    Problem {
        remedy: error.remedy,
        ..Problem::new(
            key.map_or_else(|| path.to_owned(), |(key, _)| child(path, key)),
            format!("{}: {}", error.file.display(), error.reason),
        )
    }
}
