//! What a route says of tunnels that outlive their path.

use std::time::Duration;

use hermes_config::model::Route;

use super::{KEEP_FOR, WINDOW};

/// What it says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResumePolicy {
    /// Bytes from the client that are kept here until they have arrived.
    pub(crate) window: usize,
    /// How long a tunnel without a path is kept.
    pub(crate) keep_for: Duration,
}

impl ResumePolicy {
    /// What the route says; nothing if its tunnels end with their path.
    pub(crate) fn of(route: &Route) -> Option<Self> {
        let resume = route
            .tunnel
            .as_ref()?
            .resume()
            .filter(|resume| resume.is_on())?;
        let window = resume.window().map(|window| window.0);
        Some(Self {
            window: window.map_or(WINDOW, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            keep_for: resume.keep_for().map_or(KEEP_FOR, |time| time.0),
        })
    }
}
