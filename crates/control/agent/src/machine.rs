//! Which statements a node follows, decided without input or output.
//!
//! Messages and outcomes come in by methods, and each returns the [`Effect`]s that follow. One statement is under way at a time:
//! it is verified, its missing parts are asked for, kept, put in force, and made the one that starts follow. A newer one replaces
//! it wherever it has come to, but for the moment in which it is put in force; then it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hermes_api::{
    Acknowledgement, AgentMessage, BlobPart, Hash, MAX_BLOB, Mistake, Name, Notice, Offer,
    Progress, Revision, SignedEndorsement, SignedStatement, Statement, VerifyingKey, Wanted,
    agent_message,
};

use crate::Current;
use crate::operator::Operator;

/// Parts of one statement.
#[doc(alias = "bound")]
const PARTS: usize = 64;

/// Bytes of all parts of a statement that are on their way to a node.
#[doc(alias = "bound")]
const BYTES: usize = 2 * MAX_BLOB;

/// The next actions, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send this.
    Say(AgentMessage),
    /// Keep these parts on the disk, then call [`Machine::kept`].
    Keep {
        /// Contents that were not there.
        parts: BTreeMap<Hash, Vec<u8>>,
        /// The newest revision that was seen.
        seen: Revision,
        /// When the newest endorsement that was seen was signed.
        endorsed: Option<u64>,
    },
    /// Put the statement in force, for this time only unless it is confirmed; then call [`Machine::applied`].
    Apply {
        /// The statement.
        statement: Statement,
        /// The time in which it has to be confirmed.
        confirm: Option<Duration>,
    },
    /// Make this statement the one that starts follow.
    Follow {
        /// As it came.
        signed: SignedStatement,
        /// Its content.
        statement: Statement,
    },
    /// Tell the node that the document in force is confirmed.
    Confirm,
    /// Say how the node's exchanges go since this statement is in force.
    Report(Hash),
    /// This node is no member any more.
    Leave,
}

/// Why a statement was not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The key of the document; empty where the whole is meant.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// A node's view of its controllers.
#[derive(Debug)]
pub struct Machine {
    overlay: Name,
    node: Name,
    key: VerifyingKey,
    /// The newest revision that was ever seen.
    seen: Revision,
    operator: Option<Operator>,
    /// The statement in force.
    in_force: Option<InForce>,
    underway: Option<Underway>,
    /// An offer that came while another one was being put in force.
    next: Option<Offer>,
}

#[derive(Debug)]
struct InForce {
    hash: Hash,
    signed: Option<SignedStatement>,
    statement: Statement,
    /// It would be returned from, unless it is confirmed.
    unconfirmed: bool,
}

/// A statement on its way.
#[derive(Debug)]
struct Underway {
    hash: Hash,
    signed: SignedStatement,
    statement: Statement,
    missing: BTreeSet<Hash>,
    parts: BTreeMap<Hash, Vec<u8>>,
    /// The part whose pieces come now.
    incoming: Option<Incoming>,
    step: Step,
}

#[derive(Debug)]
struct Incoming {
    hash: Hash,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Fetching,
    Keeping,
    Applying,
}

impl Machine {
    /// A node that follows the statement on its disk, if there is one, and has seen this revision.
    pub fn new(
        overlay: Name,
        node: Name,
        key: VerifyingKey,
        current: Option<Current>,
        seen: Option<Revision>,
    ) -> Self {
        // A disk of an earlier version has no file of what was seen: its statement says as much.
        let of_disk = current.as_ref().map(|current| current.statement.revision);
        let in_force = current.map(|current| InForce {
            hash: current.hash,
            signed: None,
            statement: current.statement,
            unconfirmed: false,
        });
        Self {
            overlay,
            node,
            key,
            seen: seen.max(of_disk).unwrap_or(Revision {
                epoch: 0,
                number: 0,
            }),
            operator: None,
            in_force,
            underway: None,
            next: None,
        }
    }

    /// The same, of a node that follows only documents which an operator has signed, too.
    #[must_use]
    pub(crate) fn endorsed_by(self, operator: Operator) -> Self {
        Self {
            operator: Some(operator),
            ..self
        }
    }

    /// The hash of the parts of the statement in force.
    pub fn content(&self) -> Option<Hash> {
        let current = self.in_force.as_ref();
        current.map(|current| current.statement.content())
    }

    /// The connection to the controller ended: parts that were on their way are asked for again by the next one.
    pub fn disconnected(&mut self) {
        let is_fetching = |underway: &mut Underway| underway.step == Step::Fetching;
        self.underway.take_if(is_fetching);
        // The controller offers again what the node should have when it is back.
        self.next = None;
    }

