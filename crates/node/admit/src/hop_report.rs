//! Reports of the way that an exchange takes, for a client that asks by [`Proxy-Trace`](hermes_proto::hop_report).
//!
//! Only a client that is [told](crate::explain) why something failed is told its way, and of allowed exchanges only: one that is
//! refused is answered as any other. A user gets a bounded number of reports in a second; beyond that the exchange goes on without.

use hermes_http::{LateField, RequestHead};
use hermes_net::clock;
use hermes_net::memory::Owner;
use hermes_proto::hop_report::{self, HopReport};
use hermes_proto::proxy_status::PROXY_STATUS;
use hermes_rules::route::Act;

use crate::next::CompiledRoute;
use crate::phases::entered::Entered;
use crate::snapshot::Snapshot;

/// Whether the client asks for reports and may have them. If not, no later proxy is asked, either.
pub(crate) fn believe(entered: &Entered, head: &mut RequestHead) -> bool {
    if !head.fields.contains_key(hop_report::FIELD) {
        return false;
    }
    let is_believed = entered.explained && hop_report::is_asked(&head.fields);
    if !is_believed {
        head.fields.remove(hop_report::FIELD);
    }
    is_believed
}

/// Whether the user, or the source of no user, may have a report now.
pub(crate) fn has_turn(entered: &Entered, user: Option<&str>, head: &mut RequestHead) -> bool {
    let owner = Owner::of(user, &entered.source.peer);
    let rates = &entered.entrance.worker.shared.shares.reports;
    let has_turn = rates.admit(&owner, clock::now().into_std());
    if !has_turn {
        head.fields.remove(hop_report::FIELD);
    }
    has_turn
}

/// The report of this node, made when the exchange is answered.
pub(crate) fn late(entered: &Entered, route: &CompiledRoute, rule: Option<usize>) -> LateField {
    let exchange = entered.exchange.clone();
    let node = entered.snapshot.node.name.clone();
    let rule = rule_name(&entered.snapshot, rule);
    let planned = only_hop(route);
    let is_end = !matches!(route.act, Act::Proxy(_));

    LateField::new(move || {
        let way = exchange.way();
        let report = HopReport {
            rule: rule.clone(),
            // Of an exchange that ends here by `Max-Forwards`, which is sent nowhere.
            next_hop: way.next_hop.clone().or_else(|| planned.clone()),
            is_end,
            ..way
        };
        (PROXY_STATUS, report.member(&node))
    })
}

/// The rule that decided, `default` if none did; `None` without a policy.
fn rule_name(snapshot: &Snapshot, rule: Option<usize>) -> Option<String> {
    let policy = snapshot.rules.policy.as_ref()?;
    let rule = rule.and_then(|index| policy.rules().get(index));
    Some(rule.map_or_else(|| "default".to_owned(), |rule| rule.name.to_string()))
}

/// The name of the next hop, where the route has no choice.
fn only_hop(route: &CompiledRoute) -> Option<String> {
    match &route.act {
        Act::Proxy(hops) => (!hops.is_choice()).then(|| hops.pick(0).name().to_string()),
        Act::Origin(next) => Some(next.name().to_string()),
        Act::Attach(_) | Act::Respond(_) | Act::Redirect(_) | Act::Handle(_) => None,
    }
}
