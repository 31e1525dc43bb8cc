//! A policy in Rego that decides in this process.
//!
//! One that is brief answers at once. Any other is asked on few threads, for which users take turns, and strangers by source: one who asks
//! for much leaves others their part.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_config::model::{Authorize, DataSource, FieldPattern, OneOrMany, Rego, RegoInput};
use hermes_config::{Problem, child};
use hermes_net::Asker;
use hermes_net::turns::{NoTurn, TurnBounds, Turns};
use hermes_plug::{Deciding, Decision, Denial, Filter, Outcome, Subject, Verdict};
use hermes_proto::fields::Fields;
use hermes_rego::{
    Answer as RegoAnswer, Budget, Evaluator, Excess, Failure, Policy, Wrong, threads,
};
use http::StatusCode;
use serde_json::Value;
use tokio::time::timeout_at;

use super::answer::{self, Answered, Others, Owned};
use super::envoy;
use super::external::{CONCURRENCY, GRACE, TIMEOUT};
use super::question::known;
use super::undecided::Undecided;

/// Bytes of a file of rules or of data.
#[doc(alias = "bound")]
const FILE: u64 = 1024 * 1024;

/// Questions at once for each thread of a policy. One user has half of them: one that is evaluated, and one that follows at once; as many
/// are there for another.
#[doc(alias = "bound")]
const OF_THREAD: usize = 4;

/// The policy of an entry, ready to be asked; its problems are reported.
pub(super) fn evaluator(rego: &Rego, path: &str, problems: &mut Vec<Problem>) -> Option<Evaluator> {
    let policy = policy(&rego.files, &rego.query, path, problems)?;
    let usual = Budget::default();
    let budget = Budget {
        steps: rego.steps.unwrap_or(usual.steps),
        memory: rego.memory.map_or(usual.memory, |memory| memory.0),
    };
    let evaluator = Evaluator::new(policy, budget, OF_THREAD * threads());
    evaluator
        .map_err(|wrong| problems.push(Problem::new(child(path, "query"), wrong.to_string())))
        .ok()
}

/// The policy of these files, in which this rule decides.
pub fn policy(
    files: &OneOrMany<DataSource>,
    query: &str,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<Policy> {
    let files_path = child(path, "files");
    let mut texts = Vec::new();
    for (index, source) in files.into_iter().enumerate() {
        let text = source.either(text, |inline| Ok(inline.to_owned()));
        match text {
            Ok(text) => texts.push((name(source, index), text)),
            Err(reason) => problems.push(Problem::new(&*files_path, reason)),
        }
    }
    if texts.len() < files.iter().count() {
        return None;
    }

    let joined = |wrong: &[Wrong]| {
        let wrong: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        wrong.join("; ")
    };
    match Policy::new(&texts, query) {
        Ok(policy) if policy.missing().is_empty() => Some(policy),
        Ok(policy) => {
            problems.push(Problem::new(files_path, joined(policy.missing())));
            None
        }
        Err(wrong) => {
            problems.push(Problem::new(files_path, joined(&wrong)));
            None
        }
    }
}

/// The name of a text, whose end says whether it is data.
fn name(source: &DataSource, index: usize) -> String {
    source.either(
        |file| file.display().to_string(),
        |text| match text.trim_start().starts_with('{') {
            true => format!("files[{index}].json"),
            false => format!("files[{index}]"),
        },
    )
}

fn text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;

    if text.len() as u64 > FILE {
        return Err(format!("{shown} is larger than {} MiB", FILE >> 20));
    }
    Ok(text)
}

/// A policy where a document asks it.
pub(super) struct RegoFilter {
    evaluator: Arc<Evaluator>,
    turns: Turns,
    input: RegoInput,
    owned: Vec<FieldPattern>,
    timeout: Duration,
    recheck: Option<Duration>,
    grace: Duration,
}

impl RegoFilter {
    pub fn new(config: &Authorize, rego: &Rego, evaluator: Arc<Evaluator>) -> Self {
        let waiting = config.concurrency.map_or(CONCURRENCY, usize::from);
        let at_once = OF_THREAD * threads();
        Self {
            evaluator,
            turns: Turns::new(TurnBounds {
                at_once,
                of_group: at_once,
                spare: true,
                waiting,
                waiting_of_asker: waiting,
            }),
            input: rego.input,
            owned: config.allow_fields.clone(),
            timeout: config.timeout.map_or(TIMEOUT, |timeout| timeout.0),
            recheck: config.recheck.map(|recheck| recheck.0),
            grace: config.grace.map_or(GRACE, |grace| grace.0),
        }
    }

    async fn verdict(&self, subject: &Subject<'_>) -> Verdict {
        let began = Instant::now();
        let answered = self.ask(subject).await;
        let verdict = match answered {
            Ok(answer) => answer.verdict(None, self.recheck),
            Err(undecided) => self.refused(undecided.reason),
        };
        Verdict {
            took: Some(began.elapsed()),
            ..verdict
        }
    }

    async fn ask(&self, subject: &Subject<'_>) -> Answered {
        let input = match self.input {
            RegoInput::Hermes => known(subject, &subject.head.fields),
            RegoInput::Envoy => envoy::input(subject),
        };

        let result = self.evaluate(input, subject).await;
        let result = result.map_err(|failure: Failure| Undecided::unknown(failure.to_string()))?;
        let owned = Owned {
            patterns: &self.owned,
            others: Others::Refused,
        };
        match self.input {
            RegoInput::Hermes => answer::result(result.as_ref(), &owned),
            RegoInput::Envoy => envoy::result(result.as_ref(), &owned),
        }
    }

    /// The result for this input, in the turn of the subject's user.
    async fn evaluate(&self, input: Value, subject: &Subject<'_>) -> RegoAnswer {
        let until = tokio::time::Instant::now() + self.timeout;
        let question = match self.evaluator.ask_first(input) {
            Ok(answer) => return answer,
            Err(question) => question,
        };

        let asker = Asker::user_or_source(subject.user, &subject.source.peer);
        let turn = timeout_at(until, self.turns.take(asker, None)).await;
        let _turn = turn
            .map_err(|_| Failure::Excess(Excess::Time))?
            .map_err(|NoTurn| Failure::Crowded)?;
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        self.evaluator.ask_on_thread(question, left).await
    }

    /// No decision: whatever the client wrote may be why, so it never goes on.
    fn refused(&self, reason: String) -> Verdict {
        Verdict {
            decision: Decision::Deny(Denial {
                status: StatusCode::SERVICE_UNAVAILABLE,
                fields: Fields::new(),
                content: None,
            }),
            reason,
            outcome: Outcome::FailedClosed,
            took: None,
            lasts: self.recheck,
            grace: self.grace,
        }
    }
}

impl Filter for RegoFilter {
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a> {
        Box::pin(self.verdict(subject))
    }
}
