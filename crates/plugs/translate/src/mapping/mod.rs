//! A mapping: an old interface, and how a new one serves it.

mod ask;
mod destination;
mod field_changes;
pub(crate) mod file;
mod read;
mod read_parts;
mod spoken;
mod tagged;
mod way_back;

use std::sync::Arc;

use hermes_proto::fields::Fields;
use hermes_proto::head::{RequestHead, ResponseHead};
use http::{Method, StatusCode};

use crate::change::Changes;
use crate::content::ContentPlan;
use crate::json::Json;
use crate::pairs;
use crate::template::Scope;
use crate::unfit::Unfit;

pub(crate) use ask::{AskPattern, parse_ask};
use destination::Destination;
use field_changes::FieldChanges;
use file::{Choice, TestSpec};
use hermes_config::Places;
pub(crate) use read::FILE;
pub use read::mapping_schema;
use spoken::Spoken;
use way_back::{AnswerUris, WayBack};

/// How an old interface is served by a new one.
pub struct Mapping {
    /// Of its text: entity tags of translated contents have it.
    digest: String,
    spoken: Vec<Spoken>,
    otherwise: Choice,
    unfit: Choice,
    fields: FieldChanges,
    operations: Vec<Operation>,
    answers: Vec<AnswerRule>,
    pub(crate) tests: Vec<TestSpec>,
    places: Places,
}

/// An operation of the old interface.
struct Operation {
    from: AskPattern,
    to: Destination,
    /// From paths of `to` to those of `from`, where they tell them.
    back: Option<WayBack>,
    query: Changes,
    fields: FieldChanges,
    content: Option<Arc<ContentPlan>>,
    answers: Vec<AnswerRule>,
}

/// Answers of the new interface, and their translation.
struct AnswerRule {
    from: StatusPattern,
    status: Option<StatusCode>,
    fields: FieldChanges,
    content: Option<Arc<ContentPlan>>,
}

/// Statuses of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatusPattern {
    /// One.
    One(u16),
    /// All of a hundred.
    Class(u16),
    /// All.
    Any,
}

impl StatusPattern {
    fn matches(self, status: StatusCode) -> bool {
        match self {
            Self::One(one) => status.as_u16() == one,
            Self::Class(class) => status.as_u16() / 100 == class,
            Self::Any => true,
        }
    }
}

/// A request that is translated.
pub(crate) struct Translation {
    /// The request of the new interface.
    pub(crate) head: RequestHead,
    /// The translation of its content.
    pub(crate) content: Option<Arc<ContentPlan>>,
    /// Values of its variables.
    pub(crate) scope: Arc<Scope>,
    operation: usize,
}

impl Mapping {
    /// The request of the new interface for one of the old; `None` if it passes as it is.
    ///
    /// # Errors
    /// It cannot be translated.
    pub(crate) fn request(&self, head: &RequestHead) -> Result<Option<Translation>, Unfit> {
        // Not even its path is changed: what follows in such a stream would be of the old interface still.
        if is_stream(&head.fields) || !self.is_spoken(head) {
            return Ok(None);
        }
        let Some((operation, mut scope)) = self.operation(head) else {
            let method = &head.method;
            let reason = format!(
                "no operation of the old interface is {method} {}",
                head.path()
            );
            return match self.otherwise {
                Choice::Pass => Ok(None),
                Choice::Refuse => Err(Unfit::new(StatusCode::NOT_FOUND, reason)),
            };
        };
        let rules = &self.operations[operation];
        let passes_unfit = self.unfit == Choice::Pass;
        if let Some(content) = &rules.content
            && let Err(unfit) = content.from.fits(&head.fields)
        {
            return if passes_unfit { Ok(None) } else { Err(unfit) };
        }

        let query = head
            .path
            .as_ref()
            .and_then(|path| path.query())
            .unwrap_or("");
        let asked = self.variables(operation, query, &head.fields, &mut scope)?;
        let query = match rules.query.is_empty() {
            true => query.to_owned(),
            false => changed_query(&rules.query, asked, &scope)?,
        };
        let path = rules.to.path(&scope, &query)?;
        let mut new = head.clone();
        // HEAD of an operation of GET stays HEAD: the new server need not make the content.
        if head.method != Method::HEAD {
            new.method = rules.to.method.clone();
        }
        new.path = Some(path);
        self.change_fields(rules, &mut new.fields, &scope)?;
        Ok(Some(Translation {
            head: new,
            content: rules.content.clone(),
            scope: Arc::new(scope),
            operation,
        }))
    }

    /// Leads `Location`, `Content-Location` and `Link` of an answer back to paths of the old interface; gives the number of URIs of the same server
    /// that stay as they are.
    pub(crate) fn lead_back(&self, translation: &Translation, fields: &mut Fields) -> u64 {
        AnswerUris::new(&self.operations, &translation.head).lead_back(fields)
    }

