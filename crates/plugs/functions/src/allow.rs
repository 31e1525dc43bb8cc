//! The allow-list: exchanges to other targets go no further.

use std::sync::Arc;

use hermes_config::Problem;
use hermes_config::model::{HostMatch, PortMatch, TargetMatch};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Admitting, Beginning, BeginningDatagrams, Settings, Transform, TunnelSubject};
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;

/// The settings of `allow`. Named alone it lets nothing through.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AllowSettings {
    /// Ports of targets that pass: `443`, `1-1023`. Default: any.
    #[serde(default)]
    ports: Vec<PortMatch>,
    /// Targets that pass: a host, `host:port`, a network, or a pattern with a star. Default: any.
    #[serde(default)]
    targets: Vec<TargetMatch>,
}

/// Refuses exchanges whose target its settings do not name.
#[derive(Default)]
pub struct Allow(AllowSettings);

impl Allow {
    fn make(settings: AllowSettings) -> Result<Arc<dyn Transform>, Vec<Problem>> {
        let mut problems = Vec::new();
        if settings.ports.is_empty() && settings.targets.is_empty() {
            let problem = Problem::new("", "it lets nothing through");
            problems.push(problem.remedy("give it `ports`, `targets` or both"));
        }
        for (index, target) in settings.targets.iter().enumerate() {
            if matches!(target.host, HostMatch::Service(_)) {
                let reason = "a service is a condition of routes and policy";
                let problem = Problem::new(format!("targets[{index}]"), reason);
                problems.push(problem.remedy("write its targets"));
            }
        }

        if problems.is_empty() {
            Ok(Arc::new(Self(settings)))
        } else {
            Err(problems)
        }
    }

    fn judge(&self, subject: &TunnelSubject<'_>) -> Result<(), Refusal> {
        let AllowSettings { ports, targets } = &self.0;
        let host = subject.target.host();
        let port = subject.target.port();
        let is_port = |matched: &PortMatch| port.is_some_and(|port| matched.matches(port));
        let has_port = ports.is_empty() || ports.iter().any(is_port);
        let has_target =
            targets.is_empty() || targets.iter().any(|target| target.matches(host, port));
        let names_any = !ports.is_empty() || !targets.is_empty();

        if names_any && has_port && has_target {
            return Ok(());
        }
        let details = format!("{} is not on the allow-list", subject.target);
        Err(Refusal::new(ProxyError::HttpRequestDenied, details))
    }
}

impl Transform for Allow {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        Box::pin(std::future::ready(self.judge(tunnel).map(|()| None)))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        Box::pin(std::future::ready(self.judge(tunnel).map(|()| None)))
    }

    fn admit<'a>(&'a self, request: &'a TunnelSubject<'a>) -> Admitting<'a> {
        Box::pin(std::future::ready(self.judge(request)))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        Some(Settings::<dyn Transform>::new(Self::make))
    }

    fn memory(&self) -> usize {
        0
    }
}
