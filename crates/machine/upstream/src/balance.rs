//! Which endpoint comes next: a pure choice among candidates. Randomness is an argument.

/// Whether an endpoint is ready for one choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// May be chosen.
    Ready,
    /// May be chosen, but after the other zones.
    Far,
    /// Failed a moment ago: chosen only when no other is ready.
    Resting,
    /// Tried for this exchange already, or not fit.
    Out,
}

/// One endpoint, as far as the choice is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// Its share, at least 1.
    pub(crate) weight: u32,
    /// Exchanges it is serving.
    pub(crate) active: usize,
    /// Whether it may be chosen.
    pub(crate) readiness: Readiness,
}

/// The best readiness that any candidate has; `None` when all are out.
pub(crate) fn best_readiness(candidates: &[Candidate]) -> Option<Readiness> {
    [Readiness::Ready, Readiness::Far, Readiness::Resting]
        .into_iter()
        .find(|best| candidates.iter().any(|one| one.readiness == *best))
}

/// Turns by weight, spread evenly: of weights 5, 1, 1 the heavy one never comes five times in a row.
///
/// Every choice adds each candidate's weight to its credit; the highest credit wins and pays the sum of the weights.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    credit: Vec<i64>,
}

impl RoundRobin {
    /// The next index, of those with the best readiness.
    pub(crate) fn pick(&mut self, candidates: &[Candidate]) -> Option<usize> {
        let best = best_readiness(candidates)?;
        self.credit.resize(candidates.len(), 0);
        let mut total = 0;
        let mut winner: Option<usize> = None;

        for (index, candidate) in candidates
            .iter()
            .enumerate()
            .filter(|(_, one)| one.readiness == best)
        {
            let weight = i64::from(candidate.weight.max(1));
            total += weight;
            self.credit[index] += weight;
            if winner.is_none_or(|leader| self.credit[index] > self.credit[leader]) {
                winner = Some(index);
            }
        }

        let winner = winner?;
        self.credit[winner] -= total;
        Some(winner)
    }
}

/// The less busy of two that are drawn by weight; `below(n)` draws a number from 0 to n - 1.
pub(crate) fn least_request(
    candidates: &[Candidate],
    mut below: impl FnMut(u64) -> u64,
) -> Option<usize> {
    let best = best_readiness(candidates)?;
    let first = draw(candidates, best, None, &mut below)?;
    let Some(second) = draw(candidates, best, Some(first), &mut below) else {
        return Some(first);
    };

    let one = candidates[first];
    let two = candidates[second];

    // active / weight of both, multiplied out; equal ones leave it to the draw, which followed the weights.
    let busier = one.active as u64 * u64::from(two.weight.max(1))
        > two.active as u64 * u64::from(one.weight.max(1));
    Some(if busier { second } else { first })
}

fn draw(
    candidates: &[Candidate],
    readiness: Readiness,
    without: Option<usize>,
    below: &mut impl FnMut(u64) -> u64,
) -> Option<usize> {
    let open = || {
        let all = candidates.iter().enumerate();
        all.filter(move |(index, one)| one.readiness == readiness && Some(*index) != without)
            .map(|(index, one)| (index, u64::from(one.weight.max(1))))
    };

    let total = open().map(|(_, weight)| weight).sum::<u64>();
    if total == 0 {
        return None;
    }

    let mut left = below(total);
    for (index, weight) in open() {
        if left < weight {
            return Some(index);
        }
        left -= weight;
    }

    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(weights: &[u32]) -> Vec<Candidate> {
        weights
            .iter()
            .map(|weight| Candidate {
                weight: *weight,
                active: 0,
                readiness: Readiness::Ready,
            })
            .collect()
    }

    #[test]
    fn turns_follow_the_weights_exactly() {
        let (mut turns, candidates) = (RoundRobin::default(), ready(&[5, 1, 4]));
        let mut counts = [0; 3];
        for _ in 0..1000 {
            counts[turns.pick(&candidates).unwrap()] += 1;
        }
        assert_eq!(counts, [500, 100, 400]);
    }

    #[test]
    fn turns_are_spread() {
        let (mut turns, candidates) = (RoundRobin::default(), ready(&[5, 1, 1]));
        let order: Vec<_> = (0..7).map(|_| turns.pick(&candidates).unwrap()).collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn resting_endpoints_come_last_and_tried_ones_never() {
        let (mut turns, mut candidates) = (RoundRobin::default(), ready(&[100, 1, 1]));
        candidates[0].readiness = Readiness::Resting;
        candidates[1].readiness = Readiness::Out;
        assert_eq!(turns.pick(&candidates), Some(2));
        assert_eq!(least_request(&candidates, |_| 0), Some(2));
        candidates[2].readiness = Readiness::Out;
        assert_eq!(turns.pick(&candidates), Some(0));
        assert_eq!(least_request(&candidates, |_| 0), Some(0));
        candidates[0].readiness = Readiness::Out;
        assert_eq!(turns.pick(&candidates), None);
        assert_eq!(least_request(&candidates, |_| 0), None);
    }

    #[test]
    fn a_rest_leaves_no_debt_that_floods_the_endpoint_later() {
        let (mut turns, mut candidates) = (RoundRobin::default(), ready(&[1, 1]));
        candidates[0].readiness = Readiness::Resting;
        (0..100).for_each(|_| assert_eq!(turns.pick(&candidates), Some(1)));
        candidates[0].readiness = Readiness::Ready;
        let first = (0..10)
            .filter(|_| turns.pick(&candidates) == Some(0))
            .count();
        assert_eq!(first, 5);
    }

    #[test]
    fn least_request_takes_the_less_busy_for_its_weight() {
        let mut candidates = ready(&[1, 3]);
        (candidates[0].active, candidates[1].active) = (2, 5);
        for drawn in 0..4 {
            assert_eq!(least_request(&candidates, |total| drawn % total), Some(1));
        }
    }

    #[test]
    fn least_request_keeps_many_busy_endpoints_even() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut candidates = ready(&[1; 10]);
        for _ in 0..10_000 {
            let index = least_request(&candidates, |total| random.u64(0..total)).unwrap();
            candidates[index].active += 1;
        }
        let (least, most) = candidates.iter().fold((usize::MAX, 0), |(low, high), one| {
            (low.min(one.active), high.max(one.active))
        });
        assert!(most - least < 20, "{least} to {most}");
    }

    #[test]
    fn least_request_follows_the_weights_when_all_are_idle() {
        let mut random = fastrand::Rng::with_seed(7);
        let candidates = ready(&[3, 1]);
        let heavy = (0..10_000)
            .filter(|_| least_request(&candidates, |total| random.u64(0..total)) == Some(0))
            .count();
        assert!((7_200..7_800).contains(&heavy), "{heavy}");
    }
}