    /// A controller offers a statement. `has` says whether a part is on the disk.
    pub fn offered(&mut self, offer: Offer, has: &dyn Fn(&Hash) -> bool) -> Vec<Effect> {
        let is_applying = |underway: &Underway| underway.step != Step::Fetching;
        if self.underway.as_ref().is_some_and(is_applying) {
            // It is looked at when the one under way has had its outcome.
            self.next = Some(offer);
            return Vec::new();
        }

        let signed = SignedStatement {
            bytes: offer.statement,
            signature: offer.signature,
        };
        let hash = Hash::of(&signed.bytes);
        let statement = match self.judge(&signed) {
            Ok(statement) => statement,
            Err(reason) => return vec![refusal(hash, &reason)],
        };
        let endorsement = SignedEndorsement {
            text: offer.endorsement,
            signature: offer.endorsed,
        };
        if let Some(operator) = &mut self.operator
            && let Err(reason) = operator.judge(&endorsement, &statement)
        {
            return vec![refusal(hash, reason)];
        }
        // From now on nothing older is followed, even if this one turns out to be refused.
        self.seen = self.seen.max(statement.revision);
        if let Some(current) = &self.in_force
            && current.hash == hash
        {
            let unconfirmed = current.unconfirmed;
            return vec![acknowledge(hash, in_force(unconfirmed), String::new())];
        }

        // Parts that did not change are on the disk already, and are not sent again.
        let missing = statement.parts.values().filter(|hash| !has(hash));
        let missing: BTreeSet<_> = missing.copied().collect();
        let underway = Underway {
            hash,
            signed,
            statement,
            missing,
            parts: BTreeMap::new(),
            incoming: None,
            step: Step::Fetching,
        };
        self.begin(underway)
    }

    /// Whether a statement may be followed.
    fn judge(&self, signed: &SignedStatement) -> Result<Statement, String> {
        let statement = signed
            .verify(&self.key)
            .map_err(|error| error.to_string())?;
        if statement.overlay != self.overlay || statement.node != self.node {
            return Err(format!(
                "the statement is for {} of overlay {}, this is {} of {}",
                statement.node, statement.overlay, self.node, self.overlay
            ));
        }
        if statement.revision < self.seen {
            return Err(format!(
                "revision {} is older than {}, which this node has seen",
                statement.revision, self.seen
            ));
        }
        if statement.parts.len() > PARTS {
            return Err(format!("the statement has more than {PARTS} parts"));
        }
        Ok(statement)
    }

    fn begin(&mut self, underway: Underway) -> Vec<Effect> {
        let wanted = Wanted {
            hashes: underway
                .missing
                .iter()
                .map(|hash| hash.as_bytes().to_vec())
                .collect(),
        };
        let is_complete = underway.missing.is_empty();
        self.underway = Some(underway);
        if is_complete {
            return self.keep();
        }
        vec![say(agent_message::Content::Wanted(wanted))]
    }

    /// A piece of a part. Pieces that no one asked for are ignored: they may belong to a statement that was replaced.
    pub fn part(&mut self, piece: BlobPart) -> Vec<Effect> {
        let Ok(hash) = Hash::try_from(&*piece.hash) else {
            return Vec::new();
        };
        let Some(underway) = &mut self.underway else {
            return Vec::new();
        };
        // A piece of a statement that was replaced meanwhile.
        if !underway.missing.contains(&hash) {
            return Vec::new();
        }

        match underway.take(hash, &piece) {
            Ok(()) if underway.missing.is_empty() => self.keep(),
            Ok(()) => Vec::new(),
            Err(reason) => {
                let statement = underway.hash;
                self.underway = None;
                vec![refusal(statement, &reason)]
            }
        }
    }

    fn keep(&mut self) -> Vec<Effect> {
        let Some(underway) = &mut self.underway else {
            return Vec::new();
        };
        underway.step = Step::Keeping;
        vec![Effect::Keep {
            parts: std::mem::take(&mut underway.parts),
            seen: self.seen,
            endorsed: self.operator.as_ref().map(Operator::seen),
        }]
    }

    /// The parts are on the disk, or could not be kept.
    pub fn kept(&mut self, outcome: Result<(), String>) -> Vec<Effect> {
        let Some(underway) = &mut self.underway else {
            return Vec::new();
        };
        if let Err(reason) = outcome {
            let statement = underway.hash;
            self.underway = None;
            return vec![refusal(statement, &format!("the disk: {reason}"))];
        }

        // The controller learns now that a power cut would lose nothing any more.
        underway.step = Step::Applying;
        let confirm = underway.statement.confirm_seconds;
        vec![
            acknowledge(underway.hash, Progress::Stored, String::new()),
            Effect::Apply {
                statement: underway.statement.clone(),
                confirm: confirm.map(|seconds| Duration::from_secs(u64::from(seconds))),
            },
        ]
    }

    /// The statement is in force, with the node's report; or the node refused it and goes on as before.
    pub fn applied(
        &mut self,
        outcome: Result<String, Vec<Refused>>,
        has: &dyn Fn(&Hash) -> bool,
    ) -> Vec<Effect> {
        let Some(underway) = self.underway.take() else {
            return Vec::new();
        };
        let mut effects = match outcome {
            Ok(report) => self.enter(underway, report),
            Err(refused) => vec![refuse(underway.hash, refused)],
        };
        if let Some(offer) = self.next.take() {
            effects.extend(self.offered(offer, has));
        }
        effects
    }

