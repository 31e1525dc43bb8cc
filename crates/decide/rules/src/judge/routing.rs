//! The choice of a route for an exchange, in steps.

use hermes_config::model::{Action, Hops, PlugUse, Route, Terminate, Tunnel};
use hermes_config::{child, element};

use super::steps::{Phase, Step, Steps};
use crate::route::{Facts, Table};

/// A step for each route up to the one that is taken.
pub(super) fn compared<H>(table: &Table<H>, facts: &Facts<'_>, steps: &mut impl Steps) {
    if !steps.is_wanted() {
        return;
    }
    for (route, explained) in table.routes().zip(table.explain(facts)) {
        let place = element("routes", route.index);
        let name = &route.name;
        let (path, said) = match &explained.failed {
            Some(failed) => (child(&place, "match"), format!("{name}: no, {failed}")),
            None => {
                let action = describe_action(&route.config);
                (place, format!("{name}: yes; {action}"))
            }
        };

        steps.take(Step {
            phase: Phase::Route,
            path,
            said,
        });

        if explained.matched {
            break;
        }
    }
}

/// The same of an exchange that took the route at `taken`, as far as it is still known.
pub(super) fn compared_partly<H>(
    table: &Table<H>,
    taken: usize,
    facts: &Facts<'_>,
    steps: &mut impl Steps,
) {
    let before = table.routes().zip(table.explain_partly(facts)).take(taken);
    for (route, explained) in before {
        let failed = explained
            .failed
            .unwrap_or_else(|| "by what was not kept of it".to_owned());
        steps.take(Step {
            phase: Phase::Route,
            path: child(&element("routes", route.index), "match"),
            said: format!("{}: no, {failed}", route.name),
        });
    }
}

/// The action of a route, in words.
pub fn describe_action(route: &Route) -> String {
    let mut said = describe_end(route);
    if route.signed.is_some() {
        said.push_str(", if the URL is signed");
    }
    if !route.through.is_empty() {
        said.push_str(", through ");
        said.push_str(&describe_functions(&route.through));
    }
    said
}

/// Functions in their order, each that another node does behind the name of this.
fn describe_functions(through: &[PlugUse]) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut node = "";
    for named in through {
        let text = |key: &str| named.settings.as_ref()?.get(key)?.as_str();
        match text("node").filter(|_| named.name == "at") {
            Some(at) => {
                node = at;
                let asked = named
                    .settings
                    .as_ref()
                    .and_then(|settings| settings.get("do"));
                let names = asked.and_then(|asked| asked.as_array());
                let names = names.into_iter().flatten().filter_map(|name| name.as_str());
                said.extend(names.map(|name| format!("{name} at {at}")));
            }
            None if node.is_empty() => said.push(named.name.clone()),
            None => said.push(format!("{} at {node}", named.name)),
        }
    }
    said.join(", ")
}

fn describe_end(route: &Route) -> String {
    match route.action() {
        Some(Action::To(hops)) => {
            let hops = describe_hops(hops);
            format!("to {hops}{}", beside(route))
        }
        Some(Action::Terminate(Terminate::Target(_))) => {
            "the overlay ends here, at the target".to_owned()
        }
        Some(Action::Terminate(Terminate::Upstream(name))) => {
            format!("the overlay ends here, at upstream {name}")
        }
        Some(Action::Terminate(Terminate::Tun(end))) => {
            format!("the overlay ends here, at the device {}", end.tun)
        }
        Some(Action::Terminate(Terminate::Intercept(_))) => {
            "the overlay ends here; each flow of its packets takes a route of its own".to_owned()
        }
        Some(Action::Terminate(Terminate::Ip(end))) => {
            format!(
                "it becomes packets here, in the tunnel of listener {}",
                end.ip
            )
        }
        Some(Action::Terminate(Terminate::By(end))) => {
            format!("the overlay ends here, at the connector {}", end.by.name)
        }
        Some(Action::Attach(_)) => "the client is attached here".to_owned(),
        Some(Action::Respond(respond)) => {
            format!("answered here with status {}", respond.status)
        }
        Some(Action::Redirect(redirect)) => {
            format!("redirected to {}", redirect.location)
        }
        Some(Action::Handle(name)) => format!("answered here by the handler {name}"),
        None => "nothing".to_owned(),
    }
}

/// The way from here, if there is one beside the next proxy.
fn beside(route: &Route) -> String {
    let Some(direct) = route.tunnel.as_ref().and_then(Tunnel::direct) else {
        return String::new();
    };
    let whose = match direct.takes_requests() {
        true => "",
        false => " for tunnels",
    };
    match direct.after() {
        None => format!(", or from here{whose} once that has failed"),
        Some(after) => {
            let after = after.as_millis();
            format!(", or from here{whose} once that has failed or taken {after} ms")
        }
    }
}

/// Upstreams, with their shares where there are several.
fn describe_hops(hops: &Hops) -> String {
    let split = match hops {
        Hops::One(name) => return name.clone(),
        Hops::Chain(chain) => return chain.name().to_owned(),
        Hops::Split(split) => split,
    };

    let total: u64 = split.values().map(|weight| u64::from(*weight)).sum();
    let share = |(name, weight): (&String, &u32)| {
        let percent = u64::from(*weight) * 100 / total.max(1);
        format!("{name} ({percent} %)")
    };

    split.iter().map(share).collect::<Vec<_>>().join(", ")
}
