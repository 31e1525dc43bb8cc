//! The measurements with agents that have no data plane: changes, memory, reconnection, restarts, joins.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::controller::ControllerProcess;
use super::fleet::{Fleet, Shape, ingress, service};
use super::journal::milliseconds;
use super::relay::Relay;
use crate::report::{Figure, Sheet, quantile};

/// Reconnections of one agent that are counted.
const CUTS: usize = 5;

/// How long a restarted controller may take until everyone is in step again.
const RESTART: Duration = Duration::from_secs(300);

/// Between two questions about who is in step, after a restart.
const LOOK: Duration = Duration::from_millis(250);

/// For how long nothing happens, while the controller's processor time is counted.
const CALM: Duration = Duration::from_secs(10);

/// How often things are done.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeCounts {
    /// Changes of one node.
    pub(super) single: usize,
    /// Changes of all nodes.
    pub(super) whole: usize,
}

/// Where agents and controllers run.
pub(super) struct Ground<'a> {
    /// The measured build.
    pub(super) program: &'a Path,
    /// Agents may have addresses of their own.
    pub(super) has_addresses: bool,
}

/// A controller and its agents.
struct Overlay {
    controller: ControllerProcess,
    fleet: Fleet,
    shape: Shape,
    /// The column of the sheet.
    system: String,
}

/// Measures a fleet of one size.
///
/// # Errors
/// A program does not start, or an agent does not come so far.
pub(super) fn measure(
    ground: &Ground<'_>,
    agents: usize,
    counts: ChangeCounts,
    sheet: &mut Sheet,
) -> Result<()> {
    let mut overlay = Overlay::begin(ground, agents)?;
    overlay.join(sheet).context("joining")?;
    overlay.first_documents(sheet).context("first documents")?;
    overlay.calm(sheet)?;
    overlay
        .single_changes(counts.single, sheet)
        .context("changes of one node")?;
    overlay
        .whole_changes(counts.whole, sheet)
        .context("changes of all nodes")?;
    overlay.one_joins(sheet).context("a join")?;
    overlay.reconnections(sheet).context("reconnections")?;
    overlay
        .restart(sheet)
        .context("a restart of the controller")
}

impl Overlay {
    fn begin(ground: &Ground<'_>, agents: usize) -> Result<Self> {
        let address = hermes_harness::free::tcp();
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        let controller = ControllerProcess::start(ground.program, address)?;
        let fleet = Fleet::new(controller.port, ground.has_addresses)?;
        Ok(Self {
            controller,
            fleet,
            shape: Shape::of(agents),
            system: format!("{agents} agents"),
        })
    }

    fn add(&self, sheet: &mut Sheet, case: &str, figure: Figure, value: f64) {
        sheet.add(case, &self.system, figure, value);
    }

    fn join(&mut self, sheet: &mut Sheet) -> Result<()> {
        let operator = self.controller.operator();
        let revision = operator.apply(&self.shape.resources())?;
        operator.in_force(&revision)?;

        let used = self.controller.processor_time();
        let [token, join] = self.fleet.join(self.shape, &operator)?;
        let used = self.controller.processor_time() - used;
        let used = milliseconds(used) / self.shape.agents as f64;
        self.add(sheet, JOINS, Figure::less("a token", "ms"), token);
        self.add(sheet, JOINS, Figure::less("a join", "ms"), join);
        self.add(
            sheet,
            JOINS,
            Figure::less("controller's time for both", "ms"),
            used,
        );
        Ok(())
    }

    /// All agents get their first documents of a controller that has just started; the memory that they take in it.
    fn first_documents(&mut self, sheet: &mut Sheet) -> Result<()> {
        self.controller.kill();
        self.controller.run()?;
        let before = self.controller.resident();
        let begin = Instant::now();
        self.fleet.attend();
        self.fleet.await_first(begin)?;
        let took = begin.elapsed();
        self.controller
            .operator()
            .await_steps(self.fleet.len(), LOOK, RESTART)?;

        let each = (self.controller.resident() - before) / self.fleet.len() as f64 / 1024.0;
        self.add(
            sheet,
            "first documents",
            Figure::less("all", "ms"),
            milliseconds(took),
        );
        self.add(
            sheet,
            MEMORY,
            Figure::less("at the controller", "KiB"),
            each,
        );
        Ok(())
    }

    fn calm(&self, sheet: &mut Sheet) -> Result<()> {
        let used = self.controller.processor_time();
        std::thread::sleep(CALM);
        let used = self.controller.processor_time() - used;
        let share = used.as_secs_f64() / CALM.as_secs_f64() * 100.0;
        let figure = Figure::less("controller's time", "% of a processor");
        self.add(sheet, "nothing happens", figure, share);
        Ok(())
    }

