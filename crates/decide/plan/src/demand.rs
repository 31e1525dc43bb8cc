//! The attributes that functions on the way between two areas have to provide.

use crate::areas::{Area, Areas};

/// Attributes by number, sorted, that data lacks from one area to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    /// Those of the first area that the second lacks: functions have to give them (the paper's equation 5).
    pub(crate) given: Vec<usize>,
    /// Those that the second area needs and does not have: the data has to have them when it arrives, be it from its own area.
    pub(crate) present: Vec<usize>,
}

impl Demand {
    pub(crate) fn clear(&mut self) {
        self.given.clear();
        self.present.clear();
    }

    /// Becomes that of two areas; `marks` are those of the second.
    pub(crate) fn fill(&mut self, from: &Area, to: &Area, marks: &Marks) {
        self.clear();
        let given = from.guards.iter().copied();
        self.given
            .extend(given.filter(|number| !marks.has(*number)));
        for number in &to.needs {
            if !marks.has(*number) && !self.given.contains(number) {
                self.present.push(*number);
            }
        }
    }

    /// Whether data has everything without a function.
    pub(crate) fn is_met_by(&self, from: &Area) -> bool {
        let has = |number| from.has.binary_search(number).is_ok();
        self.given.is_empty() && self.present.iter().all(has)
    }
}

/// The attributes of one area as bits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks(Vec<u64>);

impl Marks {
    pub(crate) fn new(areas: &Areas, area: &Area) -> Self {
        let mut words = vec![0; areas.attributes.len().div_ceil(64)];
        for number in &area.has {
            words[number / 64] |= 1 << (number % 64);
        }
        Self(words)
    }

    fn has(&self, number: usize) -> bool {
        let word = self.0.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}
