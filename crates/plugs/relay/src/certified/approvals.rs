//! Lists of approved senders, which the owners of channels set.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_certified::{Approval, KeyName, Signature};

use crate::account::{Account, Charge};

/// Lists of all owners.
#[doc(alias = "bound")]
const APPROVALS: usize = 10_000;

/// Lists that one user sets, or one source without a user.
#[doc(alias = "bound")]
const OF_ONE: usize = 100;

/// The lists, by the key of their channel.
#[derive(Default)]
pub(crate) struct Approvals {
    lists: HashMap<Arc<str>, List>,
}

/// A list of approved senders.
struct List {
    approval: Approval,
    /// The owner's word for it, and its text.
    signature: Signature,
    text: String,
    by: Arc<str>,
    _charge: Charge,
}

/// Whether a list names a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is no list.
    Unlisted,
    /// The key is in it.
    Key,
    /// The user is in it.
    User,
    /// There is one, without this sender.
    Stranger,
}

impl Approvals {
    /// Sets the list of a channel; whether there was room.
    pub(crate) fn set(
        &mut self,
        key: &str,
        approval: Approval,
        word: (Signature, String),
        account: &Arc<Account>,
    ) -> bool {
        let (signature, text) = word;
        let by = account.name.clone();
        // The list that it replaces, if there is one, makes room for it.
        self.lists.remove(key);
        let own = self.lists.values().filter(|list| list.by == by).count();
        if self.lists.len() >= APPROVALS || own >= OF_ONE {
            return false;
        }
        // It stays for up to a day, so that its owner pays for it as for messages that wait.
        let Some(charge) = account.charge(text.len() + 512) else {
            return false;
        };
        let list = List {
            approval,
            signature,
            text,
            by,
            _charge: charge,
        };
        self.lists.insert(key.into(), list);
        true
    }

    /// Whether the list of a channel names this sender.
    pub(crate) fn standing(
        &self,
        key: &str,
        sender: Option<&KeyName>,
        user: Option<&str>,
        now: u64,
    ) -> Standing {
        let list = self.lists.get(key);
        let Some(list) = list.filter(|list| now <= list.approval.until) else {
            return Standing::Unlisted;
        };
        if sender.is_some_and(|sender| list.approval.has_key(sender, now)) {
            Standing::Key
        } else if user.is_some_and(|user| list.approval.has_user(user, now)) {
            Standing::User
        } else {
            Standing::Stranger
        }
    }

    /// The owner's word for the list of a channel.
    pub(crate) fn word(&self, key: &str) -> Option<(&Signature, &str)> {
        let list = self.lists.get(key)?;
        Some((&list.signature, &list.text))
    }

    /// Forgets lists that are over.
    pub(crate) fn forget(&mut self, now: u64) {
        self.lists.retain(|_, list| now <= list.approval.until);
    }
}
