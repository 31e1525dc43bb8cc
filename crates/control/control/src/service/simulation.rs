//! Controller and agents under a seeded scheduler: messages that are late or lost, nodes and controllers that crash at any step, disks
//! that have only half of what was to be written, documents that a node refuses, exchanges that fail with a change, nodes that are brought up
//! to date alone, restrictions that go to all at once, clocks that jump.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};

use fastrand::Rng;
use hermes_agent::{Current, Effect, Machine, Refused};
use hermes_api::{
    AgentMessage, Figures, Hash, Health, Name, Notice, Revision, SigningKey, Statement,
    agent_message, controller_message::Content,
};

use super::fleet::{Arrival, Change, Fleet, Gathering, Session};
use super::in_force::compiled;
use super::offering::{Offering, pieces};
use super::published::{Part, Published};
use crate::authority::Member;
use crate::resources::{Source, Tree, read};
use crate::rollout::{Bake, Order, RankedNode, StopBounds, Wave, waves};

/// Seeds of one run.
const SEEDS: u64 = 10_000;

/// Steps of one seed before everything heals.
const STEPS: usize = 120;

/// Steps that healing may take.
const HEALING: usize = 20_000;

/// A part of the overlay whose node refuses documents with it.
const BAD: &str = "BAD";

/// The node that refuses them, after another one has put the same state in force.
const REFUSES: &str = "ingress";

static KEY: LazyLock<SigningKey> =
    LazyLock::new(|| SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap());

/// States to change between; the last one is refused by the nodes that have `BAD` in their documents.
static STATES: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let names = [&["ONE"][..], &["ONE", "TWO"], &["TWO"], &["ONE", BAD]];
    names.iter().map(|names| published(&tree(names))).collect()
});

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// An ingress, a relay's place and an end behind it, with these names.
fn tree(names: &[&str]) -> Tree {
    let mut text = String::from(
        "apiVersion: hermes/v1
kind: Node
metadata: { name: ingress }
spec: { listen: 127.0.0.1:8443, reach: [127.0.0.1:8443], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: end }
spec: { listen: 127.0.0.1:8444, reach: [127.0.0.1:8444] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: s }
spec: { at: [{ node: end, address: 127.0.0.1:8000 }] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: p }
spec: { rules: [{ match: { user: alice }, allow: true }] }
",
    );
    for name in names {
        let lower = name.to_lowercase();
        text.push_str(&format!(
            "---\napiVersion: hermes/v1\nkind: Name\nmetadata: {{ name: {lower} }}\nspec: {{ name: {name}, service: s }}\n"
        ));
    }
    let source = Source {
        name: "simulation.yaml".as_ref(),
        text: &text,
    };
    read(&[source]).unwrap()
}

fn published(tree: &Tree) -> Published {
    Published {
        revision: Revision::FIRST,
        tree: Arc::new(tree.clone()),
        documents: compiled(tree, "sim.test", None).unwrap(),
        authorities: Part::new(b"authorities".to_vec()),
        revoked: Part::new(b"revoked".to_vec()),
        confirm: None,
        endorsements: Arc::default(),
    }
}

/// A node with its disk and its link.
struct Node {
    name: Name,
    user: Option<Name>,
    machine: Machine,
    disk: Disk,
    /// The machine's effects, in its order.
    effects: VecDeque<Effect>,
    /// The data plane.
    in_force: Option<Statement>,
    link: Option<Link>,
}

/// The state that a crash leaves.
#[derive(Default)]
struct Disk {
    parts: BTreeMap<Hash, Vec<u8>>,
    current: Option<Current>,
    seen: Option<Revision>,
}

/// A stream between a node and the controller.
struct Link {
    session: Session,
    offering: Offering,
    to_node: VecDeque<Content>,
    to_controller: VecDeque<AgentMessage>,
}

