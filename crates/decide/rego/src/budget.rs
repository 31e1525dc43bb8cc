//! The limits of one evaluation: steps, memory and time.
//!
//! The interpreter asks for the time every few steps. Our clock stands still while all is well and
//! leaps when a bound is reached: thus steps are counted, and one look checks all three bounds.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::sync::Once;
use std::time::{Duration, Instant, SystemTime};

use regorus::Engine;
use regorus::utils::limits::{ExecutionTimerConfig, TimeSource, set_time_source};

use crate::meter::{self, LastWords};

/// Steps of an evaluation: a policy of ordinary size takes some hundreds.
#[doc(alias("bound", "authorize.rego.steps"))]
const STEPS: u64 = 100_000;

/// Bytes that an evaluation may ask for in all, those included that it gives back.
#[doc(alias("bound", "authorize.rego.memory"))]
const MEMORY: u64 = 16 * 1024 * 1024;

/// Steps between two looks at the use so far.
#[doc(alias = "bound")]
const BETWEEN: NonZeroU32 = NonZeroU32::new(16).expect("not zero");

/// Factor on `memory` within one builtin, where the interpreter does not look at the clock.
#[doc(alias = "bound")]
const AT_ONCE: u64 = 4;

/// Bytes of a line of rules: tables of a policy that programs write have long ones.
#[doc(alias = "bound")]
pub(crate) const COLUMNS: NonZeroU32 = NonZeroU32::new(64 * 1024).expect("not zero");

/// The limits of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Steps of the interpreter: statements, expressions, calls, turns of a loop.
    pub steps: u64,
    /// Bytes asked for in all. Counted where the program's allocator is [`Metered`](crate::Metered).
    pub memory: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: STEPS,
            memory: MEMORY,
        }
    }
}

/// Which bound an evaluation reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Too many steps.
    Steps,
    /// Too much memory.
    Memory,
    /// The time was over.
    Time,
}

/// The use of the current evaluation of a thread.
struct Spending {
    budget: Budget,
    began: SystemTime,
    until: Instant,
    steps: u64,
    /// Whether the evaluation runs on a worker, which must not block.
    is_hurried: bool,
    excess: Option<Excess>,
}

thread_local! {
    static SPENDING: RefCell<Option<Spending>> = const { RefCell::new(None) };
    /// The time on the clock: zero while all is well, more at every look afterwards.
    static SHOWN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The leap of the clock: more than the interpreter's own time limit, which is half of it.
const LEAP: Duration = Duration::from_secs(2);

struct Clock;

impl TimeSource for Clock {
    fn now(&self) -> Option<Duration> {
        SPENDING.with_borrow_mut(|spending| {
            if spending.as_mut().is_some_and(Spending::look) {
                SHOWN.set(SHOWN.get() + LEAP);
            }
        });
        Some(SHOWN.get())
    }
}

impl Spending {
    /// Whether a bound is reached.
    fn look(&mut self) -> bool {
        self.steps += u64::from(BETWEEN.get());
        let hard = hard(self.budget);
        let excess = if self.steps > self.budget.steps {
            Some(Excess::Steps)
        } else if hard.saturating_sub(meter::left()) > self.budget.memory {
            Some(Excess::Memory)
        } else if Instant::now() > self.until {
            Some(Excess::Time)
        } else {
            None
        };

        // The first bound that was reached is reported, although later looks see others as well.
        self.excess = self.excess.or(excess);
        self.excess.is_some()
    }
}

/// The memory in bytes at which a thread stops for good, between two looks.
fn hard(budget: Budget) -> u64 {
    // `u64::MAX` means unmetered to the allocator.
    budget.memory.saturating_mul(AT_ONCE).min(u64::MAX - 1)
}

/// Has an engine ask our clock.
pub(crate) fn limit(engine: &mut Engine) {
    static ONCE: Once = Once::new();
    // The setting is global to the process, and no other crate here uses the interpreter.
    ONCE.call_once(|| _ = set_time_source(&Clock));
    engine.set_execution_timer_config(ExecutionTimerConfig {
        limit: LEAP / 2,
        check_interval: BETWEEN,
    });
}

/// Counts the use of this thread, until [`settle`]. Without last words, a single step is not
/// bounded.
pub(crate) fn begin(budget: Budget, until: Instant, last_words: Option<LastWords>) {
    SHOWN.set(Duration::ZERO);
    SPENDING.set(Some(Spending {
        budget,
        began: SystemTime::now(),
        until,
        steps: 0,
        is_hurried: last_words.is_none(),
        excess: None,
    }));
    meter::arm(hard(budget), last_words);
}

/// When the evaluation of this thread began; now, if there is no evaluation.
pub(crate) fn began() -> SystemTime {
    SPENDING.with_borrow(|spending| {
        spending
            .as_ref()
            .map_or_else(SystemTime::now, |spending| spending.began)
    })
}

/// Whether the evaluation of this thread runs on a worker, which must not block.
pub(crate) fn is_hurried() -> bool {
    SPENDING.with_borrow(|spending| {
        spending
            .as_ref()
            .is_some_and(|spending| spending.is_hurried)
    })
}

/// Voids the evaluation of this thread, as if it had exceeded its steps: another thread repeats it.
pub(crate) fn give_up() {
    SPENDING.with_borrow_mut(|spending| {
        if let Some(spending) = spending {
            // Any bound will do: the caller sees an excess, and asks on another thread.
            spending.excess = spending.excess.or(Some(Excess::Steps));
        }
    });
}

/// Ends the counting, and returns the bound that was reached first. The interpreter turns some
/// errors into an undefined value: its result is then to be ignored.
pub(crate) fn settle() -> Option<Excess> {
    meter::disarm();
    SPENDING.take().and_then(|spending| spending.excess)
}
