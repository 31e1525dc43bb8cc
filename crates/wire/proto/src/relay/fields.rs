//! Fields of the relay: dictionaries (RFC 9651, section 3.2) whose unknown members are ignored.
//!
//! ```text
//! Hermes-Subscribe: timeout=600, from="00c0ffee.4182", receivers=20, share="1/2"                  in a request
//! Hermes-Subscribe: timeout=600, at="00c0ffee.4190", recovered=?1, heartbeat=15                   in its answer
//! Hermes-Publish:   mode=reliable, topic="t", max-age=2, seq=91
//! Hermes-Move:      hold=20, at="00c0ffee.4190", grant="1795980000.<base64url>"                     from relay to relay
//! Hermes-Forwarded: ?1                                                                              from relay to relay
//! Hermes-Delivered: receivers=12, enqueued=11, dropped=1, exact=?1, at="00c0ffee.4191"
//! ```

use http::{HeaderName, HeaderValue};
use sfv::{DictSerializer, Dictionary, KeyRef, ListEntry, Parser, StringRef};

use super::{Position, Stripe};
use crate::fields::Fields;

/// The field of subscriptions.
pub const SUBSCRIBE: HeaderName = HeaderName::from_static("hermes-subscribe");

/// The field of messages.
pub const PUBLISH: HeaderName = HeaderName::from_static("hermes-publish");

/// The field of answers to messages.
pub const DELIVERED: HeaderName = HeaderName::from_static("hermes-delivered");

/// The field of a relay that hands subscriptions over to another one.
pub const MOVE: HeaderName = HeaderName::from_static("hermes-move");

/// The field of a relay that tells a rendezvous that it is there.
pub const HEARTBEAT: HeaderName = HeaderName::from_static("hermes-heartbeat");

/// The field of a message that a relay has sent on, because its channel has gone elsewhere: the next one sends it no further.
pub const FORWARDED: HeaderName = HeaderName::from_static("hermes-forwarded");

/// A field of the relay that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// It is no dictionary.
    #[error("{0} is no dictionary of RFC 9651")]
    Dictionary(HeaderName),
    /// A member has another type, or a value that it cannot have.
    #[error("`{member}` of {field} must be {wanted}")]
    Member {
        /// The field.
        field: HeaderName,
        /// The member.
        member: &'static str,
        /// Its values.
        wanted: &'static str,
    },
}

/// The request for a subscription, or for another time-out of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Subscribe {
    /// How long it is to last, in seconds; as the relay likes if absent.
    pub timeout: Option<u64>,
    /// The last message that the subscriber has.
    pub from: Option<Position>,
    /// Of a relay that subscribes for others: how many.
    pub receivers: Option<u64>,
    /// The only messages that are to come: the others come by other ways.
    pub share: Option<Stripe>,
}

/// The request of a relay that another one goes on with a channel of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Subscriptions that are to be held for subscribers who come.
    pub hold: u64,
    /// The position behind which it goes on.
    pub at: Position,
    /// The proof that it may ask for this.
    pub grant: String,
}

/// The word of a relay to a rendezvous that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its host and port, as subscribers reach it.
    pub relay: String,
    /// Its clock, in milliseconds since 1970: each one is later than the one before.
    pub time: u64,
    /// The proof that it is one of the relays.
    pub mac: String,
}

/// The answer to a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscribed {
    /// How long it lasts from now on, in seconds.
    pub timeout: u64,
    /// The position from which it goes on.
    pub at: Position,
    /// Whether nothing is missing since the position that was asked for.
    pub is_recovered: bool,
    /// Seconds of silence after which the subscriber should doubt the relay.
    pub heartbeat: u64,
}

/// How a message is published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publish {
    /// Whether it waits for receivers without room, instead of being lost for them.
    pub is_reliable: bool,
    /// The topic: a message that still waits is replaced by a later one of the same topic.
    pub topic: Option<String>,
    /// Seconds after which it is worth nothing.
    pub max_age: Option<u64>,
    /// The publisher's own number, by which the relay knows a message that is sent again.
    pub sequence: Option<u64>,
}

/// The receivers of a message, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Subscriptions that it was for.
    pub receivers: u64,
    /// Those into whose queues it went.
    pub enqueued: u64,
    /// Those that had no room.
    pub dropped: u64,
    /// Whether these are all: a relay that serves others knows only those who told it.
    pub is_exact: bool,
    /// The position behind the message; `None` if there was none.
    pub at: Option<Position>,
}