struct World {
    rng: Rng,
    now: u64,
    fleet: Fleet,
    nodes: Vec<Node>,
    /// Contents that a node may ever have, by node and revision.
    told: BTreeMap<(Name, Revision), BTreeSet<Hash>>,
}

impl Node {
    fn new(name: Name, user: Option<Name>) -> Self {
        Self {
            machine: machine(&name, &Disk::default()),
            name,
            user,
            disk: Disk::default(),
            effects: VecDeque::new(),
            in_force: None,
            link: None,
        }
    }

    /// The process ends, and its memory is gone.
    fn crash(&mut self) {
        self.machine = machine(&self.name, &self.disk);
        self.effects.clear();
        self.link = None;
        self.in_force = self
            .disk
            .current
            .as_ref()
            .map(|current| current.statement.clone());
    }

    /// Does the next thing that the machine wants.
    fn act(&mut self, rng: &mut Rng) {
        let Some(effect) = self.effects.pop_front() else {
            return;
        };
        match effect {
            Effect::Report(statement) => {
                let health = exchanges(rng, statement);
                if let Some(link) = &mut self.link {
                    link.to_controller.push_back(AgentMessage {
                        content: Some(agent_message::Content::Health(health)),
                    });
                }
            }
            Effect::Say(mut message) => {
                if let Some(agent_message::Content::Acknowledgement(word)) = &mut message.content {
                    let statement = Hash::try_from(&*word.statement).unwrap();
                    word.health = Some(exchanges(rng, statement));
                }
                if let Some(link) = &mut self.link {
                    link.to_controller.push_back(message);
                }
            }
            Effect::Keep { parts, seen, .. } => {
                self.disk.seen = Some(seen);
                for (hash, bytes) in parts {
                    if rng.u8(..) < 3 {
                        // The machine loses power between two files.
                        return self.crash();
                    }
                    self.disk.parts.insert(hash, bytes);
                }
                self.effects.extend(self.machine.kept(Ok(())));
            }
            Effect::Apply { statement, .. } => self.apply(statement),
            Effect::Follow { signed, statement } => {
                let parts = &self.disk.parts;
                assert!(
                    statement
                        .parts
                        .values()
                        .all(|hash| parts.contains_key(hash))
                );
                self.disk.current = Some(Current {
                    hash: Hash::of(&signed.bytes),
                    statement,
                });
            }
            Effect::Confirm | Effect::Leave => panic!("no one asked for that"),
        }
    }

    fn apply(&mut self, statement: Statement) {
        let document = statement.parts.get(hermes_api::parts::DOCUMENT).unwrap();
        let refuses = self.name.as_str() == REFUSES && is_bad(&self.disk.parts[document]);
        let outcome = if refuses {
            Err(vec![Refused {
                path: "routes[0]".to_owned(),
                reason: "it is bad".to_owned(),
            }])
        } else {
            let before = self.in_force.as_ref().map(|before| before.revision);
            assert!(
                before <= Some(statement.revision),
                "{} goes back",
                self.name
            );
            self.in_force = Some(statement);
            Ok(String::new())
        };
        let parts = &self.disk.parts;
        let has = |hash: &Hash| parts.contains_key(hash);
        let effects = self.machine.applied(outcome, &has);
        self.effects.extend(effects);
    }

    fn hear(&mut self, content: Content) {
        let parts = &self.disk.parts;
        let has = |hash: &Hash| parts.contains_key(hash);
        let effects = match content {
            Content::Offer(offer) => self.machine.offered(offer, &has),
            Content::BlobPart(piece) => self.machine.part(piece),
            Content::Notice(notice) => self.machine.noticed(Notice::try_from(notice).unwrap()),
            Content::Controllers(_) => unreachable!("there is one controller"),
            Content::Agreed(_) => unreachable!("no node proposes"),
        };
        self.effects.extend(effects);
    }
}

