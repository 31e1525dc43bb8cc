//! The order of waves, and who stops them.

use hermes_api::Figures;
use proptest::prelude::*;

use super::*;

fn name(index: usize) -> Name {
    format!("n{index}").parse().unwrap()
}

fn canary(index: usize) -> Wave {
    Wave {
        nodes: vec![name(index)],
        is_canary: true,
    }
}

fn ranked(ranks: &[u32]) -> Vec<RankedNode> {
    let nodes = ranks.iter().enumerate();
    nodes
        .map(|(index, rank)| RankedNode {
            name: name(index),
            rank: *rank,
            class: format!("class {rank}"),
        })
        .collect()
}

fn all(_: &Name) -> bool {
    true
}

#[test]
fn receivers_come_first_and_one_node_before_others() {
    let nodes = ranked(&[1, 0, 1, 1, 1, 1, 1, 1, 1]);
    let found = waves(&nodes, Order::ReceiversFirst, 1);
    let sizes: Vec<_> = found.iter().map(|wave| wave.nodes.len()).collect();
    assert_eq!(sizes, [1, 1, 1, 6]);
    assert_eq!(found[0].nodes, [name(1)]);
    assert_eq!(
        waves(&nodes, Order::SendersFirst, 1)
            .last()
            .map(|wave| &*wave.nodes),
        Some(&[name(1)][..])
    );
}

#[test]
fn the_next_wave_waits_for_the_one_before() {
    let waves = vec![canary(0), Wave::of([name(1), name(2)])];
    let mut rollout = Rollout::new(vec![waves], Bake::default());
    assert_eq!(
        rollout.begin(0, &all),
        [Event::Reach {
            nodes: vec![name(0)],
            stage: 1
        }]
    );
    assert_eq!((rollout.target(&name(0)), rollout.target(&name(1))), (1, 0));
    assert_eq!(
        rollout.in_force(&name(0), 1, 5, &all),
        [Event::Reach {
            nodes: vec![name(1), name(2)],
            stage: 1
        }]
    );
    assert_eq!(rollout.in_force(&name(1), 1, 6, &all), []);
    assert_eq!(rollout.in_force(&name(2), 1, 7, &all), [Event::Done]);
    assert!(rollout.is_over());
}

#[test]
fn a_refusal_stops_before_the_next_wave() {
    let mut rollout = Rollout::new(vec![vec![canary(0), canary(1)]], Bake::default());
    rollout.begin(0, &all);
    let stopped = rollout.refused(&name(0), 1, "routes[0].to: no", 1, &all);
    assert!(matches!(&stopped[..], [Event::Stopped { node, .. }] if *node == name(0)));
    assert_eq!(rollout.target(&name(0)), 0);
    assert_eq!(rollout.in_force(&name(0), 1, 9, &all), []);
}

#[test]
fn a_node_that_is_away_is_not_waited_for_and_one_that_is_silent_stops_it() {
    let waves = vec![canary(0), canary(1), canary(2)];
    let mut rollout = Rollout::new(vec![waves], Bake::default());
    let attends = |node: &Name| *node != name(0);
    let begun = rollout.begin(0, &attends);
    assert_eq!(begun.len(), 2, "{begun:?}");
    assert_eq!(rollout.left(&name(1), 10, &attends).len(), 1);
    assert_eq!(rollout.tick(10 + SILENCE - 1, &attends), []);
    let stopped = rollout.tick(10 + SILENCE, &attends);
    assert!(matches!(&stopped[..], [Event::Stopped { node, .. }] if *node == name(2)));
}

/// Looked at for a second in stage 1.
fn bake() -> Bake {
    Bake {
        time: 1000,
        stages: vec![1],
        ..Bake::default()
    }
}

fn health(before: u64, since: Figures) -> Health {
    Health {
        statement: Vec::new(),
        before: Some(Figures {
            exchanges: before,
            p98_micros: 10_000,
            p99_micros: 10_000,
            ..Figures::default()
        }),
        since: Some(since),
    }
}

fn failed(exchanges: u64, failures: u64) -> Figures {
    Figures {
        exchanges,
        failures,
        ..Figures::default()
    }
}

/// The first node of two has the stage, and carried so many exchanges before.
fn tried(before: u64, bake: Bake) -> (Rollout, Vec<Event>) {
    let mut rollout = Rollout::new(vec![vec![canary(0), canary(1)]], bake);
    rollout.begin(0, &all);
    let health = health(before, Figures::default());
    assert_eq!(rollout.health(&name(0), &health, 100, &all), []);
    let events = rollout.in_force(&name(0), 1, 100, &all);
    (rollout, events)
}

