//! An authorisation server, and the questions that are under way to it.
//!
//! Users take turns, and strangers by source: one who asks for much leaves room for another. Whether the server is away is found out by
//! questions of the node's own (see [`Presence`]), which run only where `fail: open` makes that matter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hermes_http::ResponseHead;
use hermes_http::h1::client::Receiver;
use hermes_net::Asker;
use hermes_net::memory::{Charge, Memory, Owner, Purpose};
use hermes_net::turns::{NoTurn, Turn, TurnBounds, Turns};
use hermes_plug::Subject;
use hermes_upstream::{Client, Timeouts, Upstream};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout_at};

use super::pace::Pace;
use super::presence::{Evidence, Presence, Standing};
use super::question::{Form, Question};
use super::undecided::{LARGE, Undecided, Whose};
use crate::buffered;
use crate::buffered::{Content, RequestBody};

/// Bytes of one answer's content: a decision is short, and a page to log in fits.
#[doc(alias = "bound")]
const ANSWER_BYTES: usize = 64 * 1024;

/// Further attempts of a question whose connection died unseen: asking twice changes nothing.
#[doc(alias = "bound")]
const AGAIN: usize = 2;

/// Questions of one asker that wait for a turn: those of four connections at once.
#[doc(alias = "bound")]
const WAITING_OF_ASKER: usize = 4096;

/// Questions of all askers that wait for a turn.
#[doc(alias = "bound")]
const WAITING: usize = 16 * 1024;

/// How long the node asks by itself after the last question of a client. The next one begins it again.
#[doc(alias = "bound")]
const PROBING: Duration = Duration::from_secs(2);

/// The answer of a server.
pub(super) type ServerReply = (ResponseHead, Content);

/// One authorisation server.
pub(super) struct Server {
    pub form: Form,
    pub timeout: Duration,
    upstream: Arc<Upstream>,
    turns: Turns,
    pace: Mutex<Pace>,
    /// The knowledge of its absence; `None` where nothing opens.
    presence: Option<Absence>,
    /// Questions of clients that are at the server.
    asked: AtomicUsize,
}

/// The knowledge of a server's absence.
struct Absence {
    presence: watch::Sender<Presence>,
    /// Whether a task asks.
    is_probed: AtomicBool,
    /// When a client last had a question.
    wanted: Mutex<Instant>,
}

/// Questions at once, and the time for an answer.
pub struct Limits {
    pub(super) concurrency: usize,
    pub timeout: Duration,
}

/// A question of a client at the server, until it is dropped.
struct AtServer<'a>(&'a AtomicUsize);

impl<'a> AtServer<'a> {
    fn new(asked: &'a AtomicUsize) -> Self {
        asked.fetch_add(1, Ordering::SeqCst);
        Self(asked)
    }
}

impl Drop for AtServer<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Server {
    /// `opens`: whether exchanges go on without a decision while it is away.
    pub fn new(form: Form, limits: &Limits, opens: bool, upstream: Arc<Upstream>) -> Self {
        let absence = || Absence {
            presence: watch::Sender::default(),
            is_probed: AtomicBool::new(false),
            wanted: Mutex::new(Instant::now()),
        };

        Self {
            form,
            timeout: limits.timeout,
            upstream,
            turns: Turns::new(TurnBounds {
                at_once: limits.concurrency,
                of_group: limits.concurrency,
                spare: true,
                waiting: WAITING,
                waiting_of_asker: WAITING_OF_ASKER,
            }),
            pace: Mutex::new(Pace::new(limits.concurrency)),
            presence: opens.then(absence),
            asked: AtomicUsize::new(0),
        }
    }

