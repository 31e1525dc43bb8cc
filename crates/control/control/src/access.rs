//! What users reach, as the nodes judge by which exchanges enter: for who changes an overlay and wants to know what it takes away.
//!
//! A judgement here is about the first node alone, and about plain requests and tunnels: the nodes after it have the rules and routes of
//! the same resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_config::model::{Document, ExchangeKind, HostMatch, TargetMatch, UserMatch};
use hermes_rules::judge::{Arrived, ArrivedPath, Authenticated, Entrance, RemovedFields};
use hermes_rules::{Fields, Rules, Source, Target};
use http::{HeaderValue, Method};

use crate::compile::Compiled;
use crate::resources::{GroupSpec, Key, Kind, NameSpec, Spec, Tree};

/// Judgements about one change. A large overlay is looked at in part.
#[doc(alias = "bound")]
const JUDGEMENTS: usize = 20_000;

/// The listener by which devices enter.
const OVERLAY: &str = "overlay";

/// A change that takes something away from users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// A name that stays, and that no user reaches any more.
    Name(Key),
    /// A user who reaches nothing any more, and a name that he reached.
    User {
        /// The user.
        user: String,
        /// A target that he reached.
        reached: String,
    },
}

/// Nodes by which exchanges enter an overlay.
pub struct Entries(Vec<EntryNode>);

struct EntryNode {
    document: Document,
    rules: Rules<()>,
}

/// A target as a user asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Destination {
    host: String,
    port: u16,
}

impl Entries {
    /// Those of all documents by which devices enter.
    pub fn of<'c>(documents: impl Iterator<Item = &'c Compiled>) -> Self {
        let has_devices =
            |compiled: &&Compiled| compiled.document["peers"].get("devices").is_some();
        let entries = documents.filter(has_devices).filter_map(|compiled| {
            let document: Document = serde_json::from_value(compiled.document.clone()).ok()?;
            let node = document.node.clone().unwrap_or_default();
            let rules = Rules::compile(&document, node.into(), |_, _| Some(())).ok()?;
            Some(EntryNode { document, rules })
        });
        Self(entries.collect())
    }

    fn reaches(&self, user: &str, destination: &Destination, now: u64) -> bool {
        self.0.iter().any(|entry| {
            let kinds = [ExchangeKind::Http, ExchangeKind::Connect];
            kinds
                .into_iter()
                .any(|kind| entry.reaches(user, destination, kind, now).unwrap_or(false))
        })
    }
}

impl EntryNode {
    /// `None`: devices do not enter here.
    fn reaches(
        &self,
        user: &str,
        destination: &Destination,
        kind: ExchangeKind,
        now: u64,
    ) -> Option<bool> {
        let certificate = self.certificate(user)?;
        let known = self
            .rules
            .peers
            .certified([certificate.as_str()].into_iter(), Some(&certificate));
        let is_tunnel = kind == ExchangeKind::Connect;
        let arrived = Arrived {
            entrance: Entrance {
                name: OVERLAY,
                config: self.document.listeners.get(OVERLAY)?,
                user: None,
            },
            source: known.unwrap_or(Source::Client),
            authenticated: Authenticated {
                user: Some(&certificate),
                by_certificate: true,
                ..Authenticated::default()
            },
            kind,
            target: Target::Host {
                name: &destination.host,
                port: destination.port,
            },
            target_host: &destination.host,
            authority: None,
            method: match is_tunnel {
                true => &Method::CONNECT,
                false => &Method::GET,
            },
            path: ArrivedPath {
                path: if is_tunnel { "" } else { "/" },
                query: None,
            },
            protocol: None,
            peer: None,
            tls_peer: Some(&certificate),
        };
        let mut fields = Fields::new();
        fields.append("user", HeaderValue::from_str(user).ok()?);
        let judged = self
            .rules
            .judge(&arrived, fields, now, &mut RemovedFields::default());
        let is_way =
            |route: &hermes_config::model::Route| route.to.is_some() || route.terminate.is_some();
        Some(judged.is_ok_and(|judged| is_way(&judged.route.config)))
    }

    /// The certificate of a user's device.
    fn certificate(&self, user: &str) -> Option<String> {
        let devices = self.document.peers.get("devices")?;
        let pattern = devices.certificate.first()?.to_string();
        Some(pattern.replace("{user}", user).replace('*', "device"))
    }
}

