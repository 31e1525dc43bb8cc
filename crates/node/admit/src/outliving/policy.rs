//! The settings of a route for tunnels that outlive their path.

use std::time::Duration;

use hermes_config::model::{Route, Tunnel, TunnelAnswer};

use super::{KEEP_FOR, WINDOW};

/// The settings.
#[derive(Debug, Clone, Copy)]
pub struct ResumePolicy {
    /// Bytes from the client that are kept here until they have arrived.
    pub window: usize,
    /// How long a tunnel without a path is kept.
    pub keep_for: Duration,
}

impl Default for ResumePolicy {
    fn default() -> Self {
        Self {
            window: WINDOW,
            keep_for: KEEP_FOR,
        }
    }
}

impl ResumePolicy {
    /// The policy for connections to names of the overlay where the route says nothing: programs behind them, such as ssh, have nothing
    /// else that would bring them back. Their bytes pass through this process in any case, so that it costs a window.
    pub(crate) fn of_names(route: &Route) -> Option<Self> {
        let said = route.tunnel.as_ref().and_then(Tunnel::details);
        let is_decided = said
            .is_some_and(|said| said.resume.is_some() || said.answer == Some(TunnelAnswer::Early));
        let is_changed = !route.through.is_empty();
        (!is_decided && !is_changed).then(Self::default)
    }

    /// The policy of the route; `None` if its tunnels end with their path.
    pub fn of(route: &Route) -> Option<Self> {
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