    /// The answer of the old interface for one of the new; gives the translation of its content.
    ///
    /// # Errors
    /// It cannot be translated, and is refused.
    pub(crate) fn answer(
        &self,
        translation: &Translation,
        head: &mut ResponseHead,
    ) -> Result<Option<Arc<ContentPlan>>, Unfit> {
        self.vary(&mut head.fields);
        let own = &self.operations[translation.operation].answers;
        let mut rules = own.iter().chain(&self.answers);
        let Some(rule) = rules.find(|rule| rule.from.matches(head.status)) else {
            return Ok(None);
        };
        if is_stream(&head.fields) {
            return Ok(None);
        }

        let is_content = !matches!(head.status.as_u16(), 204 | 304);
        let content = rule.content.clone().filter(|_| is_content);
        if let Some(content) = &content {
            let fits = match head.status {
                StatusCode::PARTIAL_CONTENT => {
                    Err(Unfit::content("a part of it cannot be translated"))
                }
                _ => content.from.fits(&head.fields),
            };
            // The error of a gateway on the way is no answer of the new interface.
            let is_failure = head.status.is_client_error() || head.status.is_server_error();
            match fits {
                Ok(()) => {}
                Err(_) if is_failure || self.unfit == Choice::Pass => return Ok(None),
                Err(unfit) => return Err(unfit),
            }
        }

        if let Some(status) = rule.status {
            head.status = status;
        }
        // Of 304 and of answers to HEAD, too: they speak of the content that was translated.
        if rule.content.is_some() {
            tagged::tag(&mut head.fields, &self.digest);
        }
        if let Some(content) = &content {
            content.describe(&mut head.fields);
        }
        rule.fields.apply(&mut head.fields, &translation.scope)?;
        Ok(content)
    }

    /// RFC 9110, section 12.5.5: answers depend on the fields by which the old interface is known.
    pub(crate) fn vary(&self, fields: &mut Fields) {
        for name in self.spoken.iter().flat_map(Spoken::fields) {
            let is_there = fields.values("vary").any(|line| {
                let line = line.to_str().unwrap_or_default();
                let mut names = line.split(',').map(str::trim);
                names.any(|one| one == "*" || one.eq_ignore_ascii_case(name))
            });
            if !is_there && let Ok(name) = http::HeaderValue::from_str(name) {
                fields.append("vary", name);
            }
        }
    }

    /// The line of a part of its file.
    pub(crate) fn line(&self, path: &str) -> usize {
        self.places.locate(path).map_or(1, |place| place.line)
    }

    fn is_spoken(&self, head: &RequestHead) -> bool {
        self.spoken.is_empty() || self.spoken.iter().any(|mark| mark.is_in(head))
    }

    fn operation(&self, head: &RequestHead) -> Option<(usize, Scope)> {
        let mut operations = self.operations.iter().enumerate();
        operations.find_map(|(index, operation)| {
            let scope = operation.from.matches(&head.method, head.path())?;
            Some((index, scope))
        })
    }

    /// Puts the variables of the query and of fields into the scope, those that a template has; gives the query, if that was read.
    fn variables(
        &self,
        operation: usize,
        query: &str,
        fields: &Fields,
        scope: &mut Scope,
    ) -> Result<Option<Json>, Unfit> {
        let rules = &self.operations[operation];
        let read = pairs::parse(query);
        let Ok(Json::Map(members)) = &read else {
            // A query that no one needs goes on as it is.
            let is_needed = !rules.query.is_empty() || rules.to.has_query_variable();
            return match read {
                Err(reason) if is_needed => {
                    let reason = format!("its query: {reason}");
                    Err(Unfit::new(StatusCode::BAD_REQUEST, reason))
                }
                _ => Ok(None),
            };
        };
        for (name, value) in members.iter() {
            if let Some(plain) = value.plain() {
                scope.insert(format!("query.{name}"), plain.to_owned());
            }
        }
        for (name, value) in fields.iter() {
            if let Ok(text) = value.to_str() {
                scope
                    .entry(format!("field.{name}"))
                    .or_insert_with(|| text.to_owned());
            }
        }
        read.map(Some).map_err(Unfit::content)
    }

    fn change_fields(
        &self,
        operation: &Operation,
        fields: &mut Fields,
        scope: &Scope,
    ) -> Result<(), Unfit> {
        let mut answers = operation.answers.iter().chain(&self.answers);
        if answers.any(|answer| answer.content.is_some()) {
            // Neither a part nor a compressed content could be translated.
            fields.insert(
                "accept-encoding",
                http::HeaderValue::from_static("identity"),
            );
            fields.remove("range");
            fields.remove("if-range");
            tagged::untag(fields, &self.digest);
        }
        if let Some(content) = &operation.content {
            content.describe(fields);
        }
        operation.fields.apply(fields, scope)?;
        self.fields.apply(fields, scope)
    }
}

fn changed_query(changes: &Changes, asked: Option<Json>, scope: &Scope) -> Result<String, Unfit> {
    let mut asked = asked.unwrap_or_else(Json::map);
    let wrong = |reason: String| {
        let reason = format!("its query: {reason}");
        Unfit::new(StatusCode::BAD_REQUEST, reason)
    };
    changes.apply(&mut asked, scope).map_err(wrong)?;
    pairs::format(&asked).map_err(wrong)
}

/// gRPC and server-sent events: they are conversations, not documents.
fn is_stream(fields: &Fields) -> bool {
    let kind = fields.get("content-type");
    let kind = kind.and_then(|kind| kind.to_str().ok().map(str::to_ascii_lowercase));
    kind.is_some_and(|kind| {
        kind.starts_with("application/grpc") || kind.starts_with("text/event-stream")
    })
}

#[cfg(test)]
mod tests;
