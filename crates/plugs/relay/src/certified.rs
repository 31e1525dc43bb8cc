//! Channels whose URI names a key: only who has it publishes, or subscribes, and the owner says who else may publish.
//!
//! All that is kept is soft, and bounded by the accounts of those who made it: signatures for two minutes, lists of approved senders until
//! the time that their owner set.

mod approvals;
mod request;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_certified::{ChannelKeys, NameError, Proof, ReplayWindow, Room, Signature};
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use parking_lot::Mutex;

use crate::account::{Account, Charge};
use approvals::Approvals;
pub(crate) use request::{Claim, ClaimedMessage, check_digest};

/// Signatures that a node remembers.
#[doc(alias = "bound")]
const SIGNATURES: usize = 500_000;

/// Signatures beyond these, of senders of few: those of a crowd of greedy ones do not refuse them.
#[doc(alias = "bound")]
const SIGNATURE_RESERVE: usize = 100_000;

/// Bytes that a signature is counted as while it is remembered.
const SIGNATURE_COST: usize = 96;

/// A node's memory of channels with keys.
pub(crate) struct Certified {
    window: Mutex<ReplayWindow<Charge>>,
    pub(crate) approvals: Mutex<Approvals>,
}

impl Default for Certified {
    fn default() -> Self {
        Self {
            window: Mutex::new(ReplayWindow::new(SIGNATURES, SIGNATURE_RESERVE)),
            approvals: Mutex::default(),
        }
    }
}

impl Certified {
    /// Takes a signature that was verified, once.
    pub(crate) fn take(
        &self,
        signature: &Signature,
        channel: &str,
        account: &Arc<Account>,
        now: u64,
    ) -> Result<(), Refusal> {
        let in_time = ReplayWindow::<Charge>::check_time(signature.created, now);
        in_time.map_err(|replay| denied(&replay))?;
        let room = match account.is_modest(SIGNATURE_COST) {
            true => Room::Reserve,
            false => Room::Shared,
        };
        let charge = account.charge(SIGNATURE_COST);
        let charge = charge.ok_or_else(|| {
            let details = "too many signatures of this user came within two minutes";
            Refusal::new(ProxyError::ConnectionLimitReached, details)
                .status(StatusCode::TOO_MANY_REQUESTS)
        })?;
        let taken = self
            .window
            .lock()
            .take(signature.id(channel), now, charge, room);
        taken.map_err(|replay| denied(&replay))
    }

    /// Looks at the clock.
    pub(crate) fn tick(&self) {
        let now = seconds();
        self.window.lock().forget(now);
        self.approvals.lock().forget(now);
    }
}

/// The keys of a channel.
pub(crate) fn keys(channel: &str) -> Result<ChannelKeys, Refusal> {
    ChannelKeys::of(channel).map_err(|error: NameError| {
        Refusal::new(ProxyError::HttpRequestError, error.to_string()).status(StatusCode::NOT_FOUND)
    })
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// The answer to a client without the key: the same as if there were no such channel.
fn no_channel() -> Refusal {
    let details = "there is no such channel for those who have not its key";
    Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::NOT_FOUND)
}

/// The answer to a signature that is not good.
fn denied(reason: &impl std::fmt::Display) -> Refusal {
    Refusal::new(ProxyError::HttpRequestDenied, reason.to_string()).status(StatusCode::FORBIDDEN)
}

/// The proof of a sender, with its owner's approval where it needs one.
fn with_approval(proof: Proof, approvals: &Approvals, key: &str) -> Proof {
    match approvals.word(key) {
        Some((signature, text)) => proof.approved(signature, text),
        None => proof,
    }
}
