//! Questions and orders of an operator at the administrator's socket: `hermes cache`.

use std::ops::ControlFlow;
use std::time::Instant;

use hermes_observe::admin::AdminRefusal;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::choice::{Choice, ChoiceQuestion};
use crate::shared::Shared;
use crate::stored::Stored;

/// Responses in one answer.
#[doc(alias = "bound")]
const SHOWN: usize = 10_000;

/// Responses in one answer, where the question does not say.
#[doc(alias = "bound")]
const SHOWN_USUALLY: usize = 100;

/// A question, or an order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// Which responses are stored.
    Show {
        #[serde(default)]
        choice: ChoiceQuestion,
        limit: Option<usize>,
    },
    /// Remove responses.
    Purge {
        #[serde(default)]
        choice: ChoiceQuestion,
        /// Without a choice, all of them are meant.
        #[serde(default)]
        all: bool,
    },
}

/// The answer to a question.
///
/// # Errors
/// It is none, or says too little.
pub(crate) fn answer(shared: &Shared, question: &Value) -> Result<Value, AdminRefusal> {
    let question = Question::deserialize(question).map_err(AdminRefusal::other)?;
    match question {
        Question::Show { choice, limit } => {
            let choice = choice.read().map_err(AdminRefusal::other)?;
            let limit = limit.unwrap_or(SHOWN_USUALLY).min(SHOWN);
            Ok(show(shared, &choice, limit))
        }
        Question::Purge { choice, all } => {
            let choice = choice.read().map_err(AdminRefusal::other)?;
            // An empty variable of a script must not empty the cache.
            if choice.is_all() != all {
                let error =
                    "say which responses are to go: by URL, prefix, tag or user; or all of them";
                return Err(AdminRefusal::other(error));
            }
            let mut answer = json!({ "purged": shared.purge(&choice) });
            // Not even a process that is killed now would give them again, once their files are gone.
            let is_settled = shared.disk().is_none_or(|disk| disk.wait_settled());
            if !is_settled {
                answer["warning"] =
                    "the disk stands still: files will be removed when it goes on".into();
            }
            Ok(answer)
        }
    }
}

fn show(shared: &Shared, choice: &Choice, limit: usize) -> Value {
    let now = Instant::now();
    let mut shown = Vec::new();
    let mut matching = 0_usize;
    let mut bytes = 0_u64;
    shared.storage.each(|stored| {
        if choice.matches(stored) {
            matching += 1;
            bytes += stored.length.unwrap_or(0);
            if shown.len() < limit {
                shown.push(view(stored, now));
            }
        }
        ControlFlow::Continue(())
    });
    json!({ "responses": shown, "matching": matching, "bytes": bytes })
}

fn view(stored: &Stored, now: Instant) -> Value {
    let age = stored.age(now);
    json!({
        "url": stored.shelf.name.url(),
        "status": stored.head.status.as_u16(),
        "bytes": stored.length,
        "user": stored.shelf.user.as_deref(),
        "owner": stored.shelf.owner.to_string(),
        "age": age,
        "ttl": stored.ttl(age),
        "tags": stored.tags.iter().collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(question: &Value) -> String {
        let refusal = answer(&Shared::default(), question).unwrap_err();
        serde_json::to_string(&refusal).unwrap()
    }

    #[test]
    fn a_purge_of_nothing_in_particular_is_refused() {
        for vague in [
            json!({ "purge": {} }),
            json!({ "purge": { "choice": {} } }),
            json!({ "purge": { "choice": { "tag": "a" }, "all": true } }),
        ] {
            assert!(refused(&vague).contains("say which"), "{vague}");
        }
        let shared = Shared::default();
        let all = json!({ "purge": { "all": true } });
        assert_eq!(answer(&shared, &all).unwrap(), json!({ "purged": 0 }));
    }

    #[test]
    fn a_question_that_is_none_says_so() {
        assert!(refused(&json!({ "shwo": {} })).contains("unknown variant"));
        let wrong = json!({ "show": { "choice": { "url": "/a" } } });
        assert!(refused(&wrong).contains("`/a` is no URL"));
    }
}
