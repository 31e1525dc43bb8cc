//! A content that is translated as a whole.

use std::sync::Arc;

use super::{ContentForm, ContentPlan};
use crate::json::{Builder, Event, Json, Members, Scanner};
use crate::pairs;
use crate::template::Scope;
use crate::unfit::Unfit;

/// A content that is collected.
pub(crate) struct Whole {
    plan: Arc<ContentPlan>,
    scope: Arc<Scope>,
    bytes: usize,
    input: Input,
}

/// What has come of it.
enum Input {
    /// JSON is read as it comes, so that no long text is read in one go.
    Json {
        scanner: Scanner,
        builder: Builder,
        value: Option<Json>,
    },
    /// Pairs.
    Form(Vec<u8>),
    /// Nothing is taken.
    None,
}

impl Whole {
    pub(super) fn new(plan: Arc<ContentPlan>, scope: Arc<Scope>) -> Self {
        let input = match plan.from {
            ContentForm::Json => Input::Json {
                scanner: Scanner::new(plan.bounds.of_scan()),
                builder: Builder::default(),
                value: None,
            },
            ContentForm::Form => Input::Form(Vec::new()),
            ContentForm::None => Input::None,
        };
        Self {
            plan,
            scope,
            bytes: 0,
            input,
        }
    }

    pub(super) fn held(&self) -> usize {
        match &self.input {
            Input::Json {
                scanner, builder, ..
            } => scanner.kept() + builder.held(),
            // Each pair becomes a value: the shortest has two bytes.
            Input::Form(bytes) => bytes.capacity() * 2,
            Input::None => 0,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), Unfit> {
        // Counted before it is read: space costs no memory, but a text of it has to end, too.
        self.bytes += piece.len();
        let most = self.plan.bounds.bytes;
        if self.bytes > most {
            return Err(Unfit::too_long(most));
        }
        match &mut self.input {
            Input::Json {
                scanner,
                builder,
                value,
            } => {
                let pushed = scanner.push(piece, &mut |event| keep(builder, value, event));
                pushed.map_err(Unfit::content)
            }
            Input::Form(bytes) => {
                bytes.extend_from_slice(piece);
                Ok(())
            }
            Input::None => Ok(()),
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let mut value = match std::mem::replace(&mut self.input, Input::None) {
            Input::Json {
                mut scanner,
                mut builder,
                mut value,
            } => {
                let ended = scanner.finish(&mut |event| keep(&mut builder, &mut value, event));
                ended.map_err(Unfit::content)?;
                value.unwrap_or(Json::Null)
            }
            Input::Form(bytes) => {
                let text = std::str::from_utf8(&bytes);
                let text = text.map_err(|_| Unfit::content("it is not UTF-8"))?;
                pairs::parse(text).map_err(Unfit::content)?
            }
            Input::None => Json::map(),
        };

        value = taken(value, &self.plan.take)?;
        let changed = self.plan.changes.apply(&mut value, &self.scope);
        changed.map_err(Unfit::content)?;
        for name in self.plan.put.iter().rev() {
            let members = Members::from([(name.clone(), value)]);
            value = Json::Map(Box::new(members));
        }
        match self.plan.to {
            ContentForm::Json => value.write(out),
            ContentForm::Form => {
                let text = pairs::format(&value).map_err(Unfit::content)?;
                out.extend_from_slice(text.as_bytes());
            }
            ContentForm::None => {}
        }
        Ok(())
    }
}

fn keep(builder: &mut Builder, value: &mut Option<Json>, event: Event) -> Result<(), &'static str> {
    if let Some(whole) = builder.take(event)? {
        *value = Some(whole);
    }
    Ok(())
}

/// The part at these names.
fn taken(value: Json, names: &[String]) -> Result<Json, Unfit> {
    let mut value = value;
    for name in names {
        let inner = match &mut value {
            Json::Map(members) => members.shift_remove(name),
            _ => None,
        };
        value = inner.ok_or_else(|| Unfit::content(format!("it has no `{name}`")))?;
    }
    Ok(value)
}
