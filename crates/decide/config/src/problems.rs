//! The problems of a document: all of them, not the first alone.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::Place;
use crate::model::scalar::ScalarError;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where it is written, if it is written.
    pub place: Option<Place>,
    /// Path within the document, such as `routes[2].match.target`; empty for the document itself.
    pub path: String,
    /// The mistake.
    #[serde(serialize_with = "without_passwords")]
    pub reason: String,
    /// The remedy, if it is known.
    #[serde(serialize_with = "without_password")]
    pub remedy: Option<String>,
}

impl Problem {
    /// A problem without a remedy, of which [`Places::placed`](crate::Places::placed) finds the place.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            place: None,
            path: path.into(),
            reason: reason.into(),
            remedy: None,
        }
    }

    /// A problem without a remedy, at this place.
    pub(crate) fn at(place: &Place, path: &str, reason: impl Into<String>) -> Self {
        Self {
            place: Some(place.clone()),
            ..Self::new(path, reason)
        }
    }

    /// The same problem with a remedy.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    /// A scalar that cannot be read.
    pub(crate) fn scalar(place: &Place, path: &str, error: ScalarError) -> Self {
        Self {
            remedy: error.remedy,
            ..Self::at(place, path, error.reason)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(out, "{place}: ")?;
        }
        if !self.path.is_empty() {
            write!(out, "{}: ", self.path)?;
        }

        out.write_str(&one_line(&masked(&self.reason)))?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| {
            write!(out, "; {}", one_line(&masked(remedy)))
        })
    }
}

/// A text in which `user:password@` reveals no password. Values of the file are quoted in reasons
/// and remedies, which go to terminals, logs and tickets.
fn masked(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }

    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('@') {
        let is_edge = |letter: char| letter.is_whitespace() || "/`'\"([{,;".contains(letter);
        let start = before.rfind(is_edge).map_or(0, |edge| edge + 1);
        match before[start..].find(':') {
            Some(colon) => {
                shown.push_str(&before[..=start + colon]);
                shown.push_str("***");
            }
            None => shown.push_str(before),
        }
        shown.push('@');
        rest = after;
    }

    shown.push_str(rest);
    Cow::Owned(shown)
}

fn without_passwords<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&masked(text))
}

fn without_password<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().map(masked).serialize(to)
}

/// Values of the file are quoted in reasons: this removes line breaks and control characters, and
/// limits their length.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut line = String::new();
    for letter in text.chars().take(LONGEST) {
        match letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
            true => line.extend(letter.escape_default()),
            false => line.push(letter),
        }
    }

    if text.chars().nth(LONGEST).is_some() {
        line + "..."
    } else {
        line
    }
}

/// Everything that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// In the order of the files and their lines, each problem once; problems without a place come
    /// first.
    #[must_use]
    pub fn in_order(mut self, files: &[PathBuf]) -> Self {
        let rank = |place: &Place| {
            let name = std::path::absolute(&place.file).unwrap_or_default();
            (
                files.iter().position(|file| *file == name),
                place.line,
                place.column,
            )
        };

        self.0
            .sort_by_cached_key(|problem| problem.place.as_ref().map(rank));
        self.0.dedup();
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            problem.fmt(out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
