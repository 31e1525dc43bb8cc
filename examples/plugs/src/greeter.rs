//! A handler whose words the document has, and that counts its answers beside the exchanges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hermes_config::{Problem, settings_schema};
use hermes_http::ResponseHead;
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{
    Background, Change, DocumentSettings, Handler, HandlerRequest, Handling, Plug, Response,
};
use http::StatusCode;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// How often answers are counted.
#[doc(alias = "bound")]
const COUNT_EVERY: Duration = Duration::from_millis(10);

/// What stands at `plugs: { greeter: {..} }`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GreeterSettings {
    /// What it says.
    words: String,
}

/// Answers with its words. Its copies are the same.
#[derive(Clone, Default)]
pub struct Greeter(Arc<Greetings>);

#[derive(Default)]
struct Greetings {
    words: Mutex<Bytes>,
    answers: AtomicU64,
    /// Answers that were counted; `None` when the node drains.
    counted: Mutex<Option<u64>>,
}

impl Greeter {
    /// How many answers were counted; `None` before the node runs and once it drains.
    pub fn counted(&self) -> Option<u64> {
        *self.0.counted.lock()
    }
}

impl Handler for Greeter {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        let words = self.0.words.lock().clone();
        let response = Response::Whole(ResponseHead::new(StatusCode::OK), words);
        Box::pin(std::future::ready(Ok(response)))
    }
}

impl Plug for Greeter {
    fn schema(&self) -> Option<Value> {
        Some(settings_schema::<GreeterSettings>())
    }

    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let read = settings.read::<GreeterSettings>();
        let words = read
            .map_err(|wrong| vec![wrong])?
            .map_or_else(String::new, |settings| settings.words);
        if words.lines().count() > 1 {
            let remedy = "write one line";
            return Err(vec![settings.problem("words", "they are too many", remedy)]);
        }

        let greetings = self.0.clone();
        Ok(Change::new(move || *greetings.words.lock() = words.into()))
    }

    fn start(&self, background: &Background) {
        let greetings = self.0.clone();
        let stopping = background.clone();
        background.spawn(async move {
            loop {
                let answers = greetings.answers.load(Ordering::Relaxed);
                *greetings.counted.lock() = Some(answers);
                tokio::select! {
                    () = tokio::time::sleep(COUNT_EVERY) => {}
                    () = stopping.stopping() => break,
                }
            }
            *greetings.counted.lock() = None;
        });
    }

    fn status(&self) -> Value {
        json!({ "answers": self.0.answers.load(Ordering::Relaxed) })
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let answers = self.0.answers.load(Ordering::Relaxed);
        vec![GaugeFamily {
            name: "hermes_greeter_answers",
            help: "Answers of the greeter",
            gauges: vec![LabelledGauge {
                labels: Vec::new(),
                value: answers.cast_signed(),
            }],
        }]
    }
}