#[test]
fn a_wave_that_carries_something_is_looked_at_before_the_next() {
    let look = Event::Look(vec![name(0)]);
    let (mut rollout, asked) = tried(300, bake());
    assert_eq!(asked, std::slice::from_ref(&look));
    assert_eq!(rollout.asked(&name(0)), Some(1));
    assert_eq!(rollout.asked(&name(1)), None);
    assert_eq!(rollout.tick(1099, &all), []);
    // The last look is at the end of the time.
    assert_eq!(rollout.tick(1100, &all), [look]);
    let well = health(300, failed(80, 1));
    assert_eq!(rollout.health(&name(0), &well, 1150, &all).len(), 1);
    assert_eq!(rollout.target(&name(1)), 1);
}

#[test]
fn a_node_that_cannot_say_how_it_goes_holds_nothing_up() {
    let (mut rollout, _) = tried(300, bake());
    assert_eq!(rollout.tick(1100, &all).len(), 1);
    assert_eq!(rollout.tick(3099, &all), []);
    assert_eq!(rollout.tick(3100, &all).len(), 1);
    assert_eq!(rollout.target(&name(1)), 1);
}

#[test]
fn a_wave_that_carries_nothing_is_looked_at_only_if_someone_asks_for_it() {
    let (rollout, _) = tried(3, bake());
    assert_eq!(rollout.target(&name(1)), 1);
    let asked_for = Bake {
        is_asked_for: true,
        ..bake()
    };
    let (rollout, asked) = tried(3, asked_for);
    assert_eq!(asked, [Event::Look(vec![name(0)])]);
    assert_eq!(rollout.target(&name(1)), 0);
}

#[test]
fn failures_stop_at_once_and_slowness_at_the_end_of_the_time() {
    let stopped = |events: &[Event]| matches!(events, [Event::Stopped { .. }]);
    let (mut rollout, _) = tried(300, bake());
    let failing = health(300, failed(80, 20));
    let events = rollout.health(&name(0), &failing, 500, &all);
    assert!(stopped(&events), "{events:?}");
    assert_eq!(rollout.target(&name(0)), 0);

    let (mut rollout, _) = tried(300, bake());
    let slow = health(
        300,
        Figures {
            exchanges: 400,
            failures: 0,
            p98_micros: 90_000,
            p99_micros: 95_000,
        },
    );
    assert_eq!(rollout.health(&name(0), &slow, 500, &all), []);
    rollout.tick(1100, &all);
    let events = rollout.health(&name(0), &slow, 1101, &all);
    assert!(stopped(&events), "{events:?}");
}

#[test]
fn a_node_that_is_brought_up_to_date_alone_is_ahead_and_not_waited_for_again() {
    let stages = vec![vec![canary(0), canary(1)], vec![canary(0), canary(1)]];
    let mut rollout = Rollout::new(stages, Bake::default());
    rollout.begin(0, &all);
    let reach = rollout.advance(&name(1));
    assert_eq!(
        reach,
        [Event::Reach {
            nodes: vec![name(1)],
            stage: 2
        }]
    );
    assert_eq!(rollout.advance(&name(1)), []);
    assert_eq!(rollout.in_force(&name(1), 2, 1, &all), []);
    // The wave of the other one in stage 1 passes at once, and so does its own in stage 2.
    let events = rollout.in_force(&name(0), 1, 2, &all);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(rollout.target(&name(1)), 2);
    let events = rollout.in_force(&name(0), 2, 3, &all);
    assert_eq!(events.last(), Some(&Event::Done), "{events:?}");
}

proptest! {
    /// Whatever nodes do, no node is told a stage before all attending nodes of the waves before it have it in force.
    #[test]
    fn no_wave_overtakes_another(
        ranks in prop::collection::vec(0u32..3, 1..12),
        steps in prop::collection::vec((0usize..12, 0u8..4), 0..80),
    ) {
        let nodes = ranked(&ranks);
        let stages = vec![
            waves(&nodes, Order::ReceiversFirst, 1),
            waves(&nodes, Order::SendersFirst, 1),
        ];
        let mut rollout = Rollout::new(stages.clone(), Bake::default());
        let mut away = BTreeSet::new();
        let mut has: BTreeMap<Name, Stage> = BTreeMap::new();
        let mut now = 0;
        let mut events = rollout.begin(now, &all);
        for (index, step) in steps {
            now += 1;
            let node = name(index % ranks.len());
            let attends = |node: &Name| !away.contains(node);
            events.extend(match step {
                0 => {
                    away.insert(node.clone());
                    rollout.left(&node, now, &|node| !away.contains(node))
                }
                1 => {
                    away.remove(&node);
                    Vec::new()
                }
                _ if attends(&node) => {
                    let stage = rollout.target(&node);
                    has.insert(node.clone(), stage);
                    rollout.in_force(&node, stage, now, &attends)
                }
                _ => Vec::new(),
            });
            for event in std::mem::take(&mut events) {
                let Event::Reach { nodes, stage } = event else { continue };
                let before = stages[stage - 1].iter().take_while(|wave| wave.nodes != nodes);
                for earlier in before.flat_map(|wave| &wave.nodes).filter(|node| !away.contains(*node)) {
                    let told = rollout.target(earlier);
                    prop_assert!(told >= stage, "{earlier} was told {told}, {nodes:?} have {stage}");
                }
            }
        }
    }
}

