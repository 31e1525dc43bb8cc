//! Who of several controllers leads, and news of their store.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A controller as the others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// Another one at each start.
    pub id: String,
    /// The controller as nodes reach it, such as `https://hub:7443`.
    pub url: String,
}

/// The part of one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It alone lets changes spread, revokes and tidies up.
    Leads,
    /// It passes on what only a leader does; `None` while there is no leader.
    Follows(Option<Presence>),
}

/// The part of one controller among those of its store, and what it hears of them.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// Its part.
    pub role: watch::Receiver<Role>,
    /// Changes whenever the head of the overlay may have changed.
    pub news: watch::Receiver<u64>,
    /// Addresses of all controllers that are there, for nodes.
    pub controllers: watch::Receiver<Vec<String>>,
    pub(super) is_alone: bool,
}

impl Leadership {
    /// Of a controller that has its store for itself.
    pub fn alone(url: &str) -> Self {
        Self {
            role: watch::Sender::new(Role::Leads).subscribe(),
            news: watch::Sender::new(0).subscribe(),
            controllers: watch::Sender::new(vec![url.to_owned()]).subscribe(),
            is_alone: true,
        }
    }

    /// Whether the controller has its store for itself.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether the controller leads now.
    pub fn leads(&self) -> bool {
        *self.role.borrow() == Role::Leads
    }
}