/// Exchanges of a node that go well, mostly.
fn exchanges(rng: &mut Rng, statement: Hash) -> Health {
    let figures = |failures| Figures {
        exchanges: 100,
        failures,
        ..Figures::default()
    };
    let is_bad = rng.u8(..) < 20;
    Health {
        statement: statement.as_bytes().to_vec(),
        before: Some(figures(0)),
        since: Some(figures(if is_bad { 50 } else { 0 })),
    }
}

fn machine(name: &Name, disk: &Disk) -> Machine {
    Machine::new(
        self::name("sim"),
        name.clone(),
        KEY.verifying(),
        disk.current.clone(),
        disk.seen,
    )
}

impl World {
    fn new(seed: u64) -> Self {
        let first = Arc::new(STATES[0].clone());
        let nodes = [
            ("end", None),
            ("ingress", None),
            ("laptop", Some("alice")),
            ("desk", Some("alice")),
        ];
        let mut world = Self {
            rng: Rng::with_seed(seed),
            now: 0,
            fleet: Fleet::new(first.clone()),
            nodes: nodes
                .map(|(node, user)| Node::new(name(node), user.map(name)))
                .into(),
            told: BTreeMap::new(),
        };
        world.tell(&first);
        world
    }

    /// Remembers the contents of a state.
    fn tell(&mut self, state: &Published) {
        for node in &self.nodes {
            let recipient = state.recipient(&node.name, node.user.as_ref());
            if let Some(statement) = state.statement(&name("sim"), &node.name, &recipient) {
                let key = (node.name.clone(), state.revision);
                self.told
                    .entry(key)
                    .or_default()
                    .insert(statement.content());
            }
        }
    }

    fn step(&mut self) {
        self.now += self.rng.u64(0..50);
        if self.rng.u8(..) == 0 {
            // The machine slept: much time has passed between two steps.
            self.now += self.rng.u64(0..120_000);
        }
        let index = self.rng.usize(..self.nodes.len());
        match self.rng.u8(..100) {
            0..25 => self.deliver_to_node(index),
            25..50 => self.deliver_to_controller(index),
            50..75 => self.nodes[index].act(&mut self.rng),
            75..82 => self.wake(index),
            82..87 => self.cut(index),
            87..92 => self.connect(index),
            92..94 => self.crash(index),
            94..95 => self.restart(),
            95..97 => self.change(),
            97..98 => self.revoke(),
            98..99 => drop(self.fleet.update(&self.nodes[index].name)),
            _ => {
                let _ = self.fleet.tick(self.now);
                self.go_on();
            }
        }
        self.check();
    }

    fn connect(&mut self, index: usize) {
        if self.nodes[index].link.is_some() {
            return;
        }
        let node = &mut self.nodes[index];
        // Work that has begun goes on, only what was on the way is lost.
        node.machine.disconnected();
        let session = self.fleet.came(arrival(node), self.now / 1000);
        let content = node.machine.content();
        node.link = Some(Link {
            session,
            offering: Offering::new(name("sim"), node.name.clone(), node.user.clone(), content),
            to_node: VecDeque::new(),
            to_controller: VecDeque::new(),
        });
        self.wake(index);
    }

    /// The stream of a node looks at its target.
    fn wake(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(link) = &mut node.link else {
            return;
        };
        let target = self.fleet.target(&node.name);
        let followed = link.offering.follow(target.clone(), &KEY);
        link.to_node.extend(followed.say);
        if followed.is_in_step {
            let word = super::fleet::Word {
                revision: target.published.revision,
                progress: hermes_api::Progress::Confirmed,
                mistakes: Vec::new(),
                report: String::new(),
                health: None,
            };
            let _ = self.fleet.heard(&node.name, target.mark, word, self.now);
        }
    }

    fn deliver_to_node(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let message = node.link.as_mut().and_then(|link| link.to_node.pop_front());
        if let Some(content) = message {
            node.hear(content);
        }
    }

