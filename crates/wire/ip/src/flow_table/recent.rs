//! Entries in the order in which they were used last.

/// Entries by number, and in the order in which they were used last: using one, and finding the one that was not used for longest, takes
/// the same time however many there are.
#[derive(Debug, Clone)]
pub(super) struct RecentQueue<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
    oldest: Option<usize>,
    newest: Option<usize>,
}

#[derive(Debug, Clone)]
struct Place<T> {
    /// `None` for a free slot.
    entry: Option<T>,
    older: Option<usize>,
    newer: Option<usize>,
}

impl<T> Default for RecentQueue<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            oldest: None,
            newest: None,
        }
    }
}

impl<T> RecentQueue<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Puts one in, as used now; returns its number.
    pub(super) fn push(&mut self, entry: T) -> usize {
        let place = Place {
            entry: Some(entry),
            older: None,
            newer: None,
        };
        // Freed places are used again, so that the table stays as small as it ever needed to be.
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number] = place;
                number
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.link(number);
        number
    }

    /// The entry of this number, which is used now.
    pub(super) fn use_now(&mut self, number: usize) -> Option<&mut T> {
        // Packets of a flow come in rows: the one used last is in its place already.
        if self.newest != Some(number) {
            self.places.get(number)?.entry.as_ref()?;
            self.unlink(number);
            self.link(number);
        }
        self.places.get_mut(number)?.entry.as_mut()
    }

    /// The one that was not used for longest.
    pub(super) fn oldest(&self) -> Option<(usize, &T)> {
        let number = self.oldest?;
        let entry = self.places.get(number)?.entry.as_ref()?;
        Some((number, entry))
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, number: usize) -> Option<T> {
        let entry = self.places.get_mut(number)?.entry.take()?;
        self.unlink(number);
        self.free.push(number);
        Some(entry)
    }

    fn link(&mut self, number: usize) {
        // Indices in place of pointers: a list without `unsafe`, and without an allocation for each entry.
        let before = self.newest.replace(number);
        match before {
            Some(before) => self.places[before].newer = Some(number),
            None => self.oldest = Some(number),
        }
        let place = &mut self.places[number];
        place.older = before;
        place.newer = None;
    }

    fn unlink(&mut self, number: usize) {
        let Place { older, newer, .. } = self.places[number];
        match older {
            Some(older) => self.places[older].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.places[newer].older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_as_a_list_that_is_searched(steps in prop::collection::vec((0..3_u8, 0..12_usize), 0..200)) {
            let mut queue = RecentQueue::default();
            let mut model: VecDeque<(usize, usize)> = VecDeque::new();
            for (at, (step, pick)) in steps.into_iter().enumerate() {
                let picked = model.get(pick % model.len().max(1)).copied();
                match (step, picked) {
                    (0, Some((number, value))) => {
                        prop_assert_eq!(queue.use_now(number).copied(), Some(value));
                        model.retain(|one| one.0 != number);
                        model.push_back((number, value));
                    }
                    (1, Some((number, value))) => {
                        prop_assert_eq!(queue.remove(number), Some(value));
                        prop_assert_eq!(queue.remove(number), None);
                        model.retain(|one| one.0 != number);
                    }
                    _ => model.push_back((queue.push(at), at)),
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.oldest().map(|(number, value)| (number, *value)), model.front().copied());
            }
        }
    }
}
