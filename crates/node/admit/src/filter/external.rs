//! External authorisation: a server is asked over HTTP, through an upstream with its pool, TLS and balance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_config::model::{Authorize, AuthorizeKind, Fail, FieldPattern};
use hermes_identity::cache::Cache;
use hermes_plug::{Deciding, Decision, Denial, Filter, Outcome, Subject, Verdict};
use hermes_proto::fields::Fields;
use hermes_upstream::Upstream;
use http::StatusCode;
use parking_lot::Mutex;

use super::answer::{self, Answer, Answered, Others, Owned};
use super::grpc;
use super::question::{Form, Question};
use super::server::{Limits, Server, ServerReply};
use super::undecided::{Undecided, Whose};

/// How long a decision may take: an exchange waits for it.
#[doc(alias("bound", "authorize.timeout"))]
pub(super) const TIMEOUT: Duration = Duration::from_millis(200);

/// Questions to one server at once.
#[doc(alias("bound", "authorize.concurrency"))]
pub(super) const CONCURRENCY: usize = 256;

/// Answers that are remembered.
#[doc(alias("bound", "authorize.cache.entries"))]
const ENTRIES: usize = 10_000;

/// Bytes of the fields and content of a remembered answer: ten thousand take some tens of MiB.
#[doc(alias = "bound")]
const REMEMBERED_BYTES: usize = 4 * 1024;

/// How long an open tunnel goes on without a decision: a policy server that restarts ends none.
#[doc(alias("bound", "authorize.grace"))]
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// One authorisation server, and its recent answers.
pub(super) struct External {
    name: String,
    server: Arc<Server>,
    fail: Fail,
    send: Vec<FieldPattern>,
    owned: Vec<FieldPattern>,
    memory: Option<Memory>,
    recheck: Option<Duration>,
    grace: Duration,
}

/// Answers that count for a while. Times are milliseconds since `began`.
struct Memory {
    time: Duration,
    began: Instant,
    known: Mutex<Cache<Vec<u8>, Remembered>>,
}

#[derive(Clone)]
struct Remembered {
    answer: Answer,
    at: u64,
}

impl Memory {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// An answer, with the remaining time for which it counts.
    fn find(&self, key: &[u8]) -> Option<Answer> {
        let now = self.now();
        let Remembered { mut answer, at } = self.known.lock().find(key, now).cloned()?;
        let age = Duration::from_millis(now.saturating_sub(at));
        answer.lasts = answer.lasts.map(|lasts| lasts.saturating_sub(age));
        Some(answer)
    }

    fn keep(&self, key: Vec<u8>, answer: &Answer) {
        let time = answer.lasts.map_or(self.time, |lasts| lasts.min(self.time));
        if size(&answer.decision) <= REMEMBERED_BYTES && !time.is_zero() {
            let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let at = self.now();
            self.known.lock().insert(
                key,
                Remembered {
                    answer: answer.clone(),
                    at,
                },
                at.saturating_add(time),
            );
        }
    }
}

fn size(decision: &Decision) -> usize {
    let of = |fields: &Fields| {
        fields
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum::<usize>()
    };
    match decision {
        Decision::Allow(changes) => {
            let query = changes.query.set.iter();
            let query = query.map(|(name, value)| name.len() + value.len());
            let removed = changes.query.remove.iter().map(String::len);
            of(&changes.set)
                + of(&changes.append)
                + of(&changes.answer.set)
                + of(&changes.answer.append)
                + query.sum::<usize>()
                + removed.sum::<usize>()
        }
        Decision::Deny(denial) => {
            of(&denial.fields) + denial.content.as_ref().map_or(0, bytes::Bytes::len)
        }
    }
}

