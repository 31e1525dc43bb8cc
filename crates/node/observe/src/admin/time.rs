//! The time in which an administrator is to confirm a configuration.

use std::time::Duration;

use hermes_config::model;

/// The shortest time to confirm a document: enough to type a word.
#[doc(alias = "bound")]
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest time to confirm a document: to come back tomorrow.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Reads the time to confirm a configuration, such as `60s`.
///
/// # Errors
/// Why it is invalid, with a remedy.
pub fn confirm_time(text: &str) -> Result<Duration, String> {
    let model::Duration(time) = text
        .parse()
        .map_err(|error: model::scalar::ScalarError| error.to_string())?;
    if (SHORTEST..=LONGEST).contains(&time) {
        Ok(time)
    } else {
        Err(format!("`{text}` is not from 1s to 24h; write it like 60s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_confirm_has_a_unit_and_bounds() {
        assert_eq!(confirm_time("1m30s"), Ok(Duration::from_secs(90)));
        for text in ["", "60", "0s", "999ms", "25h", "soon"] {
            assert!(confirm_time(text).is_err(), "{text}");
        }
    }
}