    fn deliver_to_controller(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(link) = &mut node.link else {
            return;
        };
        let message = link
            .to_controller
            .pop_front()
            .and_then(|message| message.content);
        match message {
            Some(agent_message::Content::Wanted(wanted)) => {
                for part in link.offering.parts(&wanted.hashes) {
                    link.to_node.extend(pieces(&part).map(Content::BlobPart));
                }
            }
            Some(agent_message::Content::Acknowledgement(word)) => {
                if let Some(heard) = link.offering.acknowledged(word) {
                    let _ = self
                        .fleet
                        .heard(&node.name, heard.mark, heard.word, self.now);
                }
            }
            Some(agent_message::Content::Health(health)) => {
                if let Some(mark) = link.offering.reported(&health) {
                    let _ = self.fleet.health(&node.name, mark, &health, self.now);
                }
            }
            Some(agent_message::Content::Hello(_) | agent_message::Content::Proposed(_)) | None => {
            }
        }
    }

    fn cut(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if let Some(link) = node.link.take() {
            node.machine.disconnected();
            let _ = self.fleet.left(&node.name, link.session.id, self.now);
        }
    }

    fn crash(&mut self, index: usize) {
        self.cut(index);
        self.nodes[index].crash();
    }

    /// The controller crashes and starts: its store has the state that the last change leads to, and the one that a change under way began from.
    fn restart(&mut self) {
        let published = self.fleet.published().clone();
        let course = self.fleet.ends().filter(|_| self.fleet.is_changing());
        self.fleet = Fleet::new(published);
        if let Some([before, next]) = course {
            self.resume(&before, next);
        }
        for node in &mut self.nodes {
            node.link = None;
            node.machine.disconnected();
        }
    }

    /// The next controller takes up a change.
    fn resume(&mut self, before: &Published, next: Arc<Published>) {
        let before = Published {
            revision: next.revision,
            revoked: next.revoked.clone(),
            ..before.clone()
        };
        let back = Published {
            revision: next.revision.next(),
            ..before.clone()
        };
        self.tell(&before);
        self.tell(&back);
        self.fleet.gather(Gathering {
            overlay: name("sim"),
            stages: vec![Arc::new(before), next],
            back: Arc::new(back),
            members: self.nodes.iter().map(|node| node.name.clone()).collect(),
            until: self.now + 2000,
        });
    }

    /// The nodes of such a change have had their time to come.
    fn go_on(&mut self) {
        if let Some([before, next]) = self.fleet.gathered(self.now) {
            let ranked = self.ranked(&before, &next);
            let waves = waves(&ranked, Order::ReceiversFirst, 1);
            let bake = self.bake();
            let _ = self.fleet.go_on(vec![waves], bake, self.now);
        }
    }

    /// An operator changes the overlay.
    fn change(&mut self) {
        self.settle();
        if self.fleet.is_changing() {
            return;
        }
        let before = self.fleet.published().clone();
        let next = Published {
            revision: before.revision.next(),
            ..STATES[self.rng.usize(..STATES.len())].clone()
        };
        let next = Arc::new(next);
        let back = Arc::new(Published {
            revision: next.revision.next(),
            ..(*before).clone()
        });
        self.tell(&next);
        self.tell(&back);
        let ranked = self.ranked(&before, &next);
        let bake = self.bake();
        let change = Change {
            stages: vec![next],
            waves: vec![match self.rng.u8(..4) {
                // Something is only taken away.
                0 => vec![Wave::of(ranked.into_iter().map(|node| node.name))],
                _ => waves(&ranked, Order::ReceiversFirst, 1),
            }],
            back,
            bake,
        };
        let _ = self.fleet.begin(change, self.now);
    }

