//! The part of one controller among several.
//!
//! All controllers of a store hold elections ([`Leadership`](crate::store::Leadership)). Each of them makes members of those who join, renews
//! certificates, makes tokens, answers what can be read from the store, and makes backups: all of that is records and blobs, changed by
//! compare-and-swap. The *leader* alone does what has one order: it changes the overlay, lets changes spread in waves, revokes, and tidies
//! up. The nodes attend the leader, so that it hears all acknowledgements of a wave itself. The others
//!
//! - send a node that attends them to the leader; where there is none at the moment, the node waits for one with them,
//! - pass on requests of operators (`peers`),
//! - keep the newest state compiled, so that each of them can lead at once.
//!
//! A leader that is lost is followed within seconds: its lease ends, another controller reads the head anew, and the nodes come to it. It
//! gives all of them the state of the head: what the leader before had committed is not lost, and a change that was under way goes on in
//! waves ([`resume`](super::resume)), as after a restart of a controller that is alone. What a leader of before still does is harmless: its commits carry its term, and the
//! store refuses them; nodes follow no revision that is older than one they have seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_api::{Controllers, controller_message};
use hermes_net::clock::unix_seconds;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Status;

use super::controller::Controller;
use super::in_force::InForce;
use crate::store::{Leadership, Role};

/// How long a node waits for a leader with a controller that does not lead.
#[doc(alias = "bound")]
const WAIT: Duration = Duration::from_secs(20);

/// How long a controller that starts waits for a leader.
#[doc(alias = "bound")]
const START: Duration = Duration::from_secs(15);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);

/// The elections of the controllers of an overlay, and the outcome for this one.
pub(super) struct ElectedPart {
    pub(super) leadership: Leadership,
    /// The part that this controller has taken: it leads once it has read the state to lead from.
    pub(super) part: watch::Sender<Role>,
}

impl ElectedPart {
    pub(super) fn new(leadership: Leadership) -> Self {
        // Only who has the store for itself leads from the beginning.
        let part = match leadership.is_alone() {
            true => Role::Leads,
            false => Role::Follows(None),
        };
        Self {
            leadership,
            part: watch::Sender::new(part),
        }
    }
}

impl Controller {
    /// Whether this controller leads, and has read the state to lead from.
    pub fn leads(&self) -> bool {
        *self.election.part.borrow() == Role::Leads
    }

    /// Waits until there is a leader. It may block.
    ///
    /// # Errors
    /// There is none for a while, or the store cannot be read.
    pub fn await_leader(&self) -> Result<(), String> {
        let began = Instant::now();
        while *self.election.leadership.role.borrow() == Role::Follows(None) {
            if began.elapsed() > START {
                return Err(format!("no controller has come to lead within {START:?}"));
            }
            std::thread::sleep(LOOK);
        }
        self.take_part()
    }

    /// Follows the election, and where another controller leads, its changes.
    pub(super) async fn follow_part(self: Arc<Self>) {
        let mut role = self.election.leadership.role.clone();
        let mut news = self.election.leadership.news.clone();
        loop {
            role.mark_unchanged();
            news.mark_unchanged();
            let controller = self.clone();
            let taken = tokio::task::spawn_blocking(move || controller.take_part()).await;
            if let Ok(Err(error)) = &taken {
                tracing::error!("the newest state is not followed yet: {error}");
            }
            let is_missed = !matches!(taken, Ok(Ok(())));
            tokio::select! {
                changed = role.changed() => if changed.is_err() {
                    // A controller that is alone leads for ever.
                    return;
                },
                changed = news.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(Duration::from_secs(1)), if is_missed => {}
            }
        }
    }

    /// Takes the part that the last election has given, with the state of the store. It may block.
    ///
    /// # Errors
    /// The store cannot be read; then it leads only if it did before.
    pub(super) fn take_part(&self) -> Result<(), String> {
        let mut in_force = self.in_force.lock();
        let role = self.election.leadership.role.borrow().clone();
        if role == Role::Leads && self.leads() {
            return Ok(());
        }
        if role != Role::Leads {
            // First of all: nothing more is begun as the leader.
            let led = self.leads();
            self.election.part.send_if_modified(|part| {
                let differs = *part != role;
                *part = role.clone();
                differs
            });
            if led {
                self.fleet.lock().dismiss(in_force.published.clone());
            }
        }

        let revision = in_force.published.revision;
        let head = self.history.head().map_err(|error| error.to_string())?;
        let differs = head.is_some_and(|head| head.revision != revision);
        if differs || role == Role::Leads {
            *in_force = InForce::read(
                &self.history,
                &self.authority,
                &self.about.trust_domain,
                unix_seconds(),
                Some(&in_force.published),
            )?;
        }
        let mut fleet = self.fleet.lock();
        fleet.dismiss(in_force.published.clone());
        drop(fleet);
        if role == Role::Leads {
            self.read_agreed().map_err(|error| error.to_string())?;
            self.resume(&mut in_force);
            let revision = in_force.published.revision;
            tracing::info!("this controller leads from revision {revision} on");
            self.election.part.send_replace(Role::Leads);
        }
        Ok(())
    }

    /// Waits until this controller leads; else the one to attend instead.
    ///
    /// # Errors
    /// There is no leader for a while.
    pub(super) async fn led_elsewhere(
        &self,
    ) -> Result<Option<controller_message::Content>, Status> {
        let mut part = self.election.part.subscribe();
        let decided = timeout(WAIT, part.wait_for(|part| *part != Role::Follows(None))).await;
        let role = match decided {
            Ok(Ok(role)) => role.clone(),
            _ => return Err(Status::unavailable("no controller leads at the moment")),
        };
        Ok(match role {
            Role::Follows(Some(leader)) => Some(self.controllers_but(leader.url)),
            _ => None,
        })
    }

    fn controllers_but(&self, leader: String) -> controller_message::Content {
        controller_message::Content::Controllers(Controllers {
            urls: self.controller_urls(),
            leader,
        })
    }

    /// The controllers as nodes are told of them.
    pub(super) fn told_controllers(&self) -> controller_message::Content {
        self.controllers_but(String::new())
    }

    /// Addresses of all controllers.
    pub(super) fn controller_urls(&self) -> Vec<String> {
        self.election.leadership.controllers.borrow().clone()
    }
}
