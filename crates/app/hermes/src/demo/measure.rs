//! How long something takes, one try after the other.

use std::time::{Duration, Instant};

/// Tries a median is taken of.
const TRIES: usize = 20;

/// The median time of an operation.
///
/// # Errors
/// The first failure.
pub async fn median_of(
    mut operation: impl AsyncFnMut() -> Result<(), String>,
) -> Result<Duration, String> {
    let mut times = Vec::with_capacity(TRIES);
    for _ in 0..TRIES {
        let begin = Instant::now();
        operation().await?;
        times.push(begin.elapsed());
    }
    Ok(median(times))
}

/// The median, of an even number the upper of both; zero without values.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_try_does_not_move_the_median() {
        let times = [3, 1, 900, 2, 4].map(Duration::from_millis);
        assert_eq!(median(times.to_vec()), Duration::from_millis(3));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}
