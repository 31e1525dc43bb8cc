//! The frames of a stream, as events: sealed messages are opened, and signatures checked.

use bytes::Bytes;
use hermes_certified::{KeyName, Message, Proof, ReplayWindow, Room};
use hermes_proto::relay::{Adu, Position};

use crate::channel::Channel;
use crate::event::{Event, Loss, Received};

/// Signatures that a subscriber remembers, so that none comes twice.
#[doc(alias = "bound")]
const SIGNATURES: usize = 100_000;

/// Reads messages of one channel.
#[derive(Debug)]
pub(crate) struct Receiving {
    channel: Channel,
    /// The path of the channel, under which its messages are signed.
    path: String,
    window: ReplayWindow<()>,
    /// The long message whose pieces are coming.
    pub(crate) coming: Option<u64>,
}

impl Receiving {
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            path: channel.path(),
            channel,
            window: ReplayWindow::new(SIGNATURES, 0),
            coming: None,
        }
    }

    /// A message, or its loss where it is not to be believed, at this time in seconds since 1970.
    pub(crate) fn message(&mut self, adu: &Adu, at: Position, now: u64) -> Event {
        let sender = match self.sender(adu, now) {
            Ok(sender) => sender,
            Err(details) => return Loss::of_one("unproved", Some(details)),
        };
        let topic = text(adu.topic.as_ref());
        let Some(seal) = &self.channel.seal else {
            return Event::Message(Received {
                at,
                content_type: text(adu.content_type.as_ref()),
                topic,
                sender,
                data: adu.data.clone(),
            });
        };
        match seal.open(&adu.data) {
            Some(opened) => Event::Message(Received {
                at,
                content_type: text(opened.content_type.as_ref()),
                topic,
                sender,
                data: opened.data,
            }),
            None => Loss::of_one("unreadable", None),
        }
    }

    /// The beginning of a long message; `None` where the channel has a key, for which the whole of it would be needed.
    pub(crate) fn long(&self, adu: &Adu, at: Position) -> Option<Received> {
        if self.channel.seal.is_some() || self.channel.keys.sender.is_some() {
            return None;
        }
        Some(Received {
            at,
            content_type: text(adu.content_type.as_ref()),
            topic: text(adu.topic.as_ref()),
            sender: None,
            data: adu.data.clone(),
        })
    }

    /// The sender that a message proves; the reason where it proves none and the channel names one.
    fn sender(&mut self, adu: &Adu, now: u64) -> Result<Option<KeyName>, String> {
        let Some(proof) = &adu.proof else {
            // Without a key in its URL, a channel promises nothing about its senders.
            return match self.channel.keys.sender {
                Some(_) => Err("it has no signature".to_owned()),
                None => Ok(None),
            };
        };
        let proof = Proof::decode(proof).map_err(|error| error.to_string())?;
        let content_type = text(adu.content_type.as_ref());
        let topic = text(adu.topic.as_ref());
        let message = Message {
            channel: &self.path,
            content_type: content_type.as_deref(),
            topic: topic.as_deref(),
            content: &adu.data,
        };
        let signature = proof.verify(&message, &self.channel.keys, now);
        let signature = signature.map_err(|error| error.to_string())?;
        let in_time = ReplayWindow::<()>::check_time(signature.created, now);
        let taken = in_time.and_then(|()| {
            self.window
                .take(signature.id(&self.path), now, (), Room::Shared)
        });
        taken.map_err(|replay| replay.to_string())?;
        Ok(Some(signature.key.name()))
    }
}

fn text(label: Option<&Bytes>) -> Option<String> {
    label.map(|label| String::from_utf8_lossy(label).into_owned())
}
