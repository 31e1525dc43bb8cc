//! Faults of the controller and of nodes that no request passes.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use super::stage::{SPARES, Stage};

/// Longest time for which something stands still.
const STILL: u64 = 400;

/// A fault, and the spare node that it meets.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// The controller is killed, and started again.
    ControllerKilled,
    /// The controller does nothing for a while.
    ControllerStopped(Duration),
    /// A node is killed, and started again from its disk.
    NodeKilled(usize),
    /// A node does nothing for a while.
    NodeStopped(usize, Duration),
    /// Nothing passes between a node and the controller for a while.
    Partition(usize, Duration),
}

impl Fault {
    /// One of them, by chance.
    pub fn choose(random: &mut fastrand::Rng) -> Self {
        let node = random.usize(..SPARES.len());
        let time = Duration::from_millis(random.u64(..STILL));
        match random.u8(..5) {
            0 => Self::ControllerKilled,
            1 => Self::ControllerStopped(time),
            2 => Self::NodeKilled(node),
            3 => Self::NodeStopped(node, time),
            _ => Self::Partition(node, time),
        }
    }

    /// Begins. What lasts for a time ends by itself; what was killed is started by [`end`](Self::end).
    pub fn begin(self, stage: &mut Stage) -> Self {
        match self {
            Self::ControllerKilled => stage.kill_soon(),
            Self::ControllerStopped(time) => {
                stage.controller.signal(Signal::STOP);
                sleep(time);
                stage.controller.signal(Signal::CONT);
            }
            Self::NodeKilled(node) => stage.spares[node].kill(),
            Self::NodeStopped(node, _) => stage.spares[node].signal(Signal::STOP),
            Self::Partition(node, _) => stage.gates[node].let_tcp(false),
        }
        self
    }

    /// Ends.
    pub fn end(self, stage: &mut Stage) {
        match self {
            Self::ControllerKilled => stage.start_controller(),
            Self::ControllerStopped(_) => {}
            Self::NodeKilled(node) => stage.spares[node].run_again(),
            Self::NodeStopped(node, time) => {
                sleep(time);
                stage.spares[node].signal(Signal::CONT);
            }
            Self::Partition(node, time) => {
                sleep(time);
                stage.gates[node].let_tcp(true);
            }
        }
    }
}
