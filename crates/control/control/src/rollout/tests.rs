//! The order of waves, and who stops them.

use proptest::prelude::*;

use super::*;

fn name(index: usize) -> Name {
    format!("n{index}").parse().unwrap()
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
    let found = waves(&nodes, Order::ReceiversFirst);
    let sizes: Vec<_> = found.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 1, 1, 6]);
    assert_eq!(found[0], [name(1)]);
    assert_eq!(
        waves(&nodes, Order::SendersFirst).last(),
        Some(&vec![name(1)])
    );
}

#[test]
fn the_next_wave_waits_for_the_one_before() {
    let waves = vec![vec![name(0)], vec![name(1), name(2)]];
    let mut rollout = Rollout::new(vec![waves], 0);
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
    let mut rollout = Rollout::new(vec![vec![vec![name(0)], vec![name(1)]]], 0);
    rollout.begin(0, &all);
    let stopped = rollout.refused(&name(0), 1, "routes[0].to: no");
    assert!(matches!(&stopped[..], [Event::Stopped { node, .. }] if *node == name(0)));
    assert_eq!(rollout.target(&name(0)), 0);
    assert_eq!(rollout.in_force(&name(0), 1, 9, &all), []);
}

#[test]
fn a_node_that_is_away_is_not_waited_for_and_one_that_is_silent_stops_it() {
    let waves = vec![vec![name(0)], vec![name(1)], vec![name(2)]];
    let mut rollout = Rollout::new(vec![waves], 0);
    let attends = |node: &Name| *node != name(0);
    let begun = rollout.begin(0, &attends);
    assert_eq!(begun.len(), 2, "{begun:?}");
    assert_eq!(rollout.left(&name(1), 10, &attends).len(), 1);
    assert_eq!(rollout.tick(10 + SILENCE - 1, &attends), []);
    let stopped = rollout.tick(10 + SILENCE, &attends);
    assert!(matches!(&stopped[..], [Event::Stopped { node, .. }] if *node == name(2)));
}

#[test]
fn a_wave_is_looked_at_before_the_next() {
    let mut rollout = Rollout::new(vec![vec![vec![name(0)], vec![name(1)]]], 1000);
    rollout.begin(0, &all);
    assert_eq!(rollout.in_force(&name(0), 1, 100, &all), []);
    assert_eq!(rollout.tick(1099, &all), []);
    assert_eq!(rollout.tick(1100, &all).len(), 1);
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
            waves(&nodes, Order::ReceiversFirst),
            waves(&nodes, Order::SendersFirst),
        ];
        let mut rollout = Rollout::new(stages.clone(), 0);
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
                let before = stages[stage - 1].iter().take_while(|wave| **wave != nodes);
                for earlier in before.flatten().filter(|node| !away.contains(*node)) {
                    let told = rollout.target(earlier);
                    prop_assert!(told >= stage, "{earlier} was told {told}, {nodes:?} have {stage}");
                }
            }
        }
    }
}
