//! The cache as a plug of a node: its stored responses, their bound, its status and its metrics.

use std::sync::Arc;

use hermes_config::{Problem, settings_schema};
use hermes_observe::admin::AdminRefusal;
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Change, DocumentSettings, Plug, Plugs};
use serde_json::{Value, json};

use crate::handler::Cache;
use crate::question;
use crate::settings::NodeSettings;
use crate::shared::Shared;
use crate::storage::MEMORY;

/// The name of the handler and of the plug.
const CACHE: &str = "cache";

/// The least memory for stored responses.
#[doc(alias = "bound")]
const LEAST_MEMORY: u64 = 64 << 10;

/// Adds the cache to the plugs of a program.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    let shared = Arc::new(Shared::default());
    let plugs = plugs.handler(CACHE, Cache::new(shared.clone()));
    plugs.plug(CACHE, CachePlug { shared })
}

/// The part of the cache beside its exchanges.
struct CachePlug {
    shared: Arc<Shared>,
}

impl Plug for CachePlug {
    fn schema(&self) -> Option<Value> {
        Some(settings_schema::<NodeSettings>())
    }

    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let read = settings.read::<NodeSettings>();
        let read = read.map_err(|wrong| vec![wrong])?.unwrap_or_default();
        let memory = read.memory.map_or(MEMORY, |size| size.0);
        if memory < LEAST_MEMORY {
            let remedy = "write 64KiB or more, or leave the cache out of `through`";
            return Err(vec![settings.problem(
                "memory",
                "it has no room for a response",
                remedy,
            )]);
        }

        let shared = self.shared.clone();
        Ok(Change::new(move || shared.storage.limit(memory)))
    }

    fn status(&self) -> Value {
        let counts = self.shared.counts.named();
        let extent = self.shared.storage.extent();
        if extent.responses == 0 && counts.iter().all(|(_, count)| *count == 0) {
            return Value::Null;
        }
        let mut status = json!({
            "responses": extent.responses,
            "bytes": extent.bytes,
            "memory": extent.memory,
            "purged": self.shared.counts.purged(),
            "hit_permille": self.shared.counts.hit_permille(),
        });
        for (name, count) in counts {
            status[name] = count.into();
        }
        status
    }

    fn ask(&self, question: &Value) -> Result<Value, AdminRefusal> {
        question::answer(&self.shared, question)
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let extent = self.shared.storage.extent();
        let counts = self.shared.counts.named();
        let requests = counts.into_iter().map(|(name, count)| LabelledGauge {
            labels: vec![("result", name.to_owned())],
            value: i64::try_from(count).unwrap_or(i64::MAX),
        });
        vec![
            GaugeFamily {
                name: "hermes_cache_requests",
                help: "Requests to the cache since the start, by how they were answered",
                gauges: requests.collect(),
            },
            family(
                "hermes_cache_responses",
                "Responses that the cache stores",
                extent.responses,
            ),
            family(
                "hermes_cache_bytes",
                "Bytes of responses that the cache stores",
                usize::try_from(extent.bytes).unwrap_or(usize::MAX),
            ),
            family(
                "hermes_cache_hit_permille",
                "Requests of a thousand that the cache could answer and did without their content from the next hop, since the start",
                self.shared.counts.hit_permille(),
            ),
        ]
    }
}

fn family(name: &'static str, help: &'static str, value: usize) -> GaugeFamily {
    GaugeFamily {
        name,
        help,
        gauges: vec![LabelledGauge {
            labels: Vec::new(),
            value: i64::try_from(value).unwrap_or(i64::MAX),
        }],
    }
}
