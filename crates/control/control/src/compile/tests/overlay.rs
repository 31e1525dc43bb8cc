//! Random small overlays, and what they should do.

use fastrand::Rng;
use serde_json::{Value as Json, json};

use crate::resources::{API_VERSION, Key, Kind, Resource, Tree};

/// Users of random overlays.
pub(super) const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Names that they ask for.
pub(super) const TARGETS: [&str; 4] = ["video", "db", "mail", "wiki"];

/// A random overlay, in words of its own.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    pub(super) nodes: Vec<NodeSketch>,
    /// From and to; `None`: each may send to each.
    links: Option<Vec<[usize; 2]>>,
    /// The nodes of each service, with their weights.
    pub(super) services: Vec<Vec<(usize, u16)>>,
    names: Vec<NameSketch>,
    rules: Vec<RuleSketch>,
    /// The members of the only group.
    group: Vec<&'static str>,
}

#[derive(Debug, Clone)]
pub(super) struct NodeSketch {
    pub(super) ingress: bool,
    has_listener: bool,
    /// It keeps a connection to this node, and listens for none.
    pub(super) attach: Option<usize>,
}

#[derive(Debug, Clone)]
struct NameSketch {
    target: &'static str,
    users: Option<Users>,
    service: usize,
}

#[derive(Debug, Clone)]
struct RuleSketch {
    order: i16,
    target: Option<&'static str>,
    users: Users,
    allows: bool,
}

/// Users, as resources name them.
#[derive(Debug, Clone)]
enum Users {
    All,
    One(&'static str),
    Group,
}

impl Users {
    fn random(random: &mut Rng) -> Self {
        match random.u8(0..4) {
            0 => Self::All,
            1 => Self::Group,
            _ => Self::One(USERS[random.usize(0..USERS.len())]),
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::All => json!("*"),
            Self::One(user) => json!(user),
            Self::Group => json!("group:team"),
        }
    }
}

/// What becomes of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is refused where it enters.
    Refused,
    /// It reaches this service.
    Reaches(usize),
}

impl Sketch {
    pub(super) fn random(random: &mut Rng) -> Self {
        let count = random.usize(1..8);
        let nodes = (0..count).map(|index| {
            let attaches = index > 1 && random.u8(0..4) == 0;
            NodeSketch {
                ingress: !attaches && (index == 0 || random.u8(0..6) == 0),
                has_listener: !attaches && random.u8(0..4) == 0,
                attach: attaches.then(|| random.usize(0..2)),
            }
        });
        let nodes: Vec<_> = nodes.collect();
        let services = (0..3).map(|_| {
            let ends = random.usize(1..3);
            (0..ends)
                .map(|_| (random.usize(0..count), random.u16(1..4)))
                .collect()
        });
        let services: Vec<_> = services.collect();
        Self {
            links: (random.u8(0..3) > 0).then(|| links(&nodes, random)),
            names: names(random),
            rules: (0..random.usize(0..7)).map(|_| rule(random)).collect(),
            group: USERS.into_iter().filter(|_| random.bool()).collect(),
            nodes,
            services,
        }
    }

    /// Another overlay of the same nodes: some of its names, services, rules and links are others.
    pub(super) fn changed(&self, random: &mut Rng) -> Self {
        let other = Self::random(random);
        let mut changed = self.clone();
        let count = self.nodes.len();
        if random.bool() {
            let ends = |ends: &Vec<(usize, u16)>| {
                ends.iter()
                    .map(|(node, weight)| (node % count, *weight))
                    .collect()
            };
            changed.services = other.services.iter().map(ends).collect();
        }
        if random.bool() {
            changed.names = other.names;
        }
        if random.u8(0..3) == 0 {
            changed.rules = other.rules;
        }
        if random.u8(0..3) == 0 && self.links.is_some() {
            changed.links = Some(links(&self.nodes, random));
        }
        changed
    }

    /// What becomes of a request of a user, by the resources alone.
    pub(super) fn fate(&self, user: &str, target: &str) -> Fate {
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|rule| rule.order);
        let decides = |rule: &&&RuleSketch| {
            rule.target.is_none_or(|one| one == target) && self.means(&rule.users, user)
        };
        let is_allowed = rules.iter().find(decides).is_some_and(|rule| rule.allows);
        if !is_allowed {
            return Fate::Refused;
        }

