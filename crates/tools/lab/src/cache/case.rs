//! The cases of `cases.txt`.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

/// The cases as they are written.
const TEXT: &str = include_str!("cases.txt");

/// A case: exchanges through a cache, and what has to be true of them.
#[derive(Debug, Clone)]
pub(super) struct CacheCase {
    pub section: String,
    /// `MUST`, `MUST NOT`, `SHOULD` or `MAY`.
    pub level: String,
    pub claim: String,
    pub steps: Vec<CacheStep>,
}

/// One request.
#[derive(Debug, Clone, Default)]
pub(super) struct CacheStep {
    /// Before it is sent.
    pub wait: Duration,
    pub method: String,
    pub path: String,
    pub fields: Vec<String>,
    pub answer: OriginAnswer,
    pub expected: Vec<Expected>,
}

/// The answer of the origin.
#[derive(Debug, Clone, Default)]
pub(super) struct OriginAnswer {
    /// `None`: the connection is closed.
    pub status: Option<u16>,
    pub fields: Vec<String>,
    pub content: Option<String>,
    /// The content breaks off.
    pub is_cut: bool,
}

/// Something that has to be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    Asked,
    Stored,
    Validated,
    /// A digit or three, such as `5xx` or `304`.
    Status(String),
    Field(String),
    /// The name, and values that are right.
    Is(String, Vec<String>),
    Content(String),
    /// The origin saw this field.
    Sent(String),
    /// Stored without this field, or not used.
    Lacks(String),
}

/// All cases.
///
/// # Errors
/// A line that says nothing known.
pub(super) fn cases() -> Result<Vec<CacheCase>> {
    let mut cases: Vec<CacheCase> = Vec::new();
    let mut wait = Duration::ZERO;
    for (number, line) in TEXT.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("cases.txt:{}: {line}", number + 1);
        if let Some(head) = line.strip_prefix('[') {
            cases.push(beginning(head).with_context(place)?);
            continue;
        }
        let case = cases.last_mut().with_context(place)?;
        let (word, rest) = line.split_once(' ').with_context(place)?;
        match word {
            "wait" => wait = Duration::from_secs(rest.parse().with_context(place)?),
            "ask" => {
                let mut step = request(rest);
                step.wait = std::mem::take(&mut wait);
                case.steps.push(step);
            }
            "origin" => {
                last(case).with_context(place)?.answer = answer(rest).with_context(place)?
            }
            "expect" => {
                let expected = expected(rest).with_context(place)?;
                last(case).with_context(place)?.expected.push(expected);
            }
            _ => bail!(place()),
        }
    }
    Ok(cases)
}

fn last(case: &mut CacheCase) -> Option<&mut CacheStep> {
    case.steps.last_mut()
}

fn beginning(head: &str) -> Result<CacheCase> {
    let (label, claim) = head.split_once("] ").context("no end of the label")?;
    let levels = ["MUST NOT", "MUST", "SHOULD", "MAY"];
    let level = levels.into_iter().find(|level| label.ends_with(level));
    let level = level.context("no level")?;
    Ok(CacheCase {
        section: label[..label.len() - level.len()].trim().to_owned(),
        level: level.to_owned(),
        claim: claim.to_owned(),
        steps: Vec::new(),
    })
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(" | ").map(str::trim)
}

fn request(text: &str) -> CacheStep {
    let mut parts = parts(text);
    let line = parts.next().unwrap_or_default();
    let (method, path) = line.split_once(' ').unwrap_or((line, "/"));
    CacheStep {
        method: method.to_owned(),
        path: path.to_owned(),
        fields: parts.map(str::to_owned).collect(),
        answer: OriginAnswer {
            status: Some(200),
            fields: vec!["Cache-Control: no-store".to_owned()],
            ..OriginAnswer::default()
        },
        ..CacheStep::default()
    }
}

fn answer(text: &str) -> Result<OriginAnswer> {
    let mut answer = OriginAnswer::default();
    for (at, part) in parts(text).enumerate() {
        match (at, part) {
            (0, "close") => {}
            (0, status) => answer.status = Some(status.parse()?),
            (_, "!cut") => answer.is_cut = true,
            (_, part) => match part.strip_prefix('=') {
                Some(content) => answer.content = Some(content.to_owned()),
                None => answer.fields.push(part.to_owned()),
            },
        }
    }
    Ok(answer)
}

fn expected(text: &str) -> Result<Expected> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.to_owned();
    Ok(match word {
        "asked" => Expected::Asked,
        "stored" => Expected::Stored,
        "validated" => Expected::Validated,
        "status" => Expected::Status(rest.trim_end_matches('x').to_owned()),
        "field" => Expected::Field(rest),
        "content" => Expected::Content(rest),
        "sent" => Expected::Sent(rest),
        "lacks" => Expected::Lacks(rest),
        "is" => {
            let (name, values) = rest.split_once(": ").context("no value")?;
            let values = match name {
                "Age" => values.split(' ').map(str::to_owned).collect(),
                _ => vec![values.to_owned()],
            };
            Expected::Is(name.to_owned(), values)
        }
        _ => bail!("nothing that can be expected"),
    })
}

/// A text with the dates and the URL that it names.
pub(super) fn filled(text: &str, here: &str) -> String {
    let text = text.replace("{here}", here);
    let Some((before, rest)) = text.split_once('{') else {
        return text;
    };
    let Some((offset, after)) = rest.split_once('}') else {
        return text;
    };
    let offset: i64 = offset.parse().unwrap_or(0);
    let moved = Duration::from_secs(offset.unsigned_abs());
    let now = SystemTime::now();
    let then = if offset < 0 { now - moved } else { now + moved };
    format!("{before}{}{after}", httpdate::fmt_http_date(then))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_asks_and_expects_something() {
        let cases = cases().unwrap();
        assert!(cases.len() > 70);
        for case in &cases {
            let expects = case.steps.iter().any(|step| !step.expected.is_empty());
            assert!(expects && !case.section.is_empty(), "{case:?}");
        }
        let dated = filled("If-Modified-Since: {-60}", "");
        assert!(dated.ends_with("GMT") && !dated.contains('{'), "{dated}");
    }
}
