//! The common part of ranges of numbers: parsing and printing.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer};

use super::ScalarError;

/// Reads a scalar that may be written as a number, for one value, or as text.
pub(super) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err = ScalarError>>(
    from: D,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form<'text> {
        Number(u16),
        Text(Cow<'text, str>),
    }

    let text = match Form::deserialize(from)? {
        Form::Number(number) => number.to_string(),
        Form::Text(text) => text.into_owned(),
    };

    text.parse().map_err(serde::de::Error::custom)
}

/// Writes a scalar as it is read: one value as a number.
pub(super) fn serialize<S: Serializer>(low: u16, high: u16, into: S) -> Result<S::Ok, S::Error> {
    if low == high {
        into.serialize_u16(low)
    } else {
        into.collect_str(&format_args!("{low}-{high}"))
    }
}

/// Prints `low-high`, or the number if there is but one.
pub(super) fn format(low: u16, high: u16, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if low == high {
        write!(out, "{low}")
    } else {
        write!(out, "{low}-{high}")
    }
}
