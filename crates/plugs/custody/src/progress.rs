//! The progress of a request in custody that takes long, in words for its client.

use std::pin::pin;
use std::time::Duration;

use hermes_plug::Waits;
use tokio::time::sleep;

use crate::engine::AskingProgress;
use crate::node::Exchange;

/// How often it is said anew, and how long a neighbour may be silent before that is said.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_secs(1);

/// Waits for something of an exchange, and says in the meantime why it takes long.
pub(crate) async fn saying<T>(
    exchange: &Exchange,
    waits: &Waits,
    words: impl Fn(AskingProgress) -> Option<String>,
    awaited: impl Future<Output = T>,
) -> T {
    let mut awaited = pin!(awaited);
    let mut is_said = false;
    loop {
        tokio::select! {
            came = &mut awaited => {
                // The words that were said are taken back: they are true no more.
                if is_said {
                    waits.over();
                }
                return came;
            }
            () = sleep(LOOK) => {}
        }

        match exchange.progress().and_then(&words) {
            Some(words) => {
                waits.say(words);
                is_said = true;
            }
            None if std::mem::take(&mut is_said) => waits.over(),
            None => {}
        }
    }
}

/// The words for a request that was not answered yet.
pub(crate) fn of_request(name: &str, progress: AskingProgress) -> String {
    let heard = heard(progress);
    if progress.is_confirmed {
        format!("the answer: {name} has the request in custody, and {heard}")
    } else {
        format!("{name} to take the request into custody, which {heard}")
    }
}

/// The words for the rest of a response, if nothing comes.
pub(crate) fn of_rest(name: &str, progress: AskingProgress) -> Option<String> {
    let is_silent = progress.heard.is_none_or(|heard| heard > LOOK);
    is_silent.then(|| {
        format!(
            "the rest of the response from {name}, which {}",
            heard(progress)
        )
    })
}

fn heard(progress: AskingProgress) -> String {
    match progress.heard {
        Some(ago) => format!("was heard {} s ago", ago.as_secs()),
        None => "was not heard yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_where_a_request_is() {
        let silent = AskingProgress {
            is_confirmed: false,
            heard: None,
        };
        let words = of_request("edge", silent);
        assert_eq!(
            words,
            "edge to take the request into custody, which was not heard yet"
        );
        assert!(of_rest("edge", silent).is_some());

        let taken = AskingProgress {
            is_confirmed: true,
            heard: Some(Duration::from_millis(900)),
        };
        let words = of_request("edge", taken);
        assert_eq!(
            words,
            "the answer: edge has the request in custody, and was heard 0 s ago"
        );
        assert_eq!(of_rest("edge", taken), None);
    }
}