    /// The server of one proxy's service moves, time and again.
    fn single_changes(&self, count: usize, sheet: &mut Sheet) -> Result<()> {
        let operator = self.controller.operator();
        let mut times = Vec::with_capacity(count);
        let mut answers = Vec::with_capacity(count);
        for number in 0..count {
            let proxy = number % self.shape.proxies;
            let port = u16::try_from(9000 + number / self.shape.proxies)?;
            let begin = Instant::now();
            let revision = operator.apply(&service(proxy, port))?;
            answers.push(milliseconds(begin.elapsed()));
            operator.in_force(&revision)?;
            // The ingress is the first agent.
            let last = self.fleet.journal.last(proxy + 1);
            let last = last.filter(|last| *last >= begin);
            times.push(milliseconds(
                last.context("the node was not changed")? - begin,
            ));
        }
        self.add(
            sheet,
            SINGLE,
            Figure::less("p50", "ms"),
            quantile(&times, 0.5),
        );
        self.add(
            sheet,
            SINGLE,
            Figure::less("p99", "ms"),
            quantile(&times, 0.99),
        );
        let answer = Figure::less("controller's answer, p50", "ms");
        self.add(sheet, SINGLE, answer, quantile(&answers, 0.5));
        Ok(())
    }

    /// The ingress moves, which is in the document of every device.
    fn whole_changes(&self, count: usize, sheet: &mut Sheet) -> Result<()> {
        let operator = self.controller.operator();
        for number in 0..count {
            let port = u16::try_from(10_000 + number)?;
            let used = self.controller.processor_time();
            let begin = Instant::now();
            let revision = operator.apply(&ingress(port))?;
            operator.in_force(&revision)?;
            let known = milliseconds(begin.elapsed());
            let times = self.fleet.journal.since(begin);
            let used = milliseconds(self.controller.processor_time() - used);

            self.add(
                sheet,
                WHOLE,
                Figure::less("p99 of the agents", "ms"),
                quantile(&times, 0.99),
            );
            self.add(
                sheet,
                WHOLE,
                Figure::less("last agent", "ms"),
                quantile(&times, 1.0),
            );
            self.add(
                sheet,
                WHOLE,
                Figure::less("known to the operator", "ms"),
                known,
            );
            self.add(sheet, WHOLE, Figure::less("controller's time", "ms"), used);
            self.add(
                sheet,
                WHOLE,
                Figure::more("agents changed", ""),
                times.len() as f64,
            );
        }
        Ok(())
    }

    /// One more device joins and attends.
    fn one_joins(&mut self, sheet: &mut Sheet) -> Result<()> {
        let operator = self.controller.operator();
        let before = self.fleet.journal.applied();
        let begin = Instant::now();
        let number = self.fleet.join_one(&operator, "late")?;
        let joined = milliseconds(begin.elapsed());
        self.fleet.attend();
        operator.await_steps(self.fleet.len(), LOOK, RESTART)?;

        let last = self
            .fleet
            .journal
            .last(number)
            .context("no document came")?;
        let others = self.fleet.journal.applied() - before - 1;
        self.add(
            sheet,
            ONE_JOIN,
            Figure::less("token and join", "ms"),
            joined,
        );
        self.add(
            sheet,
            ONE_JOIN,
            Figure::less("in step", "ms"),
            milliseconds(last - begin),
        );
        self.add(
            sheet,
            ONE_JOIN,
            Figure::less("other documents changed", ""),
            others as f64,
        );
        Ok(())
    }

    /// The last agent's connection is cut and comes back, by a wire that counts.
    fn reconnections(&mut self, sheet: &mut Sheet) -> Result<()> {
        let relay = Relay::start(self.fleet.handle(), self.controller.port)?;
        let number = self.fleet.len() - 1;
        self.fleet.redirect(number, relay.port);
        relay.settled();
        for _ in 0..CUTS {
            relay.cut();
            let [up, down] = relay.settled();
            self.add(
                sheet,
                RECONNECTION,
                Figure::less("to the controller", "bytes"),
                up as f64,
            );
            self.add(
                sheet,
                RECONNECTION,
                Figure::less("to the agent", "bytes"),
                down as f64,
            );
        }
        // The wire ends with this step.
        self.fleet.redirect(number, self.controller.port);
        Ok(())
    }

    /// The controller is killed and starts again.
    fn restart(&mut self, sheet: &mut Sheet) -> Result<()> {
        let operator = self.controller.operator();
        operator.await_steps(self.fleet.len(), LOOK, RESTART)?;
        let before = self.fleet.journal.applied();
        self.controller.kill();
        let begin = Instant::now();
        self.controller.run()?;
        let answered = milliseconds(begin.elapsed());
        operator.await_steps(self.fleet.len(), LOOK, RESTART)?;
        let took = milliseconds(begin.elapsed());

        let used = milliseconds(self.controller.processor_time());
        let again = self.fleet.journal.applied() - before;
        self.add(
            sheet,
            RESTARTED,
            Figure::less("controller answers", "ms"),
            answered,
        );
        self.add(sheet, RESTARTED, Figure::less("all in step", "ms"), took);
        self.add(
            sheet,
            RESTARTED,
            Figure::less("controller's time", "ms"),
            used,
        );
        self.add(
            sheet,
            RESTARTED,
            Figure::less("documents sent again", ""),
            again as f64,
        );
        Ok(())
    }
}

/// Names of cases.
pub(super) const JOINS: &str = "joins";
pub(super) const MEMORY: &str = "memory an agent";
pub(super) const SINGLE: &str = "change of one node";
pub(super) const WHOLE: &str = "change of all nodes";
pub(super) const ONE_JOIN: &str = "one more joins";
pub(super) const RECONNECTION: &str = "reconnection, unchanged";
pub(super) const RESTARTED: &str = "controller restarted";

impl Drop for Overlay {
    fn drop(&mut self) {
        // First, so that no agent looks for a controller that has ended.
        self.fleet.leave();
    }
}