    /// Asks when it is the turn of the subject's user, and answers within the time.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn ask_in_time(
        self: &Arc<Self>,
        subject: &Subject<'_>,
        question: &Question,
    ) -> Result<ServerReply, Undecided> {
        let until = tokio::time::Instant::now() + self.timeout;
        let _charge = charged(subject, question)?;
        let asker = Asker::user_or_source(subject.user, &subject.source.peer);

        // Waiting is never the server's doing: a client that crowds it would open it.
        let may_ask = timeout_at(until, self.turn(subject.client, asker)).await;
        let _turn = may_ask.map_err(|_| self.crowded())??;
        let at_server = AtServer::new(&self.asked);
        let began = Instant::now();
        let asked = timeout_at(until, self.ask(subject.client, question)).await;
        drop(at_server);

        let took = began.elapsed();
        let missing = match asked {
            Ok(Err(undecided)) if undecided.whose == Whose::Absent => undecided,
            Ok(known) => {
                self.answered(took, known.is_ok());
                return known;
            }
            Err(_) => self.late(question, began),
        };
        self.missed(subject.client, missing, until).await
    }

    /// A turn, and nothing that speaks against asking.
    async fn turn(self: &Arc<Self>, client: &Client, asker: Asker) -> Result<Turn, Undecided> {
        loop {
            if self.standing(client).await == Standing::Away {
                return Err(Undecided::away("the server is away"));
            }
            let turn = self.turns.take(asker, None).await;
            let turn = turn.map_err(|NoTurn| self.crowded())?;

            // The server may have gone away while this one waited for its turn.
            let held_back = self
                .presence
                .as_ref()
                .is_some_and(|absence| absence.presence.borrow().standing() != Standing::Asked);
            if !held_back {
                return Ok(turn);
            }
        }
    }

    /// The fate of a question, as soon as that is known.
    async fn standing(self: &Arc<Self>, client: &Client) -> Standing {
        let Some(absence) = &self.presence else {
            return Standing::Asked;
        };
        if absence.presence.borrow().standing() == Standing::Asked {
            return Standing::Asked;
        }

        self.probe(client, absence);
        self.settled(absence).await
    }

    /// Waits until questions are not held back.
    async fn settled(&self, absence: &Absence) -> Standing {
        let mut known = absence.presence.subscribe();
        let settled = known
            .wait_for(|presence| presence.standing() != Standing::HeldBack)
            .await;
        settled.map_or(Standing::Asked, |presence| presence.standing())
    }

    fn answered(&self, took: Duration, is_answer: bool) {
        if !is_answer {
            return;
        }
        let mut pace = self.pace.lock();
        let before = pace.at_once();
        pace.answered(took, self.timeout);
        let now = pace.at_once();
        drop(pace);

        if now != before {
            self.turns.set_at_once(now);
        }
    }

    /// Some answer has come, whatever it says.
    fn heard(&self) {
        let Some(absence) = &self.presence else {
            return;
        };
        let is_news = !absence.presence.borrow().is_untroubled();
        if is_news {
            let now = Instant::now();
            absence
                .presence
                .send_modify(|presence| presence.answered(now));
        }
    }

    /// No answer until the time was over.
    fn late(&self, question: &Question, began: Instant) -> Undecided {
        let had = began.elapsed();
        let reason = format!("no answer within {} ms", self.timeout.as_millis());
        // A tenth of the time at most went by before it was asked.
        if had < self.timeout.mul_f32(0.9) {
            if let Some(absence) = &self.presence {
                absence
                    .presence
                    .send_modify(|presence| presence.missed(false, Instant::now()));
            }
            return Undecided::unknown(reason);
        }

        let mut pace = self.pace.lock();
        let before = pace.at_once();
        pace.missed(began, Instant::now());
        let now = pace.at_once();
        drop(pace);
        if now != before {
            self.turns.set_at_once(now);
        }

        match question.size() > LARGE {
            true => Undecided::unknown(reason),
            false => Undecided::absent(reason),
        }
    }

    fn crowded(&self) -> Undecided {
        let time = self.timeout.as_millis();
        Undecided::unknown(format!(
            "no answer within {time} ms: too many questions at once"
        ))
    }

    /// No answer came. Where that may open something, the node asks by itself, and says so if the verdict comes in time.
    async fn missed(
        self: &Arc<Self>,
        client: &Client,
        missing: Undecided,
        until: tokio::time::Instant,
    ) -> Result<ServerReply, Undecided> {
        let Some(absence) = self
            .presence
            .as_ref()
            .filter(|_| missing.whose == Whose::Absent)
        else {
            return Err(missing);
        };

        absence
            .presence
            .send_modify(|presence| presence.missed(true, Instant::now()));
        self.probe(client, absence);
        let mut known = absence.presence.subscribe();
        let away = known.wait_for(|presence| presence.standing() == Standing::Away);
        match timeout_at(until, away).await {
            Ok(Ok(_)) => Err(Undecided::away(missing.reason)),
            _ => Err(missing),
        }
    }

    /// Has a task ask for the node itself, if there is none.
    fn probe(self: &Arc<Self>, client: &Client, absence: &Absence) {
        *absence.wanted.lock() = Instant::now();
        if absence.is_probed.swap(true, Ordering::SeqCst) {
            return;
        }
        let server = self.clone();
        let asking = client.clone();
        client.spawn(async move { server.probe_until_settled(&asking).await });
    }

    /// Asks one question after the other, until the server is there or no client asks any more.
    async fn probe_until_settled(&self, client: &Client) {
        let Some(absence) = &self.presence else {
            return;
        };
        let _probing = Probing(&absence.is_probed);
        while absence.wanted.lock().elapsed() < PROBING {
            let before = self.asked.load(Ordering::SeqCst);
            let evidence = self.probe_once(client).await;
            let others = before.max(self.asked.load(Ordering::SeqCst));

            let mut pause = None;
            absence.presence.send_modify(|presence| {
                pause = presence.probed(evidence, others, self.timeout, Instant::now());
            });
            let Some(pause) = pause else {
                return;
            };
            sleep(pause).await;
        }
    }

    async fn probe_once(&self, client: &Client) -> Evidence {
        let question = Question::own(&self.form);
        let answered = tokio::time::timeout(self.timeout, self.ask(client, &question)).await;
        match answered {
            Ok(Ok(_)) => Evidence::Answered,
            Ok(Err(undecided)) => undecided.evidence,
            Err(_) => Evidence::Silent,
        }
    }

    /// Asks, and once more where the connection died without an answer.
    async fn ask(&self, client: &Client, question: &Question) -> Result<ServerReply, Undecided> {
        let timeouts = Timeouts {
            connect: self.timeout,
            ..*self.upstream.timeouts()
        };

        let mut again = AGAIN;
        loop {
            let checkout = client.checkout(&self.upstream, &timeouts).await;
            let checkout = checkout.map_err(|failure| Undecided::connect(&failure))?;
            let reused = checkout.reused;
            let head = self.upstream.addressed(&question.head, Receiver::Origin);
            let content = RequestBody::Whole(question.content.clone());

            // Answers at once are few: no one is charged.
            let limit = buffered::Limit {
                bytes: ANSWER_BYTES,
                account: None,
            };

            let answered = buffered::message(checkout, &head, content, Receiver::Origin, &limit);
            match answered.await {
                Ok(reply) => {
                    self.heard();
                    return Ok(reply);
                }
                Err(failure) if again > 0 && failure.may_repeat(reused) => again -= 1,
                Err(failure) => {
                    let undecided = Undecided::broken(&failure, question.size());
                    if undecided.evidence == Evidence::Answered {
                        self.heard();
                    }
                    return Err(undecided);
                }
            }
        }
    }
}

/// Says that a task asks, until it is dropped.
struct Probing<'a>(&'a AtomicBool);

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A question waits on the account of its user.
fn charged(subject: &Subject<'_>, question: &Question) -> Result<Charge, Undecided> {
    let owner = Owner::of(subject.user, &subject.source.peer);
    let charge = Memory::node()
        .owner(owner)
        .charge(Purpose::Collected, question.size());
    charge.map_err(|overdrawn| Undecided::unknown(overdrawn.to_string()))
}
