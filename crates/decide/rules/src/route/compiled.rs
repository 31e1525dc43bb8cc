//! A route with everything that it names found once, when the document is compiled.

use std::fmt;
use std::sync::Arc;

use hermes_config::model::{self, Action, AttachAs, Redirect, Respond, Terminate};

use super::split::{Split, hops_of};

/// A next hop as a route names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop<'a> {
    /// An upstream of other proxies.
    Proxy(&'a str),
    /// An upstream of origins: the overlay ends here.
    Origin(&'a str),
    /// The origin that the request itself names: the overlay ends here.
    Target,
    /// A connector, which opens far ends: the overlay ends here.
    Connector(&'a str),
    /// A handler, which answers here.
    Handler(&'a str),
}

impl fmt::Display for Hop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy(name) | Self::Origin(name) => write!(f, "upstream {name}"),
            Self::Target => f.write_str("upstream (target)"),
            Self::Connector(name) => write!(f, "connector {name}"),
            Self::Handler(name) => write!(f, "handler {name}"),
        }
    }
}

/// One route. `H` is the caller's handle of a next hop, in place of the name.
#[derive(Debug, Clone)]
pub struct Route<H> {
    /// Position in the document's routes.
    pub index: usize,
    /// Name in logs and reasons: its own, or its position, as `routes[3]`.
    pub name: Arc<str>,
    /// As it is written.
    pub config: model::Route,
    /// Its action.
    pub act: Act<H>,
    /// Where copies go of a request that is broadcast; empty without `broadcast`.
    pub copies: Vec<H>,
}

/// The action of a route.
#[derive(Debug, Clone)]
pub enum Act<H> {
    /// Forwards to the next proxy.
    Proxy(Split<H>),
    /// Ends the overlay here: forwards to an origin.
    Origin(H),
    /// Lets the client be attached here.
    Attach(AttachAs),
    /// Answers here.
    Respond(Respond),
    /// Sends the client elsewhere.
    Redirect(Redirect),
    /// Has a handler answer here.
    Handle(H),
}

/// A route that nothing can take; lint reports the same with more words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// Position in the document's routes.
    pub route: usize,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "routes[{}]: {}", self.route, self.reason)
    }
}

impl std::error::Error for Unfit {}

impl<H> Route<H> {
    /// Compiles a route; `find` finds a next hop, or reports that the name is unknown.
    pub(super) fn compile(
        index: usize,
        config: &model::Route,
        mut find: impl FnMut(Hop<'_>) -> Option<H>,
    ) -> Result<Self, Unfit> {
        let unfit = |reason| Unfit {
            route: index,
            reason,
        };

        let mut found = |hop: Hop<'_>| find(hop).ok_or_else(|| unfit(format!("there is no {hop}")));

        let action = config.action();
        let act = match action {
            Some(Action::To(hops)) => {
                let split = Split::compile(hops, |name| found(Hop::Proxy(name)))?;
                Act::Proxy(split.ok_or_else(|| unfit("all weights are zero".to_owned()))?)
            }
            Some(Action::Terminate(Terminate::Upstream(name))) => {
                Act::Origin(found(Hop::Origin(name))?)
            }
            Some(Action::Terminate(Terminate::By(end))) => {
                Act::Origin(found(Hop::Connector(&end.by.name))?)
            }
            // The end of its packets is known where they are taken.
            Some(Action::Terminate(
                Terminate::Target(_)
                | Terminate::Tun(_)
                | Terminate::Intercept(_)
                | Terminate::Ip(_),
            )) => Act::Origin(found(Hop::Target)?),
            Some(Action::Attach(names)) => Act::Attach(names.clone()),
            Some(Action::Respond(respond)) => Act::Respond(respond.clone()),
            Some(Action::Redirect(redirect)) => Act::Redirect(redirect.clone()),
            Some(Action::Handle(name)) => Act::Handle(found(Hop::Handler(name))?),
            None => return Err(unfit("the route has no action".to_owned())),
        };

        let copies = broadcast_hops(config, action).into_iter().map(found);

        Ok(Self {
            index,
            name: name(index, config),
            act,
            copies: copies.collect::<Result<_, _>>()?,
            config: config.clone(),
        })
    }
}

/// A route's name in logs and reasons.
fn name(index: usize, config: &model::Route) -> Arc<str> {
    match &config.name {
        Some(name) => name.as_str().into(),
        None => format!("routes[{index}]").into(),
    }
}

/// Where copies of a broadcast request go: the upstreams that the rule names, or else those of the action.
fn broadcast_hops<'a>(config: &'a model::Route, action: Option<Action<'a>>) -> Vec<Hop<'a>> {
    let Some(rule) = &config.broadcast else {
        return Vec::new();
    };
    let (own, hop): (Vec<&str>, fn(&'a str) -> Hop<'a>) = match action {
        Some(Action::To(model::Hops::Split(split))) => {
            (split.keys().map(String::as_str).collect(), Hop::Proxy)
        }
        Some(Action::To(hops)) => (hops_of(hops).collect(), Hop::Proxy),
        Some(Action::Terminate(Terminate::Upstream(name))) => (vec![name.as_str()], Hop::Origin),
        _ => (Vec::new(), Hop::Origin),
    };

    match &rule.upstreams {
        Some(named) => named.iter().map(|name| hop(name)).collect(),
        None => own.into_iter().map(hop).collect(),
    }
}