impl External {
    pub fn new(config: &Authorize, upstream: Arc<Upstream>) -> Self {
        let path = config.path().unwrap_or_default().to_owned();
        let form = match config.kind {
            AuthorizeKind::Opa => Form::Opa { path },
            AuthorizeKind::Grpc => Form::Grpc,
            AuthorizeKind::Http => Form::Http {
                prefix: path.trim_end_matches('/').to_owned(),
                body: config.body,
            },
        };

        let limits = Limits {
            concurrency: config.concurrency.map_or(CONCURRENCY, usize::from),
            timeout: config.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        };
        let opens = config.fail == Fail::Open;
        let memory = config.cache.as_ref().map(|cache| Memory {
            time: cache.time.0,
            began: Instant::now(),
            known: Mutex::new(Cache::new(cache.entries.unwrap_or(ENTRIES).max(1))),
        });

        Self {
            name: config.name.clone(),
            server: Arc::new(Server::new(form, &limits, opens, upstream)),
            fail: config.fail,
            send: config.send.clone(),
            owned: config.allow_fields.clone(),
            memory,
            recheck: config.recheck.map(|recheck| recheck.0),
            grace: config.grace.map_or(GRACE, |grace| grace.0),
        }
    }

    async fn verdict(&self, subject: &Subject<'_>) -> Verdict {
        let question = match Question::new(&self.server.form, &self.send, subject) {
            Ok(question) => question,
            Err(reason) => return self.failed(Undecided::client(reason), None),
        };

        let key = self.memory.as_ref().map(|_| question.digest());
        let known = self
            .memory
            .as_ref()
            .zip(key.as_deref())
            .and_then(|(memory, key)| memory.find(key));
        if let Some(answered) = known {
            return answered.verdict(None, self.recheck);
        }

        let began = Instant::now();
        let reply = self.server.ask_in_time(subject, &question).await;
        let took = Some(began.elapsed());

        match reply.and_then(|reply| self.read(reply)) {
            Ok(answered) => {
                if let (Some(memory), Some(key)) = (&self.memory, key) {
                    memory.keep(key, &answered);
                }
                answered.verdict(took, self.recheck)
            }
            Err(undecided) => self.failed(undecided, took),
        }
    }

    /// The verdict of an answer.
    fn read(&self, reply: ServerReply) -> Answered {
        let (head, content) = reply;
        match self.server.form {
            Form::Opa { .. } => answer::opa(&head, &content.data, &self.owned),
            Form::Http { .. } => answer::http(head, content.data, &self.owned),
            Form::Grpc => {
                let owned = Owned {
                    patterns: &self.owned,
                    others: Others::Ignored,
                };
                grpc::answer(&head, &content, &owned)
            }
        }
    }

    /// No one decided.
    fn failed(&self, undecided: Undecided, took: Option<Duration>) -> Verdict {
        let Undecided { reason, whose, .. } = undecided;
        tracing::debug!(filter = self.name, reason, ?whose, "no decision");
        let denied = |status| {
            Decision::Deny(Denial {
                status,
                fields: Fields::new(),
                content: None,
            })
        };

        let (decision, outcome) = match (whose, self.fail) {
            (Whose::Away, Fail::Open) => {
                // The server's fields are no one else's, also where it says nothing.
                let open =
                    answer::changes(&self.owned, Fields::new(), Fields::new()).unwrap_or_default();
                (Decision::Allow(open), Outcome::FailedOpen)
            }
            (Whose::Away | Whose::Absent | Whose::Unknown, _) => (
                denied(StatusCode::SERVICE_UNAVAILABLE),
                Outcome::FailedClosed,
            ),
            (Whose::Client, _) => (denied(StatusCode::BAD_REQUEST), Outcome::FailedClosed),
        };

        let grace = if whose == Whose::Client {
            Duration::ZERO
        } else {
            self.grace
        };

        Verdict {
            decision,
            reason,
            outcome,
            took,
            lasts: self.recheck,
            grace,
        }
    }
}

impl Filter for External {
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a> {
        Box::pin(self.verdict(subject))
    }
}
