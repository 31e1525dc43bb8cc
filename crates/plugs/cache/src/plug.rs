//! The cache as a plug of a node: its stored responses, their bound, its status and its metrics.

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::{Problem, settings_schema};
use hermes_observe::admin::AdminRefusal;
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Change, DocumentSettings, Plug, Plugs};
use serde_json::{Value, json};

use crate::disk;
use crate::handler::Cache;
use crate::question;
use crate::settings::{DISK, DiskSettings, NodeSettings};
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

/// Where responses are to be kept, in a document.
struct WantedDisk {
    path: Option<PathBuf>,
    bytes: u64,
}

impl WantedDisk {
    /// Whether another folder is in use: it stays until the process ends.
    fn wants_other(&self, shared: &Shared) -> bool {
        let used = shared.disk().map(|disk| disk.path());
        used.is_some() && used != self.path.as_deref()
    }
}

impl CachePlug {
    fn prepare_disk(
        &self,
        settings: &DocumentSettings<'_>,
        wanted: Option<DiskSettings>,
    ) -> Result<WantedDisk, Vec<Problem>> {
        let Some(wanted) = wanted else {
            return Ok(WantedDisk {
                path: None,
                bytes: 0,
            });
        };
        let problem = |reason: String, remedy| {
            let path = "disk.path";
            Err(vec![settings.problem(path, reason, remedy)])
        };
        let path = wanted.path;
        if !path.is_absolute() {
            let remedy = "write one such as /var/cache/hermes";
            return problem("it is no absolute path".to_owned(), remedy);
        }
        if !settings.is_check
            && let Err(error) = disk::prepare(&path)
        {
            let remedy = "name a folder of the node's user, which others cannot write to";
            return problem(format!("it cannot be used: {error}"), remedy);
        }
        Ok(WantedDisk {
            path: Some(path),
            bytes: wanted.bytes.map_or(DISK, |size| size.0),
        })
    }
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

        let disk = self.prepare_disk(settings, read.disk)?;
        let shared = self.shared.clone();
        let wants_other = disk.wants_other(&shared);
        let change = Change::new(move || {
            shared.storage.limit(memory, disk.bytes);
            shared.parts.limit(memory);
            if let Some(path) = &disk.path {
                shared.keep_in(path);
            }
        });
        Ok(match wants_other {
            true => change.needs_restart(vec!["plugs.cache.disk.path".to_owned()]),
            false => change,
        })
    }

    fn status(&self) -> Value {
        let counts = self.shared.counts.named();
        let extent = self.shared.storage.extent();
        if self.shared.disk().is_none()
            && extent.responses == 0
            && counts.iter().all(|(_, count)| *count == 0)
        {
            return Value::Null;
        }
        let mut status = json!({
            "responses": extent.responses,
            "bytes": extent.bytes,
            "memory": extent.memory,
            "purged": self.shared.counts.purged(),
            "hit_permille": self.shared.counts.hit_permille(),
        });
        if let Some(disk) = self.shared.disk() {
            status["disk"] = json!({
                "path": disk.path(),
                "bytes": extent.files,
                "limit": extent.disk,
                "failures": disk.failures(),
                "promoted": self.shared.counts.promotions(),
            });
        }
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
                "hermes_cache_disk_bytes",
                "Bytes on disk that stored responses take",
                usize::try_from(extent.files).unwrap_or(usize::MAX),
            ),
            family(
                "hermes_cache_disk_failures",
                "Failures to write stored responses to disk since the start",
                self.shared.disk().map_or(0, |disk| {
                    usize::try_from(disk.failures()).unwrap_or(usize::MAX)
                }),
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
