//! A filter that knows hosts: it says in which zone each is, for the routes to look at, and denies those that it does not know.

use std::collections::HashMap;

use hermes_plug::{Changes, Deciding, Decision, Filter, Subject, Verdict};
use http::{HeaderName, HeaderValue, StatusCode};

/// The field in which routes see the zone; a document that uses it declares it under `fields`.
const ZONE: HeaderName = HeaderName::from_static("zone");

/// Which host, in lower case as filters see them, is in which zone.
pub struct Zones(pub HashMap<String, HeaderValue>);

impl Filter for Zones {
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a> {
        let verdict = match self.0.get(subject.target.host()) {
            Some(zone) => {
                let mut changes = Changes::default();
                changes.set.insert(ZONE, zone.clone());
                Verdict {
                    decision: Decision::Allow(changes),
                    ..Verdict::allow("the host is known")
                }
            }
            None => Verdict::deny(StatusCode::FORBIDDEN, "no one knows the host"),
        };
        Box::pin(std::future::ready(verdict))
    }
}
