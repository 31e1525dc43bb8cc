//! Times and counts of other programs, in our words.

/// Milliseconds as a duration of ours; at least one.
pub(crate) fn duration(milliseconds: u64) -> String {
    let milliseconds = milliseconds.max(1);
    if milliseconds.is_multiple_of(1000) {
        format!("{}s", milliseconds / 1000)
    } else {
        format!("{milliseconds}ms")
    }
}

/// Milliseconds of a duration such as `0.25s`, `1h30m`, `250ms`; `None` if it is not a duration.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0.0_f64;
    if rest.is_empty() {
        return None;
    }

    while !rest.is_empty() {
        let digits = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .filter(|end| *end > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..]
            .find(|letter: char| letter.is_ascii_digit())
            .map_or(rest.len(), |end| digits + end);
        sum += number * scale(&rest[digits..unit])?;
        rest = &rest[unit..];
    }
    (sum < 1e15).then_some(sum.ceil() as u64)
}

fn scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-6,
        "us" | "\u{b5}s" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        let of = |text| milliseconds(text).map(duration);
        assert_eq!(of("0.25s").as_deref(), Some("250ms"));
        assert_eq!(of("15s").as_deref(), Some("15s"));
        assert_eq!(of("1h30m").as_deref(), Some("5400s"));
        assert_eq!(of("0.0000001s").as_deref(), Some("1ms"));
        for none in ["", "s", "5", "5x", "1e300s"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
