//! Who reaches what: every user and every name, judged hop by hop in two states of an overlay.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;
use hermes_config::model::ExchangeKind;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Network, SupposedExchange};
use crate::resources::{ExportedName, Key, Kind, PeeringSpec, Resource, Spec, Tree, exported};

/// Walks through one state of an overlay; users and names beyond that are left out, and counted.
#[doc(alias = "bound")]
const WALKS: usize = 50_000;

/// The user who stands for all users that no resource names.
pub const ANYONE: &str = "any-other-user";

/// A state of an overlay.
pub struct Accessible<'a> {
    /// Its resources.
    pub tree: &'a Tree,
    /// Its nodes.
    pub network: Network<'a>,
}

/// A user who reaches something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The user, or [`ANYONE`].
    pub user: String,
    /// Host, and port where the name has one.
    pub target: String,
    /// Upstreams of the services where it ends: of several, where the change leads.
    pub services: Vec<String>,
    /// The nodes where the user enters, if it is not so at all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Name>,
}

/// The difference in access between two states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessChanges {
    /// What users reach after the change, and not before.
    pub gained: Vec<Access>,
    /// What they reach before, and not after.
    pub lost: Vec<Access>,
    /// What they reach by the same name at other servers after the change.
    pub moved: Vec<Access>,
    /// Pairs of a user and a name that were judged.
    pub judged: usize,
    /// Pairs that were not, because there are too many.
    pub left_out: usize,
}

/// A name as users ask for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskedName {
    host: String,
    port: Option<u16>,
}

/// The upstreams that are reached from each node where users enter; none where they are refused.
type ReachedServices = BTreeMap<Name, BTreeSet<String>>;

/// The difference in access between two states, at a time in Unix seconds, for the users in either state and these.
pub fn access_changes(
    before: &Accessible<'_>,
    after: &Accessible<'_>,
    members: impl IntoIterator<Item = String>,
    now: u64,
) -> AccessChanges {
    let mut users: BTreeSet<String> = members.into_iter().collect();
    let mut names = BTreeSet::new();
    for tree in [before.tree, after.tree] {
        users.extend(users_of(tree));
        names.extend(names_of(tree));
    }
    for state in [before, after] {
        names.extend(state.exported_names());
    }
    users.remove(ANYONE);

    // One who is named nowhere stands for all of them, and comes first: rules for everybody show themselves there.
    let users = std::iter::once(ANYONE.to_owned()).chain(users);
    let users: Vec<String> = users.collect();
    let entries = entries(before.tree).len().max(entries(after.tree).len());
    let most = WALKS / entries.max(1) / names.len().max(1);
    let mut changes = AccessChanges {
        left_out: users.len().saturating_sub(most) * names.len(),
        ..AccessChanges::default()
    };
    for user in users.iter().take(most) {
        for name in &names {
            changes.judged += 1;
            let was = before.reached(user, name, now);
            let is = after.reached(user, name, now);
            changes.compare(user, name, &was, &is);
        }
    }
    changes
}

impl AccessChanges {
    /// Whether everybody reaches the same.
    pub fn is_empty(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty() && self.moved.is_empty()
    }

    fn compare(
        &mut self,
        user: &str,
        name: &AskedName,
        was: &ReachedServices,
        is: &ReachedServices,
    ) {
        let nowhere = BTreeSet::new();
        let of = |reached: &ReachedServices, entry: &Name| -> BTreeSet<String> {
            reached.get(entry).unwrap_or(&nowhere).clone()
        };
        let entries: BTreeSet<&Name> = was.keys().chain(is.keys()).collect();
        // An entry that only one of the states has counts for itself: all others tell the same of both.
        let mut lists: [ReachedServices; 3] = Default::default();
        for entry in &entries {
            let old = of(was, entry);
            let new = of(is, entry);
            let (list, services) = match (old.is_empty(), new.is_empty()) {
                _ if old == new => continue,
                (true, false) => (0, new),
                (false, true) => (1, old),
                _ => (2, new),
            };
            lists[list].insert((*entry).clone(), services);
        }
        let [gained, lost, moved] = lists;
        for (found, list) in [
            (gained, &mut self.gained),
            (lost, &mut self.lost),
            (moved, &mut self.moved),
        ] {
            if found.is_empty() {
                continue;
            }
            let is_everywhere = found.len() == entries.len();
            let services: BTreeSet<String> = found.values().flatten().cloned().collect();
            list.push(Access {
                user: user.to_owned(),
                target: name.to_string(),
                services: services.into_iter().collect(),
                at: match is_everywhere {
                    true => Vec::new(),
                    false => found.into_keys().collect(),
                },
            });
        }
    }
}