impl Subscribe {
    /// Reads the field; without it, all is absent.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(fields: &Fields) -> Result<Self, FieldError> {
        let members = Members::read(fields, SUBSCRIBE)?;
        let from = members.text("from")?;
        let from = from.map(|text| text.parse());
        let malformed = |_| members.wrong("from", "a position such as \"00c0ffee.4182\"");
        let share = members.text("share")?;
        let share = share.map(|text| text.parse()).transpose();
        let no_share =
            |_| members.wrong("share", "K/N as a string, with K from 1 to N, N at most 16");
        Ok(Self {
            timeout: members.count("timeout")?,
            from: from.transpose().map_err(malformed)?,
            receivers: members.count("receivers")?,
            share: share.map_err(no_share)?,
        })
    }

    /// The value of the field; `None` if nothing is to be said.
    pub fn value(&self) -> Option<HeaderValue> {
        let mut writer = Writer::new();
        let share = self.share.map(|share| share.to_string());
        writer.count("timeout", self.timeout);
        writer.position("from", self.from);
        writer.count("receivers", self.receivers);
        writer.text("share", share.as_deref());
        writer.finish()
    }
}

impl Move {
    /// Reads the field; `None` without it.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(fields: &Fields) -> Result<Option<Self>, FieldError> {
        let members = Members::read(fields, MOVE)?;
        let Some(hold) = members.count("hold")? else {
            return Ok(None);
        };
        let at = members.position("at")?;
        let grant = members.text("grant")?;
        Ok(Some(Self {
            hold,
            at: at.ok_or_else(|| members.wrong("at", "a position such as \"00c0ffee.4182\""))?,
            grant: grant
                .ok_or_else(|| members.wrong("grant", "a string in quotes"))?
                .to_owned(),
        }))
    }

    /// The value of the field.
    pub fn value(&self) -> Option<HeaderValue> {
        let mut writer = Writer::new();
        writer.count("hold", Some(self.hold));
        writer.position("at", Some(self.at));
        writer.text("grant", Some(&self.grant));
        writer.finish()
    }
}

impl Heartbeat {
    /// Reads the field; `None` without it.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(fields: &Fields) -> Result<Option<Self>, FieldError> {
        let members = Members::read(fields, HEARTBEAT)?;
        let Some(relay) = members.text("relay")? else {
            return Ok(None);
        };
        let time = members.count("time")?;
        let mac = members.text("mac")?;
        Ok(Some(Self {
            relay: relay.to_owned(),
            time: time.ok_or_else(|| members.wrong("time", "a number, 0 or more"))?,
            mac: mac
                .ok_or_else(|| members.wrong("mac", "a string in quotes"))?
                .to_owned(),
        }))
    }

    /// The value of the field.
    pub fn value(&self) -> Option<HeaderValue> {
        let mut writer = Writer::new();
        writer.text("relay", Some(&self.relay));
        writer.count("time", Some(self.time));
        writer.text("mac", Some(&self.mac));
        writer.finish()
    }
}

/// The relay that a client asks a rendezvous for: `relay` of `Hermes-Subscribe` or `Hermes-Publish`.
///
/// # Errors
/// The field is malformed.
pub fn asked_relay(fields: &Fields) -> Result<Option<String>, FieldError> {
    for field in [SUBSCRIBE, PUBLISH] {
        let members = Members::read(fields, field)?;
        if let Some(relay) = members.text("relay")? {
            return Ok(Some(relay.to_owned()));
        }
    }
    Ok(None)
}

impl Subscribed {
    /// Reads the answer of a relay; `None` if the answer is not of one.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(fields: &Fields) -> Result<Option<Self>, FieldError> {
        let members = Members::read(fields, SUBSCRIBE)?;
        let Some(at) = members.position("at")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            timeout: members.count("timeout")?.unwrap_or_default(),
            at,
            is_recovered: members.is_true("recovered")?,
            heartbeat: members.count("heartbeat")?.unwrap_or_default(),
        }))
    }

    /// The value of the field.
    pub fn value(&self) -> Option<HeaderValue> {
        let mut writer = Writer::new();
        writer.count("timeout", Some(self.timeout));
        writer.position("at", Some(self.at));
        writer.flag("recovered", self.is_recovered);
        writer.count("heartbeat", Some(self.heartbeat));
        writer.finish()
    }
}

