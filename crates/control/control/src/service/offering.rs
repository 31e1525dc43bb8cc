//! Offers to one node, and its answers. Without input or output.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::{
    Acknowledgement, BlobPart, Hash, Health, MAX_PART, Mistake, Name, Notice, Offer, Progress,
    Revision, SigningKey, controller_message::Content,
};
use hermes_config::Problem;

use super::fleet::{Mark, Target, Word};
use super::published::{Part, Published};
use crate::compile::Recipient;

/// Mistakes of one refusal that are kept.
#[doc(alias = "bound")]
const MISTAKES: usize = 20;

/// Letters of a node's words that are kept.
#[doc(alias = "bound")]
const WORDS: usize = 2000;

/// How often a part of one offer is sent: a node that had no use for it while an earlier offer was put in force asks again.
#[doc(alias = "bound")]
const SENT: u32 = 16;

/// The side of the controller in the stream of one node.
pub(super) struct Offering {
    overlay: Name,
    node: Name,
    user: Option<Name>,
    /// The parts that the node has in force.
    content: Option<Hash>,
    offered: Option<Offered>,
    /// How often the node was asked how its exchanges go.
    asked: Option<u64>,
    /// Parts that the node refused: they are not offered again, unless an operator asks for it.
    refused: Option<Hash>,
    /// How often an operator has asked for it.
    updates: u64,
}

/// The last offer.
struct Offered {
    statement: Hash,
    content: Hash,
    revision: Revision,
    mark: Mark,
    /// The state whose parts the node may ask for.
    published: Arc<Published>,
    /// How often each part was sent.
    sent: BTreeMap<Hash, u32>,
}

/// The consequence of a target.
#[derive(Default)]
pub(super) struct Followed {
    /// To be said to the node.
    pub(super) say: Option<Content>,
    /// The node has what it should have.
    pub(super) is_in_step: bool,
}

/// The answer of a node to a stage.
pub(super) struct Heard {
    pub(super) mark: Mark,
    pub(super) word: Word,
}

impl Offering {
    /// With a node that has these parts in force.
    pub(super) fn new(
        overlay: Name,
        node: Name,
        user: Option<Name>,
        content: Option<Hash>,
    ) -> Self {
        Self {
            overlay,
            node,
            user,
            content,
            offered: None,
            asked: None,
            refused: None,
            updates: 0,
        }
    }

    /// The node should have this now: it is offered, unless the node has it, was offered it or has refused it.
    pub(super) fn follow(&mut self, target: Target, key: &SigningKey) -> Followed {
        let recipient = self.recipient(&target.published);
        let statement = target
            .published
            .statement(&self.overlay, &self.node, &recipient);
        let Some(statement) = statement else {
            // Nothing describes the node yet: it waits.
            return Followed::default();
        };

        let content = statement.content();
        if self.updates != target.updates {
            self.updates = target.updates;
            self.forget_refusal();
        }
        // The last offer counts more than the parts that the node had when it came.
        let offered = self.offered.as_ref().map(|offered| offered.content);
        if offered == Some(content) || self.refused == Some(content) {
            return self.go_on(&target);
        }
        if offered.is_none() && self.content == Some(content) {
            return Followed {
                say: Some(Content::Notice(Notice::InStep.into())),
                is_in_step: true,
            };
        }

        let signed = statement.sign(key);
        let endorsement = target.published.endorsement(&recipient).cloned();
        self.offered = Some(Offered {
            statement: Hash::of(&signed.bytes),
            content,
            revision: target.published.revision,
            mark: target.mark,
            published: target.published,
            sent: BTreeMap::new(),
        });
        Followed {
            say: Some(Content::Offer(Offer {
                statement: signed.bytes,
                signature: signed.signature,
                endorsement: endorsement
                    .as_ref()
                    .map(|endorsement| endorsement.text.clone())
                    .unwrap_or_default(),
                endorsed: endorsement
                    .map(|endorsement| endorsement.signature)
                    .unwrap_or_default(),
            })),
            is_in_step: false,
        }
    }

    /// The last offer counts no more, unless the node has it in force.
    fn forget_refusal(&mut self) {
        self.refused = None;
        let has = self.content;
        self.offered.take_if(|offered| has != Some(offered.content));
    }

