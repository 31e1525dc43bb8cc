//! Builtins on time. Times are nanoseconds of Unix time, in UTC.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use regorus::Value;

use crate::budget;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Seconds of Unix time that all policies of this process are to take for the present; 0: the clock's.
static SUPPOSED: AtomicU64 = AtomicU64::new(0);

/// Has all policies of this process take `at`, in Unix time, for the present; `None`: the clock's again. For tools that rehearse one exchange
/// after another, never in a node.
pub fn suppose_time(at: Option<u64>) {
    SUPPOSED.store(at.unwrap_or(0), Ordering::Relaxed);
}

/// Nanoseconds now: one time for all of an evaluation.
pub(crate) fn now(_: &[Value]) -> Option<Value> {
    let supposed = SUPPOSED.load(Ordering::Relaxed);
    if supposed > 0 {
        return i64::try_from(supposed)
            .ok()?
            .checked_mul(SECOND)
            .map(Value::from);
    }
    let since = budget::began().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(Value::from)
}

/// Seconds of a time, which may be in a list with `UTC` or the empty name of it; other zones are not known.
fn seconds(operands: &[Value]) -> Option<i64> {
    let given = operands.first()?;
    let nanoseconds = match given.as_array() {
        Err(_) => given.as_i64().ok()?,
        Ok(_) => {
            let zone = given[1].as_string().ok()?;
            if !["", "UTC"].contains(&&**zone) {
                return None;
            }
            given[0].as_i64().ok()?
        }
    };

    Some(nanoseconds.div_euclid(SECOND))
}

/// Hour, minute and second.
pub(crate) fn clock(operands: &[Value]) -> Option<Value> {
    let second = seconds(operands)?.rem_euclid(DAY);
    let parts = [second / 3600, second / 60 % 60, second % 60];
    Some(Value::from(parts.map(Value::from).to_vec()))
}

pub(crate) fn weekday(operands: &[Value]) -> Option<Value> {
    const NAMES: [&str; 7] = [
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
        "Monday",
        "Tuesday",
        "Wednesday",
    ];
    let day = seconds(operands)?.div_euclid(DAY).rem_euclid(7);
    let day = usize::try_from(day).ok()?;
    Some(Value::from(NAMES[day]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> [String; 2] {
        let operands = [Value::from(seconds * SECOND)];
        [clock, weekday].map(|builtin| builtin(&operands).unwrap().to_string())
    }

    #[test]
    fn times_are_taken_apart_in_utc() {
        assert_eq!(at(0), ["[0,0,0]", "\"Thursday\""]);
        // 2000-02-29T23:59:59Z.
        assert_eq!(at(951_868_799), ["[23,59,59]", "\"Tuesday\""]);
        assert_eq!(at(-1), ["[23,59,59]", "\"Wednesday\""]);
    }

    #[test]
    fn only_utc_is_known() {
        let of = |zone: &str| clock(&[Value::from(vec![Value::from(0_i64), Value::from(zone)])]);
        assert!(of("UTC").is_some());
        assert!(of("Europe/Oslo").is_none());
    }
}
