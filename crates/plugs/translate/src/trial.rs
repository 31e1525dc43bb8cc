//! The tests in a mapping's file: a request of an old client, and an answer of the new server, as both sides see them.

use std::sync::Arc;

use hermes_config::element;
use hermes_proto::fields::Fields;
use hermes_proto::head::{RequestHead, ResponseHead};
use hermes_proto::path;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, StatusCode, Version};
use indexmap::IndexMap;

use crate::content::ContentPlan;
use crate::json::{Json, ScanBounds};
use crate::mapping::file::{MessageSpec, TestSpec};
use crate::mapping::{Mapping, Translation, parse_ask};
use crate::template::Scope;
use crate::unfit::Unfit;

/// Bounds of the texts of a test.
const BOUNDS: ScanBounds = ScanBounds {
    depth: 64,
    string: 1 << 20,
};

/// A test that ran.
pub struct Trial {
    /// Its claim.
    pub name: String,
    /// The line where it stands.
    pub line: usize,
    /// The difference from the expected message.
    pub failed: Option<String>,
}

/// Runs the tests of a mapping.
pub fn run_trials(mapping: &Mapping) -> Vec<Trial> {
    let tests = mapping.tests.iter().enumerate();
    let trials = tests.map(|(index, test)| Trial {
        name: test.name.clone(),
        line: mapping.line(&element("tests", index)),
        failed: run(mapping, test).err(),
    });
    trials.collect()
}

fn run(mapping: &Mapping, test: &TestSpec) -> Result<(), String> {
    let head = request_head(&test.request)?;
    let content = test.request.content.clone();
    let translated = mapping.request(&head);
    let translated = translated.and_then(|translation| {
        let sent = match (&translation, content) {
            (Some(translation), content) => {
                translate(translation.content.as_ref(), &translation.scope, content)?
            }
            (None, content) => content,
        };
        Ok((translation, sent))
    });
    let (translation, sent) = match translated {
        Ok(translated) => translated,
        Err(unfit) => return refused(test, &unfit),
    };
    let new = translation
        .as_ref()
        .map_or(&head, |translation| &translation.head);
    if let Some(sends) = &test.sends {
        compare_ask(sends, new)?;
        compare(sends, &new.fields, sent.as_deref()).map_err(|wrong| format!("sends: {wrong}"))?;
    }
    let Some(answer) = &test.answer else {
        return match test.gets {
            Some(_) => Err("the request is not refused, and the test has no `answer`".to_owned()),
            None => Ok(()),
        };
    };
    answered(mapping, translation.as_ref(), test, answer)
}

/// The way back.
fn answered(
    mapping: &Mapping,
    translation: Option<&Translation>,
    test: &TestSpec,
    answer: &MessageSpec,
) -> Result<(), String> {
    let status = StatusCode::from_u16(answer.status.unwrap_or(200));
    let mut head = ResponseHead::new(status.map_err(|_| "`answer.status` is none".to_owned())?);
    head.fields = fields(&answer.fields, answer.content.as_deref())?;
    let content = answer.content.clone();
    let got = match translation {
        None => Ok(content),
        Some(translation) => {
            mapping.lead_back(translation, &mut head.fields);
            mapping
                .answer(translation, &mut head)
                .and_then(|plan| translate(plan.as_ref(), &translation.scope, content))
        }
    };
    let content = match got {
        Ok(content) => content,
        Err(unfit) => return refused(test, &unfit.of_answer()),
    };
    let Some(gets) = &test.gets else {
        return Ok(());
    };
    let status = head.status.as_u16();
    if gets.status.is_some_and(|wanted| wanted != status) {
        return Err(format!("gets: the status is {status}"));
    }
    compare(gets, &head.fields, content.as_deref()).map_err(|wrong| format!("gets: {wrong}"))
}

fn refused(test: &TestSpec, unfit: &Unfit) -> Result<(), String> {
    let status = unfit.status.as_u16();
    let told = format!("it is refused with {status}: {}", unfit.reason);
    let wanted = test.gets.as_ref().ok_or_else(|| told.clone())?;
    // A refusal is expected by its status, never by accident.
    let is_status = wanted.status == Some(status);
    let is_reason = wanted
        .reason
        .as_ref()
        .is_none_or(|part| unfit.reason.contains(part));
    match is_status && is_reason {
        true => Ok(()),
        false => Err(told),
    }
}

fn request_head(spec: &MessageSpec) -> Result<RequestHead, String> {
    let ask = spec.ask.as_deref().ok_or("`request` has no `ask`")?;
    let (method, path) = parse_ask(ask)?;
    let path = PathAndQuery::try_from(path).map_err(|_| format!("`{path}` is no path"))?;
    Ok(RequestHead {
        method,
        scheme: Some(Scheme::HTTP),
        authority: Some(Authority::from_static("origin.example")),
        path: Some(path::check(path).map_err(|wrong| wrong.to_string())?),
        protocol: None,
        fields: fields(&spec.fields, spec.content.as_deref())?,
        version: Version::HTTP_11,
        origin_form: false,
    })
}

fn fields(spec: &IndexMap<String, String>, content: Option<&str>) -> Result<Fields, String> {
    let mut fields = Fields::new();
    for (name, value) in spec {
        let parsed: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not the name of a field"))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("`{name}` has bytes that a field may not have"))?;
        fields.append(&parsed, value);
    }
    // Tests are about JSON, unless they say otherwise.
    if content.is_some() && !fields.contains_key("content-type") {
        fields.insert("content-type", HeaderValue::from_static("application/json"));
    }
    Ok(fields)
}

fn translate(
    plan: Option<&Arc<ContentPlan>>,
    scope: &Arc<Scope>,
    content: Option<String>,
) -> Result<Option<String>, Unfit> {
    let Some(plan) = plan else {
        return Ok(content);
    };
    // As the handler does: a message without a content stays one.
    if content.is_none() && !plan.makes() {
        return Ok(None);
    }
    let mut translator = plan.begin(scope);
    let mut out = Vec::new();
    translator.push(content.unwrap_or_default().as_bytes(), &mut out)?;
    translator.finish(&mut out)?;
    Ok(Some(String::from_utf8_lossy(&out).into_owned()))
}

fn compare_ask(wanted: &MessageSpec, head: &RequestHead) -> Result<(), String> {
    let path = head.path.as_ref().map_or("", PathAndQuery::as_str);
    let ask = format!("{} {path}", head.method);
    match &wanted.ask {
        Some(wanted) if *wanted != ask => Err(format!("sends: it is `{ask}`, not `{wanted}`")),
        _ => Ok(()),
    }
}

/// Compares a message with the expected one.
fn compare(wanted: &MessageSpec, fields: &Fields, content: Option<&str>) -> Result<(), String> {
    for (name, value) in &wanted.fields {
        let parsed: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not the name of a field"))?;
        let lines: Vec<_> = fields
            .values(&parsed)
            .filter_map(|line| line.to_str().ok())
            .collect();
        let told = lines.join(", ");
        if told != *value {
            return Err(format!("`{name}` is `{told}`, not `{value}`"));
        }
    }
    let Some(text) = &wanted.content else {
        return Ok(());
    };
    let content = content.unwrap_or_default();
    let read = |text: &str| Json::parse(text.as_bytes(), BOUNDS).ok();
    let is_equal = match (read(text), read(content)) {
        (Some(wanted), Some(got)) => wanted == got,
        _ => text.trim_end() == content.trim_end(),
    };
    match is_equal {
        true => Ok(()),
        false => Err(format!("the content is {content}")),
    }
}
