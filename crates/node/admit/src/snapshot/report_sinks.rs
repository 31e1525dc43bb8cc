//! Where reports of exchanges, decisions and connections go.

use hermes_config::Problem;
use hermes_config::model::{ClientTls, Document, HttpUrl};
use hermes_net::quic::Record;
use hermes_observe::Destination;
use hermes_rules::route::HiddenPaths;
use hermes_upstream::client_tls;

use crate::decision_log::DecisionLog;

/// Where reports of exchanges, decisions and connections go.
pub struct ReportSinks {
    /// The collector of spans and metrics.
    pub collector: Option<Destination>,
    /// The log of decisions.
    pub decisions: Option<Box<DecisionLog>>,
    /// The traces and secrets of QUIC connections that are written down for debugging.
    pub connections: Record,
    /// Paths that none of them get.
    pub(super) hidden_paths: HiddenPaths,
}

impl ReportSinks {
    /// As a document says, with the files of TLS that it names.
    pub(super) fn read(
        document: &Document,
        connections: Record,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let trace = &document.trace;
        let collector = trace.otlp.clone();
        let collector = collector
            .and_then(|server| destination(server, trace.tls.clone(), "trace.tls", problems));

        let decisions = document.log.decisions.as_ref().map(|config| {
            let service = config.url.clone();
            let service = service.and_then(|server| {
                destination(server, config.tls.clone(), "log.decisions.tls", problems)
            });
            Box::new(DecisionLog::new(config, service))
        });

        Self {
            collector,
            decisions,
            connections,
            hidden_paths: HiddenPaths::default(),
        }
    }
}

/// A server that gets reports, with the files of its TLS; `path` is their place in the document.
fn destination(
    server: HttpUrl,
    details: Option<ClientTls>,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<Destination> {
    let details = details.unwrap_or_default();
    let tls = server
        .tls
        .then(|| client_tls(path, &details, &[b"http/1.1"]))
        .transpose();
    let tls = tls.map_err(|problem| problems.push(problem));

    Some(Destination {
        server,
        tls: tls.ok()?.map(Into::into),
        server_name: details.server_name,
    })
}
