//! Objects of several origins as a plug of a node: its handler, its status and its metrics.

use std::sync::Arc;

use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Plug, Plugs};
use serde_json::{Value, json};

use crate::book::OriginRecord;
use crate::handler::Origins;
use crate::ways::KnownGroups;

/// The name of the handler and of the plug.
const ORIGINS: &str = "origins";

/// Adds it to the plugs of a program.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    let known = Arc::new(KnownGroups::default());
    let plugs = plugs.handler(ORIGINS, Origins::without_settings(known.clone()));
    plugs.plug(ORIGINS, OriginsPlug { known })
}

/// The part beside the exchanges.
struct OriginsPlug {
    known: Arc<KnownGroups>,
}

/// An origin, and its measurements.
struct NamedOrigin {
    name: String,
    record: OriginRecord,
}

impl OriginsPlug {
    fn origins(&self) -> Vec<NamedOrigin> {
        let mut origins = Vec::new();
        for group in self.known.all() {
            let others = group.rules.others.iter().map(ToString::to_string);
            let names = std::iter::once("(route)".to_owned()).chain(others);
            let records = group.book.lock().records().to_vec();
            origins.extend(
                names
                    .zip(records)
                    .map(|(name, record)| NamedOrigin { name, record }),
            );
        }
        origins
    }
}

impl Plug for OriginsPlug {
    fn status(&self) -> Value {
        let origins = self.origins();
        if origins.is_empty() {
            return Value::Null;
        }
        let told = origins.into_iter().map(|NamedOrigin { name, record }| {
            json!({
                "origin": name,
                "bytes_per_second": record.rate.map(f64::round),
                "bytes": record.bytes,
                "pieces": record.pieces,
                "failures": record.failures,
                "unlike": record.unlike,
            })
        });
        json!({ "origins": told.collect::<Vec<_>>() })
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let origins = self.origins();
        let family = |name, help, value: &dyn Fn(&OriginRecord) -> u64| GaugeFamily {
            name,
            help,
            gauges: origins
                .iter()
                .map(|origin| LabelledGauge {
                    labels: vec![("origin", origin.name.clone())],
                    value: i64::try_from(value(&origin.record)).unwrap_or(i64::MAX),
                })
                .collect(),
        };
        vec![
            family(
                "hermes_origins_bytes",
                "Bytes of objects by the origin that they came from",
                &|record| record.bytes,
            ),
            family(
                "hermes_origins_failures",
                "Pieces that an origin did not send",
                &|record| record.failures,
            ),
            family(
                "hermes_origins_unlike",
                "Contents of an origin that were not those of a transfer",
                &|record| record.unlike,
            ),
        ]
    }
}
