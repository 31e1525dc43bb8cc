//! The caches of nodes between two samples.

use serde::Serialize;
use serde_json::Value;

/// The cache of a node.
#[derive(Debug, Clone, Serialize)]
pub struct CacheRate {
    /// The node.
    pub node: String,
    /// Requests that were answered with stored contents, a second.
    pub hits_per_second: f64,
    /// Requests that went to the next hop for a content, a second.
    pub misses_per_second: f64,
    /// Hits among both, in percent; `None` where there were none.
    pub hit_percent: Option<f64>,
    /// The same since the start.
    pub hit_percent_since_start: f64,
    /// Stored responses.
    pub responses: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

/// Counts of requests that were answered with stored contents.
const HITS: [&str; 3] = ["hit", "stale", "validated"];

impl CacheRate {
    /// From one answer of a node to the next; `None` if it has no cache in use.
    pub fn between(node: &str, before: &Value, now: &Value, seconds: f64) -> Option<Self> {
        let cache = |said: &Value| said["status"]["plugs"]["cache"].clone();
        let then = cache(before);
        let cache = Some(cache(now)).filter(Value::is_object)?;
        let count = |cache: &Value, name: &str| cache[name].as_u64().unwrap_or(0);
        // A node that was started anew begins at zero.
        let grown = |name: &str| count(&cache, name).saturating_sub(count(&then, name));
        let hits: u64 = HITS.into_iter().map(grown).sum();
        let misses = grown("miss");
        let rate = |grown: u64| match seconds > 0.0 {
            true => (grown as f64 / seconds * 10.0).round() / 10.0,
            false => 0.0,
        };
        let all = hits + misses;
        Some(Self {
            node: node.to_owned(),
            hits_per_second: rate(hits),
            misses_per_second: rate(misses),
            hit_percent: (all > 0).then(|| (1000 * hits / all) as f64 / 10.0),
            hit_percent_since_start: count(&cache, "hit_permille") as f64 / 10.0,
            responses: count(&cache, "responses"),
            bytes: count(&cache, "bytes"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hits_are_told_from_misses_since_the_sample_before() {
        let said = |hit: u64, miss: u64| {
            let cache = json!({ "hit": hit, "validated": 1, "miss": miss, "hit_permille": 900, "responses": 3, "bytes": 9 });
            json!({ "status": { "plugs": { "cache": cache } } })
        };
        let rate = CacheRate::between("core", &said(10, 5), &said(16, 7), 2.0).unwrap();
        assert_eq!((rate.hits_per_second, rate.misses_per_second), (3.0, 1.0));
        assert_eq!(
            (rate.hit_percent, rate.hit_percent_since_start),
            (Some(75.0), 90.0)
        );
        assert!(CacheRate::between("core", &Value::Null, &json!({}), 1.0).is_none());
    }
}
