//! A bounded map with entries that expire.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// At most `limit` entries; the oldest makes room for a new one.
#[derive(Debug)]
pub struct Cache<K, V> {
    limit: usize,
    entries: HashMap<K, Entry<V>>,
    /// Every key of `entries` once, in the order of their arrival.
    order: VecDeque<K>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: u64,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// An empty one.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// The value of `key`, unless it ended at or before `now`.
    pub fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: u64) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries
            .get(key)
            .filter(|entry| now < entry.until)
            .map(|entry| &entry.value)
    }

    /// Remembers `value` until `until`.
    pub fn insert(&mut self, key: K, value: V, until: u64) {
        if self
            .entries
            .insert(key.clone(), Entry { value, until })
            .is_some()
        {
            return;
        }

        self.order.push_back(key);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_ends_at_its_time() {
        let mut cache = Cache::new(2);
        cache.insert("a".to_owned(), 1, 10);
        assert_eq!(cache.find("a", 9), Some(&1));
        assert_eq!(cache.find("a", 10), None);
        cache.insert("a".to_owned(), 2, 20);
        assert_eq!(cache.find("a", 10), Some(&2));
    }

    #[test]
    fn the_oldest_entry_makes_room() {
        let mut cache = Cache::new(2);
        for (key, value) in [(1, 'a'), (2, 'b'), (1, 'c'), (3, 'd')] {
            cache.insert(key, value, 10);
        }
        assert_eq!(
            [1, 2, 3].map(|key| cache.find(&key, 0).copied()),
            [None, Some('b'), Some('d')]
        );
        assert_eq!(cache.order.len(), cache.entries.len());
    }
}