impl Accessible<'_> {
    /// Whether a user reaches a name from any node where he enters.
    pub(super) fn is_reached(&self, user: &str, name: &AskedName, now: u64) -> bool {
        let exchange = name.asked_by(user, now);
        let mut entries = self.entries(user).into_iter();
        entries.any(|entry| {
            let walk = self.network.walk(entry, exchange);
            walk.ends().is_some_and(|ends| !ends.is_empty())
        })
    }

    /// The nodes where the devices of a user enter; for one of another overlay those at the border.
    fn entries(&self, user: &str) -> Vec<&Name> {
        match self.tree.peering_of(user) {
            Some(peering) => peering.at.iter().collect(),
            None => entries(self.tree),
        }
    }

    /// Names as users of other overlays ask for them, and one of each other overlay.
    fn exported_names(&self) -> BTreeSet<AskedName> {
        let mut names = BTreeSet::new();
        for (key, peering) in self.tree.peerings() {
            names.extend(abroad(peering));
            for export in &peering.exports {
                names.extend(self.exported_as(key, export));
            }
        }
        names
    }

    /// An exported name as users of the other overlay ask for it, by an example of each of its targets.
    pub(super) fn exported_as(&self, peering: &Key, export: &ExportedName) -> Vec<AskedName> {
        let name = self
            .tree
            .resource(&peering.sibling(Kind::Name, &export.name));
        let Some(Spec::Name(spec)) = name.map(Resource::spec) else {
            return Vec::new();
        };
        let own = export.name.as_str().parse().ok();
        let targets = spec.name.as_ref().map(|names| names.0.clone());
        let targets = targets.unwrap_or_else(|| own.into_iter().collect());
        let targets = targets.iter();
        let targets = targets.filter_map(|target| exported(target, self.network.domain()));
        let asked = targets.filter_map(|target| AskedName::example(&target.to_string()));
        asked.collect()
    }

    fn reached(&self, user: &str, name: &AskedName, now: u64) -> ReachedServices {
        let exchange = name.asked_by(user, now);
        let entries = self.entries(user).into_iter();
        let reached = entries.map(|entry| {
            let walk = self.network.walk(entry, exchange);
            let ends = walk.ends().unwrap_or_default().into_keys();
            (entry.clone(), ends.map(str::to_owned).collect())
        });
        reached.collect()
    }
}

impl AskedName {
    /// An example of the targets that a name is written for; `None` for an expression.
    fn example(written: &str) -> Option<Self> {
        if written.starts_with('~') || written.starts_with("service:") {
            return None;
        }
        let (host, port) = match written.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port.parse().ok()?))
            }
            _ => (written, None),
        };
        let host = host.split('/').next().unwrap_or(host);
        Some(Self {
            host: host.replace('*', "any"),
            port,
        })
    }

    fn asked_by<'a>(&'a self, user: &'a str, now: u64) -> SupposedExchange<'a> {
        let get = SupposedExchange {
            now,
            ..SupposedExchange::get(user, &self.host)
        };
        match self.port {
            None | Some(80) => get,
            // Anything may be spoken there, and bytes are asked for by CONNECT.
            Some(port) => SupposedExchange {
                port,
                kind: ExchangeKind::Connect,
                method: &Method::CONNECT,
                path: "",
                ..get
            },
        }
    }
}

impl std::fmt::Display for AskedName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

/// The nodes where devices enter.
fn entries(tree: &Tree) -> Vec<&Name> {
    let nodes = tree
        .of_kind(Kind::Node)
        .filter_map(|node| match node.spec() {
            Spec::Node(spec) if spec.ingress && !spec.is_device() => Some(&node.key().name),
            _ => None,
        });
    nodes.collect()
}

/// Users whom resources name.
pub(crate) fn users_of(tree: &Tree) -> BTreeSet<String> {
    let mut users = BTreeSet::new();
    for resource in tree.resources() {
        if resource.key().kind == Kind::User {
            users.insert(resource.key().name.to_string());
        }
        match resource.spec() {
            Spec::Peering(peering) => users.extend(users_of_other(peering)),
            _ => name_users(resource.written(), &mut users),
        }
    }
    users
}

/// Users of another overlay to whom names are exported, and one who stands for all of them.
fn users_of_other(peering: &PeeringSpec) -> Vec<String> {
    let exports = peering.exports.iter();
    let named = exports.flat_map(|export| examples(peering, export));
    let anyone = format!("{ANYONE}@{}", peering.domain);
    named.chain([anyone]).collect()
}

/// Users to whom a name is exported, with an example of each pattern.
pub(super) fn examples(peering: &PeeringSpec, export: &ExportedName) -> Vec<String> {
    let users = peering.exported_to(export).into_iter();
    users.map(|user| user.replace('*', ANYONE)).collect()
}

/// A name of another overlay, as our users ask for it.
pub(super) fn abroad(peering: &PeeringSpec) -> Option<AskedName> {
    AskedName::example(&format!("*.{}", peering.domain))
}

/// The keys of specs that name users.
const USERS: [&str; 3] = ["user", "members", "for"];

fn name_users(written: &Json, users: &mut BTreeSet<String>) {
    match written {
        Json::Object(fields) => {
            for (name, value) in fields {
                if USERS.contains(&name.as_str()) {
                    add_users(value, users);
                }
                name_users(value, users);
            }
        }
        Json::Array(elements) => elements.iter().for_each(|one| name_users(one, users)),
        _ => {}
    }
}

/// Patterns and groups are no users.
fn add_users(value: &Json, users: &mut BTreeSet<String>) {
    match value {
        Json::String(user) if !user.contains(['*', ':', '~']) => drop(users.insert(user.clone())),
        Json::Array(several) => several.iter().for_each(|one| add_users(one, users)),
        _ => {}
    }
}

/// The names that users may ask for.
fn names_of(tree: &Tree) -> BTreeSet<AskedName> {
    let names = tree.of_kind(Kind::Name).flat_map(asked_as);
    names.collect()
}

/// A name as users ask for it, by an example of each of its targets.
pub(super) fn asked_as(name: &Resource) -> Vec<AskedName> {
    let key = name.key();
    let written = match &name.written()["name"] {
        Json::String(one) => vec![one.clone()],
        Json::Array(several) => {
            let several = several.iter().filter_map(Json::as_str);
            several.map(str::to_owned).collect()
        }
        _ => vec![key.name.to_string()],
    };
    let examples = written
        .iter()
        .filter_map(|written| AskedName::example(written));
    let full = examples.map(|asked| match key.is_operators() {
        true => asked,
        // A user of several tenants means one of them only by its full name.
        false => AskedName {
            host: format!("{}.{}", asked.host, key.tenant),
            ..asked
        },
    });
    full.collect()
}
