//! An overlay whose controller and nodes are killed, stopped and cut off, while operators change it and a device sends requests.
//!
//! No change that was acknowledged is lost or made twice, no node returns behind a revision that it had, all come in step, and
//! no request fails.

mod faults;
mod stage;
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use crate::asked;

use faults::Fault;
use stage::Stage;
use traffic::Traffic;

/// Seeds; `HERMES_OVERLAY_SEEDS` asks for another number, `HERMES_SEED` for another first one.
const SEEDS: usize = 20;

/// Changes in each of them.
const CHANGES: usize = 2;

/// Overlays at once, among which the seeds are divided: most of the time passes until nodes have come in step.
const OVERLAYS: usize = 2;

#[test]
fn whatever_dies_or_is_cut_off_no_acknowledged_change_is_lost_and_no_request_fails() {
    let first = asked("HERMES_SEED", 1);
    let seeds = first..first + asked("HERMES_OVERLAY_SEEDS", SEEDS);
    scope(|threads| {
        for overlay in 0..OVERLAYS {
            let seeds = seeds.clone().skip(overlay).step_by(OVERLAYS);
            threads.spawn(move || live_through(seeds));
        }
    });
}

/// One overlay, to which these seeds happen one after the other.
fn live_through(seeds: impl Iterator<Item = usize>) {
    let mut stage = Stage::set();
    let traffic = Traffic::default();
    let over = AtomicBool::new(false);
    scope(|threads| {
        let device = stage.device.web;
        let over_now = &over;
        let traffic = &traffic;
        threads.spawn(move || traffic.go_on(device, over_now));
        // A seed that fails must not leave the traffic going on for ever.
        let over = Over(&over);
        for seed in seeds {
            play(&mut stage, seed);
            traffic.judge(seed);
        }
        stage.judge_changes();
        drop(over);
    });
}

/// Changes, with a fault beside each of them, and then peace.
fn play(stage: &mut Stage, seed: usize) {
    let mut random = fastrand::Rng::with_seed(seed as u64);
    for _ in 0..CHANGES {
        let fault = Fault::choose(&mut random);
        let began = fault.begin(stage);
        stage.change(seed);
        began.end(stage);
        stage.judge_revisions();
    }
    stage.come_in_step(seed);
    stage.judge_history(seed);
}

/// Ends the traffic with the test, however that ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