impl Publish {
    /// Reads the field; without it, a message is of no topic, and lost for receivers without room.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(fields: &Fields) -> Result<Self, FieldError> {
        let members = Members::read(fields, PUBLISH)?;
        let topic = members.text("topic")?;
        if topic.is_some_and(|topic| topic.len() > super::MAX_LABEL) {
            return Err(members.wrong("topic", "at most 255 bytes"));
        }
        Ok(Self {
            is_reliable: match members.token("mode")? {
                None | Some("realtime") => false,
                Some("reliable") => true,
                Some(_) => return Err(members.wrong("mode", "realtime or reliable")),
            },
            topic: topic.map(str::to_owned),
            max_age: members.count("max-age")?,
            sequence: members.count("seq")?,
        })
    }

    /// The value of the field; `None` if nothing is to be said.
    pub fn value(&self) -> Option<HeaderValue> {
        let mut writer = Writer::new();
        if self.is_reliable {
            writer.token("mode", "reliable");
        }
        writer.text("topic", self.topic.as_deref());
        writer.count("max-age", self.max_age);
        writer.count("seq", self.sequence);
        writer.finish()
    }
}

impl Delivered {
    /// Reads the answer of a relay; `None` if the answer is not of one.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(fields: &Fields) -> Result<Option<Self>, FieldError> {
        let members = Members::read(fields, DELIVERED)?;
        let Some(receivers) = members.count("receivers")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            receivers,
            enqueued: members.count("enqueued")?.unwrap_or_default(),
            dropped: members.count("dropped")?.unwrap_or_default(),
            is_exact: members.is_true("exact")?,
            at: members.position("at")?,
        }))
    }

    /// The value of the field.
    pub fn value(&self) -> Option<HeaderValue> {
        let mut writer = Writer::new();
        writer.count("receivers", Some(self.receivers));
        writer.count("enqueued", Some(self.enqueued));
        writer.count("dropped", Some(self.dropped));
        writer.flag("exact", self.is_exact);
        writer.position("at", self.at);
        writer.finish()
    }
}

/// A dictionary that was read.
struct Members {
    field: HeaderName,
    dictionary: Dictionary,
}

impl Members {
    fn read(fields: &Fields, field: HeaderName) -> Result<Self, FieldError> {
        let mut joined = Vec::new();
        for line in fields.values(&field) {
            // Several lines are one dictionary (RFC 9651, section 4.2).
            if !joined.is_empty() {
                joined.extend(b", ");
            }
            joined.extend(line.as_bytes());
        }
        match Parser::new(&joined).parse() {
            Ok(dictionary) => Ok(Self { field, dictionary }),
            Err(_) => Err(FieldError::Dictionary(field)),
        }
    }

    fn wrong(&self, member: &'static str, wanted: &'static str) -> FieldError {
        FieldError::Member {
            field: self.field.clone(),
            member,
            wanted,
        }
    }

    /// A member, read in this way; `wanted` describes its values.
    fn member<'a, T>(
        &'a self,
        member: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&'a sfv::BareItem) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        match self.dictionary.get(member) {
            None => Ok(None),
            Some(ListEntry::Item(item)) => match read(&item.bare_item) {
                Some(value) => Ok(Some(value)),
                None => Err(self.wrong(member, wanted)),
            },
            Some(ListEntry::InnerList(_)) => Err(self.wrong(member, wanted)),
        }
    }

    fn count(&self, member: &'static str) -> Result<Option<u64>, FieldError> {
        self.member(member, "a number, 0 or more", |item| {
            u64::try_from(i64::from(item.as_integer()?)).ok()
        })
    }

    fn is_true(&self, member: &'static str) -> Result<bool, FieldError> {
        let read = self.member(member, "?0 or ?1", sfv::BareItem::as_boolean)?;
        Ok(read.unwrap_or(false))
    }

    fn text(&self, member: &'static str) -> Result<Option<&str>, FieldError> {
        self.member(member, "a string in quotes", |item| {
            item.as_string().map(StringRef::as_str)
        })
    }

    fn token(&self, member: &'static str) -> Result<Option<&str>, FieldError> {
        self.member(member, "a token", |item| {
            item.as_token().map(sfv::TokenRef::as_str)
        })
    }

    fn position(&self, member: &'static str) -> Result<Option<Position>, FieldError> {
        let read = self.text(member)?.map(|text| text.parse()).transpose();
        read.map_err(|_| self.wrong(member, "a position such as \"00c0ffee.4182\""))
    }
}

/// A dictionary that is written. Members whose value the form cannot hold are left out.
struct Writer(DictSerializer<String>);

impl Writer {
    fn new() -> Self {
        Self(DictSerializer::new())
    }

