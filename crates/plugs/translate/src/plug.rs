//! Translation as a plug of a node: its handler, its files, its status and its metrics.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_config::Problem;
use hermes_config::model::{Document, PlugUse};
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Change, DocumentSettings, Plug, Plugs};
use serde_json::{Map, Value, json};

use crate::handler::Translate;
use crate::mapped::{Counts, MappedFiles};

/// The name of the handler and of the plug.
const TRANSLATE: &str = "translate";

/// Adds translation to the plugs of a program.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    let files = Arc::new(MappedFiles::default());
    let plugs = plugs.handler(TRANSLATE, Translate::without_file(files.clone()));
    plugs.plug(TRANSLATE, TranslatePlug { files })
}

/// The part of translation beside its exchanges.
struct TranslatePlug {
    files: Arc<MappedFiles>,
}

/// The files that the functions of a document name.
fn named(document: &Document) -> Vec<PathBuf> {
    let routes = document.routes.iter().flat_map(|route| &route.through);
    let all = document.functions.values().chain(routes);
    // Names of functions lead to the first of these, so that all uses are found.
    let file = |named: &PlugUse| {
        let settings = named
            .settings
            .as_ref()
            .filter(|_| named.name == TRANSLATE)?;
        settings.get("file")?.as_str().map(PathBuf::from)
    };
    all.filter_map(file).collect()
}

impl Plug for TranslatePlug {
    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let reread = self.files.reread(&named(settings.document))?;
        Ok(Change::new(move || reread.apply()))
    }

    fn status(&self) -> Value {
        let mut status = Map::new();
        for file in self.files.all() {
            let counts = &file.counts;
            let told = json!({
                "translated": counts.translated.load(Ordering::Relaxed),
                "passed": counts.passed.load(Ordering::Relaxed),
                "left_uris": counts.left.load(Ordering::Relaxed),
                "refused": counts.refused.load(Ordering::Relaxed),
                "last_refusal": counts.last_refusal(),
            });
            status.insert(file.file.display().to_string(), told);
        }
        match status.is_empty() {
            true => Value::Null,
            false => json!({ "files": status }),
        }
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let files = self.files.all();
        let family = |name, help, count: &dyn Fn(&Counts) -> u64| GaugeFamily {
            name,
            help,
            gauges: files
                .iter()
                .map(|file| LabelledGauge {
                    labels: vec![("file", file.file.display().to_string())],
                    value: i64::try_from(count(&file.counts)).unwrap_or(i64::MAX),
                })
                .collect(),
        };
        vec![
            family(
                "hermes_translate_translated",
                "Requests of an old interface that were translated",
                &|counts| counts.translated.load(Ordering::Relaxed),
            ),
            family(
                "hermes_translate_refused",
                "Requests and answers that could not be translated",
                &|counts| counts.refused.load(Ordering::Relaxed),
            ),
        ]
    }
}
