//! The steps of a refusal: the request that was kept, compared with the rules in force.

use std::net::IpAddr;
use std::time::UNIX_EPOCH;

use hermes_admit::filter;
use hermes_admit::filter::KnownUser;
use hermes_admit::refusals::remembered::RememberedRefusal;
use hermes_admit::snapshot::{ListenerRules, Snapshot};
use hermes_config::model::ExchangeKind;
use hermes_config::{child, element};
use hermes_http::RequestHead;
use hermes_observe::FunctionView;
use hermes_plug::target::Target;
use hermes_proto::authority;
use hermes_proto::fields::Fields;
use hermes_rules::judge::{Arrived, ArrivedPath, Authenticated, Phase, Step};
use hermes_rules::{ClaimedGroups, Facts};
use http::Method;
use http::uri::PathAndQuery;
use serde_json::Value;

/// Steps that are told of one refusal: of ten thousand rules that did not match, no one reads more.
#[doc(alias = "bound")]
const STEPS: usize = 1000;

/// The steps of a refusal, in order; the last says why.
pub(super) fn steps(remembered: &RememberedRefusal, snapshot: &Snapshot) -> Vec<Step> {
    let mut steps = Vec::new();
    let listener = snapshot.listeners.get(&remembered.listener);
    let head = remembered.head.as_deref();
    if let Some((listener, head)) = listener.zip(head)
        && remembered.last.phase > Phase::Identify
    {
        compared(remembered, snapshot, listener, head, &mut steps);
    }

    if let Some((listener, learnt)) = listener.zip(remembered.learnt.as_ref()) {
        let entrance = listener.entrance();
        let rules = &snapshot.rules;
        rules.recount_removed(&entrance, &learnt.removed, &mut steps);
    }

    // By their phases, too: removed fields come before the consequences.
    authorized(remembered, snapshot, &mut steps);
    if remembered.last.phase == Phase::Forward {
        went(remembered, snapshot, &mut steps);
    }

    // The last ones lead to the decision.
    steps.drain(..steps.len().saturating_sub(STEPS));
    steps.push(remembered.last.clone());
    steps
}

/// The comparisons of the rules, up to the phase in which it was refused.
fn compared(
    remembered: &RememberedRefusal,
    snapshot: &Snapshot,
    listener: &ListenerRules,
    head: &RequestHead,
    steps: &mut Vec<Step>,
) {
    let source = &remembered.source;
    let Ok(target) = Target::of(head, &listener.forms(), source.tls.is_some()) else {
        return;
    };

    let learnt = remembered.learnt.as_ref();
    let user = learnt.and_then(|learnt| learnt.view.user.as_deref());
    let certificate = source.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
    let groups = learnt.map(|learnt| Value::from(learnt.claimed.clone()));
    let claimed = ClaimedGroups(groups.as_ref());
    let whose = KnownUser { user, claimed };
    let facts = filter::facts(head, &target, whose, source, &listener.name);
    let arrived = Arrived {
        entrance: listener.entrance(),
        source: snapshot.source_of(listener, source),
        authenticated: Authenticated {
            user,
            claimed,
            by_certificate: false,
        },
        kind: facts.kind,
        target: facts.target,
        target_host: target.host(),
        authority: facts.authority,
        method: &head.method,
        path: ArrivedPath {
            path: facts.path,
            query: head.path.as_ref().and_then(PathAndQuery::query),
        },
        protocol: facts.protocol,
        peer: source.peer.socket(),
        tls_peer: certificate.and_then(|names| names.primary()),
    };

    let since = remembered.time.duration_since(UNIX_EPOCH);
    let when = since.unwrap_or_default().as_secs();
    let reached = remembered.last.phase;
    snapshot
        .rules
        .recount(&arrived, user, &head.fields, reached, when, steps);
}

/// The words of the filters when they were asked.
fn authorized(remembered: &RememberedRefusal, snapshot: &Snapshot, steps: &mut Vec<Step>) {
    let said = remembered.learnt.iter().flat_map(|learnt| &learnt.filters);
    for said in said {
        let name = said.split(' ').next().unwrap_or_default();
        let mut filters = snapshot.document.authorize.iter();
        let place = filters.position(|filter| filter.name == name).map_or_else(
            || "authorize".to_owned(),
            |index| element("authorize", index),
        );

        steps.push(Step {
            phase: Phase::Authorize,
            path: place,
            said: format!("remembered: {said}"),
        });
    }
    // The routes were compared after that.
    steps.sort_by_key(|step| step.phase);
}

