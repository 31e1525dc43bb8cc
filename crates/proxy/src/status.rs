//! What administration sees of the node and asks it.

use serde_json::{Value, json};

use crate::admin::Control;
use crate::node::Node;

impl Control for Node {
    fn status(&self) -> Value {
        let snapshot = self.shared.snapshot.load();
        let changing = self.changing.lock();
        let upstreams: Vec<_> = snapshot
            .document
            .upstreams
            .keys()
            .filter_map(|name| Some(snapshot.upstreams.get(name)?.status()))
            .collect();
        json!({
            "node": &*snapshot.node,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "config": { "file": self.file, "revision": snapshot.revision, "routes": snapshot.document.routes.len() },
            "workers": changing.doors.len(),
            "listeners": changing.table.views(&snapshot.document),
            "upstreams": upstreams,
            "exchanges": { "live": self.shared.seeing.live_count() },
            "draining": self.drain.watch().is_draining(),
        })
    }

    fn reload(&self) -> Result<Value, Value> {
        Self::reload(self).map(|report| json!(report)).map_err(|problems| json!({ "problems": problems }))
    }

    fn log_level(&self, filter: &str) -> Result<(), String> {
        (self.set_log)(filter)
    }
}
