//! The origins of a function, and the ways to them.

use std::sync::{Arc, Weak};

use hermes_http::{Incoming, RequestHead, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Onward, Opener};
use http::HeaderValue;
use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::uri::Authority;
use parking_lot::Mutex;

use crate::book::Book;
use crate::settings::Rules;

/// The groups that functions of this node use.
#[derive(Default)]
pub(crate) struct KnownGroups(Mutex<Vec<Weak<Group>>>);

/// The origins of a function.
pub(crate) struct Group {
    pub(crate) rules: Rules,
    pub(crate) book: Mutex<Book>,
}

impl KnownGroups {
    /// Those in use.
    pub(crate) fn all(&self) -> Vec<Arc<Group>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// A group with these rules.
    pub(crate) fn open(&self, rules: Rules) -> Arc<Group> {
        let group = Arc::new(Group {
            book: Mutex::new(Book::new(rules.others.len() + 1)),
            rules,
        });
        let mut groups = self.0.lock();
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(&group));
        group
    }
}

/// The ways to the origins, for one request.
pub(crate) struct Ways {
    pub(crate) group: Arc<Group>,
    pub(crate) head: RequestHead,
    pub(crate) onward: Onward,
    pub(crate) opener: Opener,
}

impl Ways {
    /// Asks an origin: 0 is the one of the route.
    ///
    /// # Errors
    /// It is not reached, or may not be asked.
    pub(crate) async fn ask(
        &self,
        origin: usize,
        head: RequestHead,
    ) -> Result<(ResponseHead, Incoming), Refusal> {
        let other = origin
            .checked_sub(1)
            .and_then(|index| self.group.rules.others.get(index));
        match other {
            None => self.onward.send(head, Incoming::Empty).await,
            Some(authority) => {
                self.opener
                    .open(for_other(head, authority), Incoming::Empty)
                    .await
            }
        }
    }
}

/// The request for another origin. Credentials are for the one that the client has asked.
fn for_other(mut head: RequestHead, authority: &Authority) -> RequestHead {
    head.authority = Some(authority.clone());
    head.fields.remove(AUTHORIZATION);
    head.fields.remove(COOKIE);
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        head.fields.insert(HOST, host);
    }
    head
}
