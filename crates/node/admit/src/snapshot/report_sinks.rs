//! Who is told what is seen and decided.

use hermes_config::Problem;
use hermes_config::model::{ClientTls, Document, HttpUrl};
use hermes_observe::Destination;
use hermes_upstream::client_tls;

use crate::decision_log::DecisionLog;

/// Who is told what is seen and decided.
pub struct ReportSinks {
    /// Who gets spans and metrics.
    pub collector: Option<Destination>,
    /// Who gets decisions, and what of them.
    pub decisions: Option<Box<DecisionLog>>,
}

impl ReportSinks {
    /// As a document says, with the files of TLS that it names.
    pub fn read(document: &Document, problems: &mut Vec<Problem>) -> Self {
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
        }
    }
}

/// A server that is told something, with the files of its TLS; `path` is where these are written.
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
