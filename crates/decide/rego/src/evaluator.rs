//! Asks a policy on threads of its own.
//!
//! A worker serves thousands of exchanges on one thread and must not wait for a policy, which its
//! author can make slow, and whose thread may stop for good (see `meter.rs`). A policy that cannot
//! do either (see `brief.rs`) is asked at once: the way to another thread and back would cost
//! several times the evaluation.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use regorus::{Engine, Value};
use serde_json::{Map, Value as Json};
use tokio::sync::oneshot;

use crate::budget::{self, Budget, Excess};
use crate::evaluation::{evaluate, is_always_so};
use crate::input::undefined_if_null;
use crate::outcome::{Answer, Failure};
use crate::policy::Policy;
use crate::spot::Spot;
use crate::wrong::Wrong;

/// Threads that one policy is asked on.
#[doc(alias = "bound")]
const THREADS: usize = 4;

/// Threads that a policy may lose before it is asked no more. Each keeps up to four times `memory`.
#[doc(alias = "bound")]
const LOST: usize = 2;

/// Threads that all policies of a process may lose, those of former configurations included.
#[doc(alias = "bound")]
const LOST_IN_ALL: usize = 16;

/// Time for the first answer of a policy, while it is loaded.
#[doc(alias = "bound")]
const FIRST: Duration = Duration::from_secs(5);

static LOST_SO_FAR: AtomicUsize = AtomicUsize::new(0);

/// A question that has to be answered on a thread of the policy.
pub struct ThreadQuestion(Value);

/// A policy with the threads that answer for it. They end with it.
pub struct Evaluator {
    shared: Arc<Shared>,
}

struct Shared {
    policy: Mutex<Policy>,
    /// Evaluates a brief policy on the thread that asks.
    spot: Option<Spot>,
    budget: Budget,
    waiting: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    lost: usize,
    ended: bool,
}

struct Job {
    input: Value,
    until: Instant,
    answer: Reply,
}

/// Where an answer goes.
enum Reply {
    Task(oneshot::Sender<Answer>),
    Thread(mpsc::Sender<Answer>),
}

impl Reply {
    /// Sends the answer; drops it if the caller has gone.
    fn send(self, answer: Answer) {
        match self {
            Self::Task(task) => _ = task.send(answer),
            Self::Thread(thread) => _ = thread.send(answer),
        }
    }

    fn is_dropped(&self) -> bool {
        match self {
            Self::Task(task) => task.is_closed(),
            Self::Thread(_) => false,
        }
    }
}

impl Evaluator {
    /// Takes a policy, to be asked within `budget`; at most `waiting` questions wait for a thread.
    /// It is asked once with an empty input, which finds missing and recursive rules at once.
    ///
    /// # Errors
    /// The mistakes in the policy.
    pub fn new(policy: Policy, budget: Budget, waiting: usize) -> Result<Self, Wrong> {
        let spot = policy.is_brief().then(|| Spot::new(policy.clone(), budget));
        let evaluator = Self {
            shared: Arc::new(Shared {
                policy: Mutex::new(policy),
                spot,
                budget,
                waiting,
                state: Mutex::default(),
                wake: Condvar::new(),
            }),
        };

        // Other failures are let pass: the empty input itself may be the reason for them.
        match evaluator.ask_blocking(Json::Object(Map::new()), FIRST) {
            Err(Failure::Broken(wrong)) if is_always_so(&wrong.reason) => Err(wrong),
            _ => Ok(evaluator),
        }
    }

    /// Asks, and waits for the answer at most for `time`. A question that is dropped is not answered.
    ///
    /// # Errors
    /// The policy cannot be asked, or cannot answer.
    pub async fn ask(&self, input: Json, time: Duration) -> Answer {
        match self.ask_first(input) {
            Ok(answer) => answer,
            Err(question) => self.ask_on_thread(question, time).await,
        }
    }

    /// Asks on this thread, if the policy and the input are brief.
    ///
    /// # Errors
    /// The question is for another thread, of which there are few.
    pub fn ask_first(&self, input: Json) -> Result<Answer, ThreadQuestion> {
        let spot = self.shared.spot.as_ref();
        let spot = spot.filter(|spot| spot.takes(&input));
        let input = undefined_if_null(input);
        spot.and_then(|spot| spot.ask(&input))
            .ok_or(ThreadQuestion(input))
    }

    /// Asks on another thread, and waits for the answer at most for `time`. A question that is dropped is not answered.
    ///
    /// # Errors
    /// The policy cannot be asked, or cannot answer.
    pub async fn ask_on_thread(&self, question: ThreadQuestion, time: Duration) -> Answer {
        let ThreadQuestion(input) = question;
        let (answer, answered) = oneshot::channel();
        self.submit(input, time, Reply::Task(answer))?;
        match tokio::time::timeout(time, answered).await {
            Ok(Ok(answer)) => answer,
            // The sender was dropped unanswered: the policy was stopped while the question waited.
            Ok(Err(_)) => Err(Failure::Stopped),
            Err(_) => Err(Failure::Excess(Excess::Time)),
        }
    }

