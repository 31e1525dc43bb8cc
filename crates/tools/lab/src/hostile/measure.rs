//! One attack: before it, during it, and after it.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hermes_harness::Node;
use hermes_harness::attacks::{Attack, CALM};
use serde::{Deserialize, Serialize};

use super::bystander::Bystander;

/// Least time for which the attacker holds his connections.
const HELD: Duration = Duration::from_secs(3);

/// After this time all must be as before.
const RECOVERY: Duration = Duration::from_secs(10);

/// How long the bystander is watched before the attack, and after the recovery.
const WATCHED: Duration = Duration::from_secs(1);

/// `USER_HZ` is 100 on every Linux.
const TICKS: f64 = 100.0;

/// The cost of an attack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttackCost {
    /// Kilobytes that the attacker sent, and attempts.
    pub sent: f64,
    pub attempts: f64,
    /// Attempts that got past a rule.
    pub passed: f64,
    /// The most memory of the node, in MiB.
    pub peak: f64,
    /// Processors that the node took while the attack went on.
    pub processors: f64,
    /// The bystander's time without an attack, in milliseconds: its middle.
    pub calm: f64,
    /// The same during the attack: the middle and the hundredth that took longest.
    pub middle: f64,
    pub slow: f64,
    /// The middle after the recovery.
    pub after: f64,
    /// Requests of the bystander that failed, at any time, and of others that the attack was to keep out.
    pub failed: f64,
    /// Exchanges and charges that the node refused.
    pub refused: f64,
}

/// Runs an attack once.
///
/// # Errors
/// When the node has ended.
pub fn one(attack: &Attack) -> Result<AttackCost> {
    let stage = (attack.prepare)();
    let node = &stage.node;
    let calm = watch(node, WATCHED);

    let bystander = Bystander::start(node.address(CALM));
    let begin = Instant::now();
    let used = processor_time(node)?;
    let effort = (attack.run)(&stage);
    thread::sleep(HELD.saturating_sub(begin.elapsed()));
    let processors = (processor_time(node)? - used) / begin.elapsed().as_secs_f64();
    let noticed = bystander.stop();
    let refused = refused(node);
    let outcome = AttackCost {
        sent: effort.bytes as f64 / 1e3,
        attempts: effort.attempts as f64,
        passed: effort.passed as f64,
        peak: 0.0,
        processors,
        calm: calm.quantile(0.5),
        middle: noticed.quantile(0.5),
        slow: noticed.quantile(0.99),
        after: 0.0,
        failed: 0.0,
        refused,
    };

    let refused_of_others = effort.refused_of_others as f64;
    drop(effort);
    thread::sleep(RECOVERY);
    let after = watch(node, WATCHED);
    Ok(AttackCost {
        peak: node.peak() as f64 / f64::from(1 << 20),
        after: after.quantile(0.5),
        failed: f64::from(calm.failed + noticed.failed + after.failed) + refused_of_others,
        ..outcome
    })
}

/// The observations of a bystander over so much time.
fn watch(node: &Node, time: Duration) -> super::bystander::Noticed {
    let bystander = Bystander::start(node.address(CALM));
    thread::sleep(time);
    bystander.stop()
}

/// Exchanges that ended with a refusal, and charges to the memory account that were refused.
fn refused(node: &Node) -> f64 {
    let metrics = node.metrics();
    let refusals = metrics
        .lines()
        .filter(|line| line.starts_with("hermes_exchanges_total{") && !line.contains("status=\"2"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let charges = node.status()["memory"]["refused_charges"].as_f64();

    refusals.sum::<f64>() + charges.unwrap_or(0.0)
}

/// Seconds of processor time that the node has used.
fn processor_time(node: &Node) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.pid()))?;
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
    let mut fields = fields.context("the node has ended")?.split_whitespace();
    let ticks = [fields.nth(11), fields.next()];
    let ticks = ticks.into_iter().flatten();

    Ok(ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS)
}