/// The routes before the one that it took, as far as records tell why it did not take them.
fn passed_over(
    remembered: &RememberedRefusal,
    snapshot: &Snapshot,
    taken: usize,
    steps: &mut Vec<Step>,
) {
    let Some(learnt) = &remembered.learnt else {
        return;
    };
    let view = &learnt.view;
    let (host, path) = match view.target.find('/') {
        Some(start) => view.target.split_at(start),
        None => (view.target.as_str(), ""),
    };
    let Ok((host, Some(port))) = authority::split(host) else {
        return;
    };
    let Ok(method) = view.method.parse::<Method>() else {
        return;
    };

    let groups = Value::from(learnt.claimed.clone());
    let facts = Facts {
        kind: kind_of(view.kind),
        target: hermes_rules::Target::Host { name: &host, port },
        authority: None,
        path,
        method: &method,
        protocol: None,
        fields: &Fields::new(),
        user: view.user.as_deref(),
        claimed: ClaimedGroups(Some(&groups)),
        source: remembered.source.peer.socket().map(|peer| peer.ip()),
        listener: &remembered.listener,
    };
    snapshot.rules.recount_routes(taken, &facts, steps);
}

/// What a function did for an exchange that was refused later.
fn describe_function(function: &FunctionView) -> String {
    let FunctionView { name, began_us, .. } = function;
    let up = format!(
        "{} B in and {} B out towards the target",
        function.to_target_in, function.to_target_out
    );
    let down = format!(
        "{} and {} back",
        function.to_client_in, function.to_client_out
    );
    format!("{name} began in {began_us} µs; {up}, {down}")
}

/// The kind as a record names it. A POST that is a tunnel came as a request.
fn kind_of(word: &str) -> ExchangeKind {
    let tunnels = [
        ExchangeKind::Connect,
        ExchangeKind::ConnectTcp,
        ExchangeKind::ConnectUdp,
        ExchangeKind::ConnectIp,
        ExchangeKind::Upgrade,
    ];
    let mut known = tunnels.into_iter();
    known
        .find(|kind| kind.word() == word)
        .unwrap_or(ExchangeKind::Http)
}

/// The route that it took, and how far it came there.
fn went(remembered: &RememberedRefusal, snapshot: &Snapshot, steps: &mut Vec<Step>) {
    let Some(learnt) = &remembered.learnt else {
        return;
    };
    let routes = &snapshot.document.routes;
    if let Some(name) = &learnt.view.route
        && !steps.iter().any(|step| step.phase == Phase::Route)
    {
        let named =
            |route: &&std::sync::Arc<hermes_admit::next::CompiledRoute>| *route.name == **name;
        let found = snapshot.rules.table.routes().find(named);
        let index = found.map_or(routes.len(), |route| route.index);
        if let Some(route) = found {
            passed_over(remembered, snapshot, route.index, steps);
        }
        let action = found.map(|route| hermes_rules::judge::describe_action(&route.config));
        let action = action.map_or_else(String::new, |action| format!("; {action}"));
        steps.push(Step {
            phase: Phase::Route,
            path: element("routes", index),
            said: format!("{name}: yes{action}"),
        });
    }

    for function in &learnt.view.progress.functions {
        steps.push(Step {
            phase: Phase::Forward,
            path: "through".to_owned(),
            said: describe_function(function),
        });
    }
    for endpoint in &learnt.tried {
        let upstream = learnt.view.upstream.as_deref().unwrap_or_default();
        let is_address = endpoint.parse::<IpAddr>().is_ok();
        let path = match snapshot.document.upstreams.get(upstream) {
            Some(_) => child(&child("upstreams", upstream), "endpoints"),
            None => "egress".to_owned(),
        };
        let what = if is_address { "address" } else { "endpoint" };
        steps.push(Step {
            phase: Phase::Forward,
            path,
            said: format!("tried {what} {endpoint}"),
        });
    }
}
