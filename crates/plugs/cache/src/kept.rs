//! The head of a response in its file: all of it but the content.
//!
//! ```text
//! +----------+-------+------
//! | HERMESC1 | CRC   | JSON
//! +----------+-------+------
//! ```
//!
//! The sum is a CRC-32 (ISO 3309), big-endian, of the number of the file and the JSON: a head under another one's name fits no sum.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_http::ResponseHead;
use hermes_net::memory::{Memory, Owner, Purpose};
use hermes_proto::fields::Fields;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::disk::{DiskContent, FileId};
use crate::freshness::Freshness;
use crate::moment::Moment;
use crate::name::ResourceName;
use crate::selection::Selection;
use crate::stored::{Marks, Shelf, Stored, beside, next_serial};
use crate::tags::Tags;

/// The beginning of a head's file.
const MAGIC: &[u8; 8] = b"HERMESC1";

/// Bytes before the JSON.
const PREFACE: usize = 12;

/// A response but for its content.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptHead {
    name: ResourceName,
    user: Option<Arc<str>>,
    owner: KeptOwner,
    selection: Selection,
    status: u16,
    /// Names and values, each byte of a value as a character.
    fields: Vec<(String, String)>,
    freshness: Freshness,
    /// Of the content.
    pub(crate) length: u64,
    /// When it was stored.
    pub(crate) stored_at: Moment,
}

/// Who pays.
#[derive(Debug, Serialize, Deserialize)]
enum KeptOwner {
    User(Box<str>),
    Source(IpAddr),
    Listener(Box<str>),
    LocalUser(u32),
    Local,
}

impl KeptHead {
    /// That of a response, of this length; `None` if it cannot be kept.
    pub(crate) fn of(stored: &Stored, length: u64) -> Self {
        let text = |value: &[u8]| value.iter().map(|byte| char::from(*byte)).collect();
        let fields = stored.head.fields.into_iter();
        let age = Instant::now().saturating_duration_since(stored.stored_at);
        Self {
            name: stored.shelf.name.clone(),
            user: stored.shelf.user.clone(),
            owner: KeptOwner::of(&stored.shelf.owner),
            selection: stored.selection.clone(),
            status: stored.head.status.as_u16(),
            fields: fields
                .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
                .collect(),
            // Its age now: the age at its arrival is of another clock.
            freshness: stored.freshness.older(age),
            length,
            stored_at: Moment::now(),
        }
    }

    /// The bytes of its file.
    pub(crate) fn encode(&self, id: FileId) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = Vec::with_capacity(PREFACE + json.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&id.sum(0, &json).to_be_bytes());
        bytes.extend_from_slice(&json);
        bytes
    }

    /// Reads a file; `None` if it is damaged.
    pub(crate) fn decode(id: FileId, bytes: &[u8]) -> Option<Self> {
        let (preface, json) = bytes.split_at_checked(PREFACE)?;
        let sum = preface.strip_prefix(MAGIC)?.try_into().ok()?;
        if u32::from_be_bytes(sum) != id.sum(0, json) {
            return None;
        }
        serde_json::from_slice(json).ok()
    }

    /// The response, with its content in its file, at this age; `None` if its fields are none. Without an age it is validated before it is used.
    pub(crate) fn restore(self, content: DiskContent, age: Option<Duration>) -> Option<Stored> {
        let mut head = ResponseHead::new(StatusCode::from_u16(self.status).ok()?);
        head.fields = restored(&self.fields)?;
        let tags = Tags::of(&head.fields)?;
        let freshness = match age {
            Some(age) => self.freshness.older(age),
            None => self.freshness.doubtful(),
        };

        let owner = self.owner.restore();
        let beside = beside(&head, &self.selection, &tags);
        let account = Memory::node().owner(owner.clone());
        let mut charge = account.empty_charge(Purpose::Cached);
        if !charge.grow_if_free(usize::try_from(beside).unwrap_or(usize::MAX)) {
            return None;
        }
        Some(Stored {
            shelf: Shelf {
                name: self.name,
                user: self.user,
                owner,
            },
            selection: self.selection,
            head,
            freshness,
            body: Arc::new(Body::new(charge, 0).found_on_disk(content)),
            length: Some(self.length),
            stored_at: Instant::now(),
            tags,
            serial: next_serial(),
            beside,
            marks: Marks::new(beside),
        })
    }
}

fn restored(kept: &[(String, String)]) -> Option<Fields> {
    let mut fields = Fields::new();
    for (name, value) in kept {
        let bytes: Option<Vec<u8>> = value.chars().map(|char| u8::try_from(char).ok()).collect();
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        fields.append(name, HeaderValue::from_bytes(&bytes?).ok()?);
    }
    Some(fields)
}

impl KeptOwner {
    fn of(owner: &Owner) -> Self {
        match owner {
            Owner::User(name) => Self::User(name.clone()),
            Owner::Source(ip) => Self::Source(*ip),
            Owner::Listener(name) => Self::Listener(name.clone()),
            Owner::LocalUser(uid) => Self::LocalUser(*uid),
            Owner::Local => Self::Local,
        }
    }

    fn restore(self) -> Owner {
        match self {
            Self::User(name) => Owner::User(name),
            Self::Source(ip) => Owner::Source(ip),
            Self::Listener(name) => Owner::Listener(name),
            Self::LocalUser(uid) => Owner::LocalUser(uid),
            Self::Local => Owner::Local,
        }
    }
}