    /// The nodes that a change concerns.
    fn ranked(&self, before: &Published, next: &Published) -> Vec<RankedNode> {
        let concerned = self.nodes.iter().filter(|node| {
            let recipient = |state: &Published| state.recipient(&node.name, node.user.as_ref());
            next.parts(&recipient(next)) != before.parts(&recipient(before))
        });
        let ranked = concerned.map(|node| RankedNode {
            name: node.name.clone(),
            rank: u32::from(node.user.is_some()),
            class: String::new(),
        });
        ranked.collect()
    }

    /// Some changes are looked at, for a while or a moment.
    fn bake(&mut self) -> Bake {
        Bake {
            time: self.rng.u64(0..3) * 500,
            stages: vec![1],
            is_asked_for: self.rng.bool(),
            bounds: StopBounds::default(),
        }
    }

    /// The store keeps the end of a change at once.
    fn settle(&mut self) {
        if !self.fleet.is_spreading() && !self.fleet.is_gathering() {
            self.fleet.settled();
        }
    }

    /// Someone is revoked, whatever else goes on: all nodes learn it at once.
    fn revoke(&mut self) {
        let revision = self.fleet.published().revision.next();
        let revoked = Part::new(format!("revoked {revision}").into_bytes());
        let amended = std::cell::RefCell::new(Vec::new());
        self.fleet.amend(revision, &|state, revision| {
            let state = Published {
                revision,
                revoked: revoked.clone(),
                ..state.clone()
            };
            amended.borrow_mut().push(state.clone());
            state
        });
        for state in amended.into_inner() {
            self.tell(&state);
        }
    }

    /// The invariants, at each step.
    fn check(&self) {
        for node in &self.nodes {
            let Some(statement) = &node.in_force else {
                continue;
            };
            assert_eq!(statement.node, node.name);
            // Never a mixture of two states, and never one that was not told.
            let told = self.told.get(&(node.name.clone(), statement.revision));
            let is_told = told.is_some_and(|told| told.contains(&statement.content()));
            assert!(is_told, "{} has a state that no one told it", node.name);
        }
    }

    /// Nothing is lost any more: everyone comes into step.
    fn heal(&mut self) {
        for index in 0..self.nodes.len() {
            self.connect(index);
        }
        for turn in 0..HEALING {
            for index in 0..self.nodes.len() {
                self.wake(index);
                self.deliver_to_node(index);
                // Without a crash: the randomness of disks is over.
                self.nodes[index].act(&mut Rng::with_seed(7));
                self.deliver_to_controller(index);
            }
            self.now += 400;
            let _ = self.fleet.tick(self.now);
            self.go_on();
            self.check();
            self.settle();
            if turn % 16 == 15 && !self.fleet.is_changing() && self.is_in_step() {
                return;
            }
        }
        panic!("they do not come into step");
    }

    fn is_in_step(&self) -> bool {
        let state = self.fleet.published();
        self.nodes.iter().all(|node| {
            let recipient = state.recipient(&node.name, node.user.as_ref());
            let wanted = state.parts(&recipient);
            let has = node.in_force.as_ref().map(|statement| &statement.parts);
            // A node may refuse for good what its controller crashed with.
            let document = state.document(&recipient);
            let is_bad = document.is_some_and(|document| is_bad(&document.part.bytes));
            has == wanted.as_ref() || is_bad && node.name.as_str() == REFUSES
        })
    }
}

/// Whether a document has the part that its node refuses; names are in small letters there.
fn is_bad(document: &[u8]) -> bool {
    String::from_utf8_lossy(document)
        .to_uppercase()
        .contains(BAD)
}

fn arrival(node: &Node) -> Arrival {
    Arrival {
        member: Member {
            node: node.name.clone(),
            user: node.user.clone(),
            expires: u64::MAX,
            expired: false,
        },
        version: String::new(),
        binary: None,
        content: node.machine.content(),
    }
}

#[test]
fn whatever_is_lost_no_node_has_a_mixed_or_older_state_and_all_come_into_step() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                world.step();
            }
            world.heal();
        }));
        assert!(ran.is_ok(), "seed {seed}");
    }
}
