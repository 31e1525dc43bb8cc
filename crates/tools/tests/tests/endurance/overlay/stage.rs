//! The overlay: a controller, the node that all requests pass, and spare nodes that only follow changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use hermes_tests::eventually::eventually_true;
use hermes_tests::free;
use hermes_tests::gate::Gate;
use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::overlay::{Hub, Joined};
use hermes_tests::resources::Resources;
use serde_json::Value;

/// Names of the spare nodes.
pub const SPARES: [&str; 2] = ["one", "two"];

/// Time from the beginning of a change until the controller is killed, at most, in milliseconds.
const SOON: u64 = 60;

/// The processes, and all that they were told.
pub struct Stage {
    pub controller: Hub,
    pub device: Joined,
    pub spares: Vec<Joined>,
    /// The ways of the spare nodes to the controller.
    pub gates: Vec<Gate>,
    _edge: Joined,
    origin: Origin<Request>,
    places: Vec<SocketAddr>,
    /// Changes so far.
    changes: usize,
    /// Those that were acknowledged since the history was last looked at.
    acknowledged: Vec<String>,
    /// How many were acknowledged.
    made: usize,
    /// Revisions in force at the spare nodes when they were last looked at.
    seen: BTreeMap<&'static str, Revision>,
    kills_soon: bool,
}

/// Epoch and number.
type Revision = (u64, u64);

impl Stage {
    /// Starts all of it, with a service that the device may ask.
    pub fn set() -> Self {
        let origin = origins::http();
        let controller = Hub::controller();
        let places: Vec<_> = (0..=SPARES.len()).map(|_| free::tcp()).collect();
        controller.apply(&overlay(&places, origin.address(), 0), &[]);
        let edge = controller.member("edge");
        let gates: Vec<_> = SPARES
            .iter()
            .map(|_| Gate::to(controller.agents()))
            .collect();
        let join = |(name, gate): (&&'static str, &Gate)| {
            let url = format!("https://{}", gate.address());
            controller.member_at(name, &url)
        };
        let spares = SPARES.iter().zip(&gates).map(join).collect();
        let device = controller.device("alice", "laptop");
        Self {
            controller,
            device,
            spares,
            gates,
            _edge: edge,
            places,
            origin,
            changes: 0,
            acknowledged: Vec::new(),
            made: 0,
            seen: BTreeMap::new(),
            kills_soon: false,
        }
    }

    /// The controller is killed while the next change is made.
    pub fn kill_soon(&mut self) {
        self.kills_soon = true;
    }

    /// Changes a resource that concerns all nodes. Whether it was acknowledged is kept.
    pub fn change(&mut self, seed: usize) {
        self.changes += 1;
        let message = format!("change {} of seed {seed}", self.changes);
        let text = overlay(&self.places, self.origin.address(), self.changes);
        // A user who loses everything would be a slip; and no one waits to see how the first nodes fare.
        let arguments = ["--message", &message, "--force", "--now"];
        if std::mem::take(&mut self.kills_soon) {
            let after = Duration::from_millis(self.changes as u64 * 17 % SOON);
            let mut begun = self.controller.begin_apply(&text, &arguments);
            sleep(after);
            self.controller.kill();
            if begun.wait().is_ok_and(|status| status.success()) {
                self.acknowledged.push(message);
            }
            return;
        }
        if self.controller.try_apply(&text, &arguments).code == 0 {
            self.acknowledged.push(message);
        }
    }

    /// That most changes were made, whatever happened beside them.
    pub fn judge_changes(&self) {
        let Self { made, changes, .. } = self;
        assert!(made * 2 > *changes, "{made} of {changes} changes were made");
    }

    /// Starts the controller again.
    pub fn start_controller(&mut self) {
        self.controller.run();
    }

    /// Waits until all nodes have what they should have.
    pub fn come_in_step(&self, seed: usize) {
        for name in SPARES.iter().chain(&["edge", "laptop"]) {
            eventually_true(&format!("seed {seed}: {name} is in step"), || {
                self.controller.is_in_step(name)
            });
        }
    }

    /// That no spare node follows an older revision than before.
    pub fn judge_revisions(&mut self) {
        for (name, node) in SPARES.iter().zip(&self.spares) {
            let now = in_force(node);
            let before = self.seen.insert(name, now).unwrap_or_default();
            assert!(now >= before, "{name} went from {before:?} to {now:?}");
        }
    }

    /// That each change is in one revision at most, and in one if it was acknowledged.
    pub fn judge_history(&mut self, seed: usize) {
        let history = self.controller.ask(&["history"]).unwrap();
        let states = history.as_array().unwrap();
        let messages: Vec<_> = states.iter().map(|state| &state["message"]).collect();
        let times = |wanted: &str| {
            messages
                .iter()
                .filter(|message| **message == wanted)
                .count()
        };
        self.made += self.acknowledged.len();
        for message in self.acknowledged.drain(..) {
            assert_eq!(times(&message), 1, "seed {seed}: {message}: {history:#}");
        }
        for message in &messages {
            let message = message.as_str().unwrap();
            let is_ours = message.starts_with("change ");
            assert!(!is_ours || times(message) == 1, "{message}: {history:#}");
        }
    }
}

/// The revision that a node's next start follows.
fn in_force(node: &Joined) -> Revision {
    let file = node.state().join("current.json");
    let file: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let statement: Value = serde_json::from_str(file["statement"].as_str().unwrap()).unwrap();
    let text = statement["revision"].as_str().unwrap();
    let (epoch, number) = text.split_once('.').unwrap_or(("1", text));
    (epoch.parse().unwrap(), number.parse().unwrap())
}

/// Resources, one of which is another one after each change.
fn overlay(places: &[SocketAddr], server: SocketAddr, change: usize) -> String {
    let mut resources = Resources::new();
    for (name, place) in ["edge"].into_iter().chain(SPARES).zip(places) {
        let upper = name.to_uppercase();
        resources = match name {
            "edge" => resources.ingress(name, place).name("VIDEO", name),
            _ => resources.node(name, place).name(&upper, name),
        };
        resources = resources.service(name, &[(name, server)]);
    }
    let matched = format!("target: [VIDEO, ONE, TWO], user: [alice, user-{change}]");
    resources.allow("all", &matched).text()
}
