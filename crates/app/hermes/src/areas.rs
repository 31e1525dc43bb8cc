//! Paths between areas: the plug that provisions them changes its node by reading its file again.

use hermes_areas::Reload;
use hermes_node::NodeHandle;

/// A node that reads its file again.
pub struct RereadFile(pub NodeHandle);

impl Reload for RereadFile {
    fn reload(&self) -> Result<(), String> {
        let done = self.0.reload();
        done.map(drop)
            .map_err(|refused| refused.problems().to_string())
    }
}
