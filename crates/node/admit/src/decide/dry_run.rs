//! A dry run: nothing is logged, counted or sent, and of the filters only policies of this process are asked.

use hermes_upstream::Client;

/// A decision on an exchange that is only supposed.
pub struct DryRun {
    /// The client that filters are given; it should reach nothing.
    pub client: Client,
    /// When the exchange arrives, in Unix time; `None`: now.
    pub at: Option<u64>,
    /// The words of each filter that was asked.
    pub said: Vec<String>,
}

impl DryRun {
    /// At this time, with a client that reaches nothing.
    pub fn new(client: Client, at: Option<u64>) -> Self {
        Self {
            client,
            at,
            said: Vec::new(),
        }
    }
}
