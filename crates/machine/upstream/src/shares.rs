//! Places that are shared fairly: no one takes more than half of those that the others leave.

use std::collections::HashMap;

/// Places that anyone may take while there are any: a share must not fall below the needs of a few.
const FEW: usize = 32;

/// How many places are taken, by owner.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    taken: usize,
    of: HashMap<String, usize>,
}

impl Shares {
    /// Shares of `most` places in all.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            taken: 0,
            of: HashMap::new(),
        }
    }

    /// Takes a place for `who`; false if there is none, or `who` has used up its share.
    #[must_use]
    pub fn take(&mut self, who: &str) -> bool {
        let free = self.most - self.taken;
        let own = self.of.get(who).copied().unwrap_or(0);
        if free == 0 || own >= FEW.max(free / 2) {
            return false;
        }

        self.taken += 1;
        *self.of.entry(who.to_owned()).or_default() += 1;
        true
    }

    /// Gives one back.
    pub fn give(&mut self, who: &str) {
        let Some(own) = self.of.get_mut(who) else {
            return;
        };
        self.taken -= 1;
        *own -= 1;

        if *own == 0 {
            self.of.remove(who);
        }
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_one_takes_what_others_need() {
        let mut shares = Shares::new(3_000);
        let mut all = |who: &str| (0..10_000).take_while(|_| shares.take(who)).count();
        assert_eq!(all("alice"), 1_000, "half of what was left then");
        assert_eq!(all("bob"), 667);
        assert!((0..8).all(|number| all(&format!("user {number}")) >= FEW));
        assert_eq!(all("alice"), 0);
        (0..1_000).for_each(|_| shares.give("alice"));
        assert!(shares.take("alice"));
        shares.give("stranger");
    }

    #[test]
    fn there_are_no_more_than_there_are() {
        let mut shares = Shares::new(40);
        let all = (0..10)
            .map(|who| {
                (0..100)
                    .take_while(|_| shares.take(&who.to_string()))
                    .count()
            })
            .sum::<usize>();
        assert_eq!((all, shares.taken()), (40, 40));
        assert!(!shares.take("late"));
    }
}
