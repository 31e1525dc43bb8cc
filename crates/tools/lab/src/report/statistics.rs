//! Medians and ranges: rounds are few and some are disturbed, so no mean is taken.

/// A figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The value in the middle.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Summary {
    /// The summary of some values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Self {
            median: median(values),
            least,
            most,
        })
    }
}

/// The value in the middle, or the mean of the two there; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;

    match (sorted.len() % 2, sorted.get(middle)) {
        (_, None) => 0.0,
        (0, Some(upper)) => f64::midpoint(sorted[middle - 1], *upper),
        (_, Some(value)) => *value,
    }
}

/// The mean of some values, and their standard deviation; `None` without values.
pub fn deviation(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / count).sqrt()))
}

/// The value that this share of all is not above.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_is_that_of_all_values() {
        assert_eq!(
            deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            Some((5.0, 2.0))
        );
        assert_eq!(deviation(&[]), None);
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.75), 3.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn the_median_does_not_mind_one_disturbed_round() {
        assert!((median(&[3.0, 1.0, 1000.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 2.0]) - 3.0).abs() < f64::EPSILON);
        assert!(median(&[]).abs() < f64::EPSILON);
    }
}