    /// Whether every evaluation is short, so that the policy can be [asked on this thread](Self::ask_here).
    pub fn is_brief(&self) -> bool {
        self.shared.spot.is_some()
    }

    /// Asks a brief policy on this thread, within the bounds for that; `None` if the policy is not brief, or the evaluation exceeds them.
    pub fn ask_here(&self, input: Json) -> Option<Answer> {
        let spot = self.shared.spot.as_ref()?;
        match Spot::fits(&input) {
            true => spot.ask(&undefined_if_null(input)),
            false => None,
        }
    }

    /// Asks, and blocks this thread: for tools, never on a worker. An input that is null is undefined.
    ///
    /// # Errors
    /// The policy cannot be asked, or cannot answer.
    pub fn ask_blocking(&self, input: Json, time: Duration) -> Answer {
        let (answer, answered) = mpsc::channel();
        self.submit(undefined_if_null(input), time, Reply::Thread(answer))?;
        answered.recv().unwrap_or(Err(Failure::Stopped))
    }

    fn submit(&self, input: Value, time: Duration, answer: Reply) -> Result<(), Failure> {
        let job = Job {
            input,
            until: Instant::now() + time,
            answer,
        };

        let mut state = self.shared.state.lock();
        if state.lost >= LOST || LOST_SO_FAR.load(Ordering::Relaxed) >= LOST_IN_ALL {
            return Err(Failure::Stopped);
        }
        if state.jobs.len() >= self.shared.waiting {
            // Callers that gave up leave their questions behind; these must not keep others out.
            state.jobs.retain(|job| !job.answer.is_dropped());
        }
        if state.jobs.len() >= self.shared.waiting {
            return Err(Failure::Crowded);
        }
        state.jobs.push_back(job);

        // A thread counts as idle until it wakes up, so several new questions may see the same one: compared with all that wait.
        if state.idle < state.jobs.len() && state.threads < threads() {
            self.shared.start(&mut state)?;
        }
        // The woken thread needs the lock at once.
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }
}

impl Drop for Evaluator {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.wake.notify_all();
    }
}

/// Threads that one policy is asked on, on this machine.
#[must_use]
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS))
}

impl Shared {
    /// One more thread.
    fn start(self: &Arc<Self>, state: &mut State) -> Result<(), Failure> {
        let shared = self.clone();
        let started = thread::Builder::new()
            .name("rego".to_owned())
            .spawn(move || shared.serve());

        match started {
            Ok(_) => {
                state.threads += 1;
                Ok(())
            }
            // The threads that are there answer, only later.
            Err(_) if state.threads > 0 => Ok(()),
            Err(error) => {
                state.jobs.clear();
                tracing::warn!(%error, "no thread for a policy");
                Err(Failure::Crowded)
            }
        }
    }

    fn serve(self: Arc<Self>) {
        // Each thread has an engine of its own: an evaluation changes it, and the lock is held for the copy only.
        let mut engine = self.policy.lock().engine();
        while let Some(job) = self.next() {
            if job.answer.is_dropped() {
                continue;
            }

            let sound = self.answer(&mut engine, job);
            // A panic may have left the interpreter's state half-changed.
            if !sound {
                engine = self.policy.lock().engine();
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.ended {
                return None;
            }

            state.idle += 1;
            self.wake.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// Answers, and says whether the engine can be used again.
    fn answer(self: &Arc<Self>, engine: &mut Engine, job: Job) -> bool {
        let rule = self.policy.lock().rule().to_owned();
        let Job {
            input,
            until,
            answer,
        } = job;

        // Either this function answers, or the last words do, if the thread stops within `evaluate`. Both run on this thread, hence no lock.
        let answer = Rc::new(Cell::new(Some(answer)));
        let last = answer.clone();
        let shared = self.clone();
        let last_words = Box::new(move || {
            shared.lose();
            if let Some(answer) = last.take() {
                answer.send(Err(Failure::Excess(Excess::Memory)));
            }
        });

        budget::begin(self.budget, until, Some(last_words));
        let evaluated = evaluate(engine, &rule, input);
        if let Some(answer) = answer.take() {
            answer.send(evaluated.answer);
        }
        evaluated.is_sound
    }

    /// Counts this thread as lost; called by the thread itself, before it stops for good.
    fn lose(&self) {
        let lost = LOST_SO_FAR.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::warn!(
            lost,
            bound = LOST_IN_ALL,
            "a policy took so much memory at once that its thread is lost"
        );

        let mut state = self.state.lock();
        state.lost += 1;
        state.threads -= 1;
        if state.lost >= LOST {
            // Dropped unanswered, which their callers see as `Failure::Stopped`.
            state.jobs.clear();
        }
    }
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator").finish_non_exhaustive()
    }
}
