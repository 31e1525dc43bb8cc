//! Finds the routes that an exchange may take without asking each of them.
//!
//! Every route stands under the keys of one of its conditions, the one that it shares with the
//! fewest other routes; a route without such a condition is always tried. The properties of an
//! exchange are looked up, and the routes found are tried in order, so the result is the same as
//! trying all of them.

mod candidates;
mod keys;

use std::collections::{BTreeMap, HashMap};

use hermes_config::model::Match;
use http::HeaderName;

use keys::{Key, Kind, keys_of};

/// Up to this number of routes, asking each one is faster than the index.
const SMALL: usize = 4;

/// The routes of a table by their conditions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// All routes.
    routes: u32,
    /// Routes that are always tried.
    always: Vec<u32>,
    kinds: BTreeMap<Kind, Buckets>,
    /// The fields that have keys, by the number in their [`Kind`].
    fields: Vec<HeaderName>,
}

/// The routes under the keys of one kind, in their order.
#[derive(Debug, Clone, Default)]
struct Buckets {
    by_text: HashMap<Box<[u8]>, Vec<u32>>,
    /// The lengths of the keys that are prefixes of the looked-up value.
    lengths: Vec<usize>,
}

impl Index {
    /// The index of routes with these conditions.
    pub(crate) fn new<'a>(routes: impl ExactSizeIterator<Item = &'a Match>) -> Self {
        let mut index = Self {
            routes: u32::try_from(routes.len()).unwrap_or(u32::MAX),
            ..Self::default()
        };

        if routes.len() <= SMALL {
            index.always = (0..index.routes).collect();
            return index;
        }

        let keys: Vec<Vec<Vec<Key>>> = routes
            .map(|matches| keys_of(matches, &mut index.fields))
            .collect();
        // A route stands under one condition only: any condition that fails rules the route out, and the rarest does so most often.
        let crowds = crowds(&keys);
        for (route, conditions) in (0..index.routes).zip(&keys) {
            let crowd = |keys: &&Vec<Key>| keys.iter().map(|key| crowds[key]).sum::<usize>();
            match conditions.iter().min_by_key(crowd) {
                Some(keys) => keys.iter().for_each(|key| index.add(key, route)),
                None => index.always.push(route),
            }
        }

        index
    }

    fn add(&mut self, key: &Key, route: u32) {
        let (kind, text) = key;
        let buckets = self.kinds.entry(*kind).or_default();
        if let Err(place) = buckets.lengths.binary_search(&text.len()) {
            buckets.lengths.insert(place, text.len());
        }

        // Two alternatives of one condition may have the same key. Routes are added in order, so the last entry tells.
        let routes = buckets.by_text.entry(text.clone()).or_default();
        if routes.last() != Some(&route) {
            routes.push(route);
        }
    }
}

/// The number of routes that could stand under each key.
fn crowds(keys: &[Vec<Vec<Key>>]) -> HashMap<&Key, usize> {
    let mut crowds = HashMap::new();
    for key in keys.iter().flatten().flatten() {
        *crowds.entry(key).or_default() += 1;
    }
    crowds
}