proptest! {
    /// A leader is lost at any step: the next one takes back no node, tells none a stage before those of the waves before it that attend, and
    /// comes to the end.
    #[test]
    fn the_next_leader_goes_on_in_waves_from_where_each_node_is(
        ranks in prop::collection::vec(0u32..3, 1..12),
        before in 0usize..30,
        away in prop::collection::btree_set(0usize..12, 0..3),
    ) {
        let nodes = ranked(&ranks);
        let stages = vec![
            waves(&nodes, Order::ReceiversFirst, 1),
            waves(&nodes, Order::SendersFirst, 1),
        ];
        let mut rollout = Rollout::new(stages.clone(), Bake::default());
        let mut has: BTreeMap<Name, Stage> = BTreeMap::new();
        rollout.begin(0, &all);
        for step in 0..before {
            let node = name(step % ranks.len());
            has.insert(node.clone(), rollout.target(&node));
            rollout.in_force(&node, has[&node], 1, &all);
        }

        has.retain(|_, stage| *stage > 0);
        let mut rollout = Rollout::new(stages.clone(), Bake::default()).resumed(has.clone());
        let attends = |node: &Name| !away.iter().any(|index| name(*index) == *node);
        let mut waiting: Vec<Event> = rollout.begin(2, &attends);
        let mut is_done = false;
        while !waiting.is_empty() {
            let mut next = Vec::new();
            for event in waiting {
                let Event::Reach { nodes, stage } = event else {
                    is_done |= event == Event::Done;
                    continue;
                };
                let earlier = stages[stage - 1].iter().take_while(|wave| wave.nodes != nodes);
                for node in earlier.flat_map(|wave| &wave.nodes).filter(|node| attends(node)) {
                    let has = has.get(node).copied().unwrap_or(0);
                    prop_assert!(has >= stage, "{node} has {has} when {nodes:?} are told {stage}");
                }
                for node in nodes.into_iter().filter(|node| attends(node)) {
                    let told = rollout.target(&node);
                    let had = has.insert(node.clone(), told).unwrap_or(0);
                    prop_assert!(told >= had, "{node} goes back from {had} to {told}");
                    next.extend(rollout.in_force(&node, told, 3, &attends));
                }
            }
            waiting = next;
        }
        prop_assert!(is_done);
    }
}

#[test]
fn a_canary_that_the_leader_before_looked_at_is_looked_at_again() {
    let asked_for = Bake {
        is_asked_for: true,
        ..bake()
    };
    let rollout = Rollout::new(vec![vec![canary(0), canary(1)]], asked_for);
    let mut rollout = rollout.resumed(BTreeMap::from([(name(0), 1)]));
    rollout.begin(0, &all);
    assert_eq!(rollout.tick(1, &all), [Event::Look(vec![name(0)])]);
    assert_eq!(rollout.target(&name(1)), 0);
}

#[test]
fn devices_of_one_user_stop_no_change_while_others_attend() {
    let users = ["alice", "alice", "bob", "carol"];
    let owners = users.iter().enumerate();
    let owners: BTreeMap<_, _> = owners
        .map(|(index, user)| (name(index), user.parse().unwrap()))
        .collect();
    let waves = vec![canary(0), Wave::of((1..4).map(name))];
    let begun = || {
        let mut rollout =
            Rollout::new(vec![waves.clone()], Bake::default()).of_users(Arc::new(owners.clone()));
        rollout.begin(0, &all);
        rollout
    };
    let reached = |events: &[Event]| matches!(events, [Event::Reach { .. }]);
    let stopped = |events: &[Event]| matches!(events, [Event::Stopped { .. }]);

    // Whether it refuses or says nothing: the others get the change.
    let mut rollout = begun();
    assert!(reached(&rollout.refused(&name(0), 1, "no", 1, &all)));
    assert_eq!(rollout.refused(&name(1), 1, "no", 2, &all), []);
    assert_eq!(rollout.in_force(&name(2), 1, 3, &all), []);
    assert_eq!(rollout.in_force(&name(3), 1, 4, &all), [Event::Done]);
    let mut rollout = begun();
    assert!(reached(&rollout.tick(SILENCE, &all)));

    // A second user doubts it, too; or no other one is there to tell.
    let mut rollout = begun();
    rollout.refused(&name(0), 1, "no", 1, &all);
    assert!(stopped(&rollout.refused(&name(2), 1, "no", 2, &all)));
    let alone = |node: &Name| *node == name(0);
    assert!(stopped(&begun().refused(&name(0), 1, "no", 1, &alone)));
}