    fn enter(&mut self, underway: Underway, report: String) -> Vec<Effect> {
        let unconfirmed = underway.statement.confirm_seconds.is_some();
        let mut effects = Vec::new();
        // A restart must return to the statement before for as long as this one is on probation.
        if !unconfirmed {
            effects.push(Effect::Follow {
                signed: underway.signed.clone(),
                statement: underway.statement.clone(),
            });
        }
        effects.push(acknowledge(underway.hash, in_force(unconfirmed), report));
        self.in_force = Some(InForce {
            hash: underway.hash,
            signed: Some(underway.signed),
            statement: underway.statement,
            unconfirmed,
        });
        effects
    }

    /// A controller says something that changes no document.
    pub fn noticed(&mut self, notice: Notice) -> Vec<Effect> {
        match notice {
            Notice::InStep => Vec::new(),
            Notice::Confirm => self.confirm(),
            Notice::Revoked => vec![Effect::Leave],
            Notice::Report => {
                let current = self.in_force.as_ref();
                current
                    .map(|current| Effect::Report(current.hash))
                    .into_iter()
                    .collect()
            }
        }
    }

    fn confirm(&mut self) -> Vec<Effect> {
        let Some(current) = self.in_force.as_mut().filter(|current| current.unconfirmed) else {
            return Vec::new();
        };
        current.unconfirmed = false;
        let follow = current.signed.clone().map(|signed| Effect::Follow {
            signed,
            statement: current.statement.clone(),
        });
        let confirmed = acknowledge(current.hash, Progress::Confirmed, String::new());
        let effects = [Some(Effect::Confirm), follow, Some(confirmed)];
        effects.into_iter().flatten().collect()
    }

    /// The node has returned from a statement that was not confirmed in time, to the one that its disk names.
    pub fn returned(&mut self, current: Option<Current>) -> Vec<Effect> {
        let Some(left) = self.in_force.take_if(|current| current.unconfirmed) else {
            return Vec::new();
        };
        self.in_force = current.map(|current| InForce {
            hash: current.hash,
            signed: None,
            statement: current.statement,
            unconfirmed: false,
        });
        vec![acknowledge(left.hash, Progress::Returned, String::new())]
    }
}

impl Underway {
    /// Adds a piece to the part that it belongs to.
    fn take(&mut self, hash: Hash, piece: &BlobPart) -> Result<(), String> {
        let kept: usize = self.parts.values().map(Vec::len).sum();
        let incoming = self.incoming.get_or_insert_with(|| Incoming {
            hash,
            bytes: Vec::new(),
        });
        if incoming.hash != hash {
            return Err("pieces of two parts are mixed".to_owned());
        }
        // The bound is checked before the bytes are kept, so that no more than one piece lies beyond it.
        let length = incoming.bytes.len() + piece.bytes.len();
        if length > MAX_BLOB || kept + length > BYTES {
            return Err(format!(
                "the parts of the statement are longer than {BYTES} bytes"
            ));
        }

        incoming.bytes.extend_from_slice(&piece.bytes);
        if piece.last {
            let bytes = std::mem::take(&mut incoming.bytes);
            self.incoming = None;
            if Hash::of(&bytes) != hash {
                return Err(format!("part {} has another content", hash.short()));
            }
            self.missing.remove(&hash);
            self.parts.insert(hash, bytes);
        }
        Ok(())
    }
}

fn in_force(unconfirmed: bool) -> Progress {
    match unconfirmed {
        true => Progress::InForce,
        false => Progress::Confirmed,
    }
}

fn say(content: agent_message::Content) -> Effect {
    Effect::Say(AgentMessage {
        content: Some(content),
    })
}

fn acknowledge(statement: Hash, progress: Progress, report: String) -> Effect {
    say(agent_message::Content::Acknowledgement(Acknowledgement {
        statement: statement.as_bytes().to_vec(),
        progress: progress.into(),
        mistakes: Vec::new(),
        report,
        health: None,
    }))
}

fn refusal(statement: Hash, reason: &str) -> Effect {
    refuse(
        statement,
        vec![Refused {
            path: String::new(),
            reason: reason.to_owned(),
        }],
    )
}

fn refuse(statement: Hash, refused: Vec<Refused>) -> Effect {
    let mistakes = refused.into_iter().map(|refused| Mistake {
        path: refused.path,
        reason: refused.reason,
    });
    say(agent_message::Content::Acknowledgement(Acknowledgement {
        statement: statement.as_bytes().to_vec(),
        progress: Progress::Refused.into(),
        mistakes: mistakes.collect(),
        report: String::new(),
        health: None,
    }))
}

#[cfg(test)]
mod tests;