        let of_target = || self.names.iter().filter(|name| name.target == target);
        let own = of_target().find(|name| {
            name.users
                .as_ref()
                .is_some_and(|users| self.means(users, user))
        });
        let name = own.or_else(|| of_target().find(|name| name.users.is_none()));
        name.map_or(Fate::Refused, |name| Fate::Reaches(name.service))
    }

    /// Whether a rule denies a target to everyone, also to those who are allowed it before.
    pub(super) fn denies_all(&self, target: &str) -> bool {
        self.rules.iter().any(|rule| {
            let is_for = rule.target.is_none_or(|one| one == target);
            !rule.allows && is_for && matches!(rule.users, Users::All)
        })
    }

    fn means(&self, users: &Users, user: &str) -> bool {
        match users {
            Users::All => true,
            Users::One(one) => *one == user,
            Users::Group => self.group.contains(&user),
        }
    }

    /// The same nodes with other services, names and rules.
    pub(super) fn renamed(&self, random: &mut Rng) -> Self {
        let other = Self::random(random);
        let count = self.nodes.len();
        let ends = |ends: &Vec<(usize, u16)>| {
            let ends = ends.iter();
            ends.map(|(node, weight)| (node % count, *weight)).collect()
        };
        Self {
            nodes: self.nodes.clone(),
            links: self.links.clone(),
            services: other.services.iter().map(ends).collect(),
            ..other
        }
    }

    /// The same overlay about these users alone.
    pub(super) fn of_members(mut self, members: &[&str]) -> Self {
        let is_stranger =
            |users: &Users| matches!(users, Users::One(user) if !members.contains(user));
        let named = |name: &NameSketch| !name.users.as_ref().is_some_and(is_stranger);
        self.names.retain(named);
        self.rules.retain(|rule| !is_stranger(&rule.users));
        self.group.retain(|user| members.contains(user));
        self
    }

    /// Whether a target means something for some user.
    pub(super) fn knows(&self, target: &str) -> bool {
        self.names.iter().any(|name| name.target == target)
    }

    /// Its resources.
    pub(super) fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        self.add_nodes(&[], &mut tree);
        self.add_others("default", &mut tree);
        tree
    }

    /// Adds the nodes and links of the operator, who lets these tenants use them.
    pub(super) fn add_nodes(&self, tenants: &[&str], tree: &mut Tree) {
        let mut add = adder("default", tree);
        for (index, node) in self.nodes.iter().enumerate() {
            let mut spec = match node.attach {
                Some(hub) => json!({ "attach": [format!("n{hub}")] }),
                None => json!({
                    "listen": "0.0.0.0:8443", "reach": [format!("10.0.0.{index}:8443")], "ingress": node.ingress,
                }),
            };
            if !tenants.is_empty() {
                spec["tenants"] = json!(tenants);
            }
            if node.has_listener {
                spec["listeners"] = json!({ "web": { "http": "127.0.0.1:8080", "user": "alice" } });
            }
            add(Kind::Node, format!("n{index}"), spec);
        }
        for (index, [from, to]) in self.links.iter().flatten().enumerate() {
            let spec = json!({ "from": format!("n{from}"), "to": format!("n{to}") });
            add(Kind::Link, format!("l{index}"), spec);
        }
    }

    /// Adds services, names and rules of a tenant.
    pub(super) fn add_others(&self, tenant: &str, tree: &mut Tree) {
        let mut add = adder(tenant, tree);
        for (index, ends) in self.services.iter().enumerate() {
            let ends: Vec<_> = ends
                .iter()
                .map(|(node, weight)| json!({ "node": format!("n{node}"), "address": format!("127.0.0.1:800{index}"), "weight": weight }))
                .collect();
            add(Kind::Service, format!("s{index}"), json!({ "at": ends }));
        }
        for (index, name) in self.names.iter().enumerate() {
            let mut spec = json!({ "name": name.target, "service": format!("s{}", name.service) });
            if let Some(users) = &name.users {
                spec["for"] = users.json();
            }
            add(Kind::Name, format!("a{index}"), spec);
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let mut matches = json!({ "user": rule.users.json() });
            if let Some(target) = rule.target {
                matches["target"] = json!(target);
            }
            let verb = if rule.allows { "allow" } else { "deny" };
            let spec = json!({ "order": rule.order, "rules": [{ "match": matches, verb: true }] });
            add(Kind::Policy, format!("p{index}"), spec);
        }
        add(
            Kind::Group,
            "team".to_owned(),
            json!({ "members": self.group }),
        );
    }
}

/// Adds resources of a tenant.
pub(super) fn adder(tenant: &str, tree: &mut Tree) -> impl FnMut(Kind, String, Json) {
    move |kind, name, spec| {
        let metadata = json!({ "name": name, "tenant": tenant });
        let json = json!({ "apiVersion": API_VERSION, "kind": kind.word(), "metadata": metadata, "spec": spec });
        let resource = Resource::from_json(&json).unwrap();
        tree.insert(resource, None).unwrap();
    }
}

/// Each node is reached from one with a smaller number, and sometimes from others; each ingress reaches the first node.
fn links(nodes: &[NodeSketch], random: &mut Rng) -> Vec<[usize; 2]> {
    let mut links = Vec::new();
    for (index, node) in nodes.iter().enumerate().skip(1) {
        if node.attach.is_some() {
            continue;
        }
        let from = random.usize(index.saturating_sub(2)..index);
        links.push([from, index]);
        if node.ingress && !links.contains(&[index, 0]) {
            links.push([index, 0]);
        }
    }
    for from in 0..nodes.len() {
        let to = random.usize(0..nodes.len());
        if from != to
            && nodes[to].attach.is_none()
            && random.u8(0..4) == 0
            && !links.contains(&[from, to])
        {
            links.push([from, to]);
        }
    }
    links
}

/// One name for all of each target at most, and one for some users before it.
fn names(random: &mut Rng) -> Vec<NameSketch> {
    let mut names = Vec::new();
    for target in TARGETS {
        let mut add = |users: Option<Users>, random: &mut Rng| {
            let service = random.usize(0..3);
            names.push(NameSketch {
                target,
                users,
                service,
            });
        };
        if random.bool() {
            let user = USERS[random.usize(0..USERS.len())];
            add(Some(Users::One(user)), random);
        }
        if random.u8(0..4) > 0 {
            add(None, random);
        }
    }
    names
}

fn rule(random: &mut Rng) -> RuleSketch {
    RuleSketch {
        order: random.i16(-2..3),
        target: random
            .bool()
            .then(|| TARGETS[random.usize(0..TARGETS.len())]),
        users: Users::random(random),
        allows: random.u8(0..3) > 0,
    }
}

/// A key of a resource of the default tenant.
pub(super) fn key(kind: Kind, name: &str) -> Key {
    Key::new(kind, name.parse().unwrap())
}
