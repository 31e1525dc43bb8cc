//! Who is told what is seen and decided.

use std::path::PathBuf;

use hermes_config::child;
use hermes_config::model::{ClientTls, Document, FilePath, HttpUrl};
use hermes_net::tls::ClientOptions;
use hermes_observe::Destination;

use crate::decision_log::DecisionLog;

/// Who is told what is seen and decided.
pub struct Told {
    /// Who gets spans and metrics.
    pub collector: Option<Destination>,
    /// Who gets decisions, and what of them.
    pub decisions: Option<Box<DecisionLog>>,
}

impl Told {
    /// As a document says, with the files of TLS that it names.
    pub fn read(
        document: &Document,
        report: &mut impl FnMut(String, String, Option<String>),
    ) -> Self {
        let trace = &document.trace;
        let collector = trace.otlp.clone();
        let collector = collector
            .and_then(|server| destination(server, trace.tls.clone(), "trace.tls", report));

        let decisions = document.log.decisions.as_ref().map(|config| {
            let service = config.url.clone();
            let service = service.and_then(|server| {
                destination(server, config.tls.clone(), "log.decisions.tls", report)
            });
            Box::new(DecisionLog::new(config, service))
        });

        Self {
            collector,
            decisions,
        }
    }
}

/// A server that is told something, with the files of its TLS; `path` is where these are written.
fn destination(
    server: HttpUrl,
    details: Option<ClientTls>,
    path: &str,
    report: &mut impl FnMut(String, String, Option<String>),
) -> Option<Destination> {
    let details = details.unwrap_or_default();
    let file = |file: &Option<FilePath>| file.as_ref().map(|file| file.0.clone());
    let ca = file(&details.ca_file);
    let cert = file(&details.cert_file);
    let key = file(&details.key_file);

    let lists: Vec<PathBuf> = details
        .crl_file
        .iter()
        .flatten()
        .map(|file| file.0.clone())
        .collect();

    let options = ClientOptions {
        crl_files: &lists,
        ca_file: ca.as_deref(),
        cert_file: cert.as_deref(),
        key_file: key.as_deref(),
        insecure_skip_verify: details.insecure_skip_verify,
        alpn: &[b"http/1.1"],
    };

    let tls = server
        .tls
        .then(|| hermes_net::tls::client(options))
        .transpose();
    let tls = tls.map_err(|error| {
        let files = [("ca_file", &ca), ("cert_file", &cert), ("key_file", &key)];
        let named = files
            .iter()
            .find(|(_, file)| file.as_deref() == Some(&*error.file));
        let wrong = named.map_or("crl_file", |(key, _)| key);
        report(
            child(path, wrong),
            format!("{}: {}", error.file.display(), error.reason),
            error.remedy,
        );
    });

    Some(Destination {
        server,
        tls: tls.ok()?.map(Into::into),
        server_name: details.server_name,
    })
}
