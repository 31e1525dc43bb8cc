//! The weighted choice among next proxies.

use hermes_config::model::Hops;

/// Next hops with their weights; at least one.
#[derive(Debug, Clone)]
pub struct Split<H> {
    /// All but the last, each with the sum of the weights up to it and its own.
    before: Vec<(u64, H)>,
    last: H,
    total: u64,
}

impl<H> Split<H> {
    /// The hops with a weight, as `find` finds them; `None` if no hop has one.
    ///
    /// # Errors
    /// Errors of `find`.
    pub(super) fn compile<E>(
        hops: &Hops,
        mut find: impl FnMut(&str) -> Result<H, E>,
    ) -> Result<Option<Self>, E> {
        let mut total = 0;
        let mut found = Vec::new();
        for (name, weight) in weighted(hops) {
            total += u64::from(weight);
            found.push((total, find(name)?));
        }

        Ok(found.pop().map(|(total, last)| Self {
            before: found,
            last,
            total,
        }))
    }

    /// The hop that an exchange goes to, chosen by weight from a number that the caller drew uniformly from all `u64`.
    pub fn pick(&self, random: u64) -> &H {
        if self.before.is_empty() {
            return &self.last;
        }

        // The high half of a product maps all u64 evenly to 0..total.
        let product = u128::from(random) * u128::from(self.total);
        let point = (product >> 64) as u64;
        let chosen = self.before.iter().find(|(upto, _)| point < *upto);

        chosen.map_or(&self.last, |(_, hop)| hop)
    }

    /// Whether a number is needed to choose.
    pub fn is_choice(&self) -> bool {
        !self.before.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &H> {
        self.before
            .iter()
            .map(|(_, hop)| hop)
            .chain(std::iter::once(&self.last))
    }
}

/// The upstreams that an exchange may go to.
pub fn hops_of(hops: &Hops) -> impl Iterator<Item = &str> {
    weighted(hops).map(|(name, _)| name)
}

/// The upstreams that have a weight; one alone has weight 1.
fn weighted(hops: &Hops) -> impl Iterator<Item = (&str, u32)> {
    let (one, split) = match hops {
        Hops::One(name) => (Some(name.as_str()), None),
        Hops::Chain(chain) => (Some(chain.name()), None),
        Hops::Split(split) => (None, Some(split)),
    };

    let many = split
        .into_iter()
        .flatten()
        .map(|(name, weight)| (name.as_str(), *weight))
        .filter(|(_, weight)| *weight > 0);

    one.map(|name| (name, 1)).into_iter().chain(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(weights: &[(&str, u32)]) -> Option<Split<String>> {
        let weights = weights
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight))
            .collect();
        compiled(&Hops::Split(weights))
    }

    fn compiled(hops: &Hops) -> Option<Split<String>> {
        Split::compile(hops, |name| Ok::<_, ()>(name.to_owned())).unwrap()
    }

    #[test]
    fn one_hop_needs_no_number() {
        let one = compiled(&Hops::One("a".into())).unwrap();
        assert!(!one.is_choice());
        assert_eq!(one.pick(7), "a");
    }

    #[test]
    fn weights_share_the_numbers_evenly() {
        let hops = split(&[("a", 1), ("none", 0), ("b", 3)]).unwrap();
        let quarter = u64::MAX / 4;
        assert_eq!(hops.pick(0), "a");
        assert_eq!(hops.pick(quarter - 1), "a");
        assert_eq!(hops.pick(quarter + 1), "b");
        assert_eq!(hops.pick(u64::MAX), "b");
        assert_eq!(hops.iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn nothing_to_choose_from_is_no_split() {
        assert!(split(&[("a", 0)]).is_none());
        assert!(split(&[]).is_none());
    }
}