/// The access that is lost in whole from one state to the next. `users` are those that are known beside the resources; `now` is in Unix seconds.
pub fn losses(states: &[View; 2], users: &BTreeSet<String>, now: u64) -> Vec<Loss> {
    let [before, after] = states;
    let mut users = users.clone();
    users.extend(named_users(&before.tree));
    let [was, is] = states.each_ref().map(|state| destinations(&state.tree));
    let mut search = Search {
        before: &before.entries,
        after: &after.entries,
        now,
        left: JUDGEMENTS,
    };
    let mut losses = Vec::new();

    for (key, old) in &was {
        // The name may be written in another way by now.
        let Some(new) = is.get(key) else {
            continue;
        };
        let pairs = |target| users.iter().map(move |user| (user.as_str(), target));
        if search.lost(pairs(old), pairs(new)).is_some() {
            losses.push(Loss::Name(key.clone()));
        }
    }
    for user in &users {
        let old = was.values().map(|target| (user.as_str(), target));
        let new = is.values().map(|target| (user.as_str(), target));
        if let Some(target) = search.lost(old, new) {
            losses.push(Loss::User {
                user: user.clone(),
                reached: target.host.clone(),
            });
        }
    }
    losses
}

/// A state of the overlay: its resources, and the nodes by which exchanges enter.
pub struct View {
    /// The resources.
    pub tree: Arc<Tree>,
    /// The nodes.
    pub entries: Entries,
}

struct Search<'a> {
    before: &'a Entries,
    after: &'a Entries,
    now: u64,
    /// Judgements that may still be made.
    left: usize,
}

impl Search<'_> {
    /// A target that one of the pairs `before` reached, if none of those `after` reaches anything.
    fn lost<'t>(
        &mut self,
        before: impl Iterator<Item = (&'t str, &'t Destination)>,
        after: impl Iterator<Item = (&'t str, &'t Destination)>,
    ) -> Option<&'t Destination> {
        // Mostly the first one reaches something: then the state before does not matter.
        for (user, target) in after {
            self.left = self.left.checked_sub(1)?;
            if self.after.reaches(user, target, self.now) {
                return None;
            }
        }
        for (user, target) in before {
            self.left = self.left.checked_sub(1)?;
            if self.before.reaches(user, target, self.now) {
                return Some(target);
            }
        }
        None
    }
}

/// An example of each target of the names of a tree.
fn destinations(tree: &Tree) -> BTreeMap<Key, Destination> {
    let names = tree.of_kind(Kind::Name);
    let names = names.filter_map(|resource| match resource.spec() {
        Spec::Name(name) => Some((resource.key().clone(), example(resource.key(), name)?)),
        _ => None,
    });
    names.collect()
}

fn example(key: &Key, name: &NameSpec) -> Option<Destination> {
    let own: Option<TargetMatch> = key.name.as_str().parse().ok();
    let target = name.name.as_deref().and_then(<[_]>::first);
    let target = target.or(own.as_ref())?;
    let host = match &target.host {
        HostMatch::Exact(host) => host.clone(),
        HostMatch::Suffix(suffix) => format!("any{suffix}"),
        _ => return None,
    };
    Some(Destination {
        host,
        port: target.port.unwrap_or(80),
    })
}

/// Users whom resources name.
fn named_users(tree: &Tree) -> BTreeSet<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut add = |users: &[UserMatch]| texts.extend(users.iter().map(ToString::to_string));
    for resource in tree.resources() {
        match resource.spec() {
            Spec::Policy(policy) => {
                for rule in &policy.rules {
                    add(rule.matches.user.as_deref().unwrap_or_default());
                }
            }
            Spec::Name(name) => add(name.users.as_deref().unwrap_or_default()),
            _ => {}
        }
    }
    for resource in tree.resources() {
        match resource.spec() {
            Spec::User(_) => texts.push(resource.key().name.to_string()),
            Spec::Group(GroupSpec { members, .. }) => {
                texts.extend(members.iter().map(ToString::to_string));
            }
            _ => {}
        }
    }
    // Patterns and groups are no users.
    let is_user = |text: &String| text.parse::<hermes_api::Name>().is_ok();
    texts.into_iter().filter(is_user).collect()
}