    fn item<'a>(&mut self, member: &str, value: impl Into<sfv::RefBareItem<'a>>) {
        if let Ok(member) = KeyRef::from_str(member) {
            self.0.bare_item(member, value);
        }
    }

    fn count(&mut self, member: &str, count: Option<u64>) {
        if let Some(count) = count.and_then(|count| sfv::Integer::try_from(count).ok()) {
            self.item(member, count);
        }
    }

    fn flag(&mut self, member: &str, is_set: bool) {
        self.item(member, is_set);
    }

    fn text(&mut self, member: &str, text: Option<&str>) {
        if let Some(Ok(text)) = text.map(StringRef::from_str) {
            self.item(member, text);
        }
    }

    fn token(&mut self, member: &str, token: &str) {
        if let Ok(token) = sfv::TokenRef::from_str(token) {
            self.item(member, token);
        }
    }

    fn position(&mut self, member: &str, position: Option<Position>) {
        let text = position.map(|position| position.to_string());
        self.text(member, text.as_deref());
    }

    fn finish(self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.0.finish()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: HeaderName, value: &'static str) -> Fields {
        Fields::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn fields_survive_a_round_trip() {
        let at = Position {
            epoch: 7,
            sequence: 4190,
        };
        let subscribe = Subscribe {
            timeout: Some(600),
            from: Some(at),
            receivers: Some(20),
            share: "2/3".parse().ok(),
        };
        let written = Fields::from_iter([(SUBSCRIBE, subscribe.value().unwrap())]);
        assert_eq!(Subscribe::read(&written), Ok(subscribe));

        let subscribed = Subscribed {
            timeout: 600,
            at,
            is_recovered: true,
            heartbeat: 15,
        };
        let value = subscribed.value().unwrap();
        assert_eq!(
            value,
            "timeout=600, at=\"00000007.4190\", recovered, heartbeat=15"
        );
        let written = Fields::from_iter([(SUBSCRIBE, value)]);
        assert_eq!(Subscribed::read(&written), Ok(Some(subscribed)));

        let publish = Publish {
            is_reliable: true,
            topic: Some("a \"b\"".to_owned()),
            max_age: Some(2),
            sequence: Some(91),
        };
        let written = Fields::from_iter([(PUBLISH, publish.value().unwrap())]);
        assert_eq!(Publish::read(&written), Ok(publish));

        let heartbeat = Heartbeat {
            relay: "a.test:80".to_owned(),
            time: 1_796_000_000_000,
            mac: "AAAA".to_owned(),
        };
        let written = Fields::from_iter([(HEARTBEAT, heartbeat.value().unwrap())]);
        assert_eq!(Heartbeat::read(&written), Ok(Some(heartbeat)));
        assert_eq!(Heartbeat::read(&Fields::new()), Ok(None));
        let asked = fields(PUBLISH, "relay=\"a.test:80\"");
        assert_eq!(asked_relay(&asked), Ok(Some("a.test:80".to_owned())));

        let delivered = Delivered {
            receivers: 12,
            enqueued: 11,
            dropped: 1,
            is_exact: false,
            at: Some(at),
        };
        let written = Fields::from_iter([(DELIVERED, delivered.value().unwrap())]);
        assert_eq!(Delivered::read(&written), Ok(Some(delivered)));
    }

    #[test]
    fn without_the_field_all_is_absent() {
        let none = Fields::new();
        assert_eq!(Subscribe::read(&none), Ok(Subscribe::default()));
        assert_eq!(Publish::read(&none), Ok(Publish::default()));
        assert_eq!(Delivered::read(&none), Ok(None));
        assert_eq!(Publish::default().value(), None);
    }

    #[test]
    fn malformed_members_are_named() {
        let read = Subscribe::read(&fields(SUBSCRIBE, "timeout=-1"));
        let text = read.unwrap_err().to_string();
        assert_eq!(
            text,
            "`timeout` of hermes-subscribe must be a number, 0 or more"
        );
        assert!(Subscribe::read(&fields(SUBSCRIBE, "from=7")).is_err());
        assert!(Subscribe::read(&fields(SUBSCRIBE, "from=\"x\"")).is_err());
        assert!(Subscribe::read(&fields(SUBSCRIBE, "timeout=(1 2)")).is_err());
        assert!(Subscribe::read(&fields(SUBSCRIBE, "=")).is_err());
        assert!(Publish::read(&fields(PUBLISH, "mode=fast")).is_err());
        let unknown = fields(PUBLISH, "mode=reliable, later=1");
        assert!(Publish::read(&unknown).unwrap().is_reliable);
    }
}