    /// The node was offered this already; by now it may be confirmed.
    fn go_on(&mut self, target: &Target) -> Followed {
        let Some(offered) = &mut self.offered else {
            return Followed::default();
        };
        // Its answer counts for the change that is under way now.
        offered.mark = target.mark;
        let was_for_a_time = offered.published.confirm.is_some();
        if was_for_a_time && target.published.confirm.is_none() {
            offered.published = target.published.clone();
            return Followed {
                say: Some(Content::Notice(Notice::Confirm.into())),
                is_in_step: false,
            };
        }
        let is_in_step = self.content == Some(offered.content);
        let is_asked = is_in_step && target.asked.is_some() && target.asked != self.asked;
        self.asked = target.asked;
        Followed {
            say: is_asked.then(|| Content::Notice(Notice::Report.into())),
            is_in_step,
        }
    }

    /// Parts of the last offer, each once a message. A node that asks for other ones is told nothing of them.
    pub(super) fn parts(&mut self, hashes: &[Vec<u8>]) -> Vec<Part> {
        let Some(offered) = &mut self.offered else {
            return Vec::new();
        };
        let recipient = offered.published.recipient(&self.node, self.user.as_ref());
        let hashes = hashes
            .iter()
            .filter_map(|hash| Hash::try_from(&**hash).ok());
        // A short message that says a hash often would bring a long part as often.
        let hashes: BTreeSet<Hash> = hashes.collect();
        let mut parts = Vec::new();
        for hash in hashes {
            let Some(part) = offered.published.part(&recipient, &hash) else {
                continue;
            };
            let sent = offered.sent.entry(hash).or_insert(0);
            if *sent < SENT {
                *sent += 1;
                parts.push(part.clone());
            }
        }
        parts
    }

    /// The node has said how far it has come; `None` if that is about an offer that was replaced.
    pub(super) fn acknowledged(&mut self, word: Acknowledgement) -> Option<Heard> {
        let offered = self.offered.as_ref()?;
        if Hash::try_from(&*word.statement) != Ok(offered.statement) {
            return None;
        }
        let progress = word.progress();
        match progress {
            Progress::Refused => self.refused = Some(offered.content),
            Progress::InForce | Progress::Confirmed => self.content = Some(offered.content),
            Progress::Returned => self.content = None,
            Progress::Stored => {}
        }
        let mistakes = word.mistakes.into_iter().take(MISTAKES);
        Some(Heard {
            mark: offered.mark,
            word: Word {
                revision: offered.revision,
                progress,
                mistakes: mistakes
                    .map(|mistake| self.located(offered, mistake))
                    .collect(),
                report: words(&word.report),
                health: word.health,
            },
        })
    }

    /// The stage that the figures of a node belong to; `None` if they are about an offer that was replaced.
    pub(super) fn reported(&self, health: &Health) -> Option<Mark> {
        let offered = self.offered.as_ref()?;
        let statement = Hash::try_from(&*health.statement).ok()?;
        (statement == offered.statement).then_some(offered.mark)
    }

    /// A mistake of a node's document as one of the resource that it was made of, with file and line where they are known.
    fn located(&self, offered: &Offered, mistake: Mistake) -> String {
        // The path is one of the node's document: the operator knows only his resources.
        let problem = Problem::new(words(&mistake.path), words(&mistake.reason));
        let recipient = self.recipient(&offered.published);
        match offered.published.document(&recipient) {
            Some(document) => {
                let places = &document.compiled.places;
                places.finding(&offered.published.tree, problem).to_string()
            }
            None => problem.to_string(),
        }
    }

    fn recipient(&self, published: &Published) -> Recipient {
        published.recipient(&self.node, self.user.as_ref())
    }
}

/// A node's words as logs, histories and terminals of operators may have them: cut, on one line, and without letters that steer a
/// terminal or turn the direction of what follows.
pub(super) fn words(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    text.chars().take(WORDS).map(shown).collect()
}

/// The pieces of a part, each made when it is sent.
pub(super) fn pieces(part: &Part) -> impl Iterator<Item = BlobPart> {
    let count = part.bytes.chunks(MAX_PART).len();
    let pieces = part.bytes.chunks(MAX_PART).enumerate();
    pieces.map(move |(index, piece)| BlobPart {
        hash: part.hash.as_bytes().to_vec(),
        bytes: piece.to_vec(),
        last: index + 1 == count,
    })
}

#[cfg(test)]
mod tests;
