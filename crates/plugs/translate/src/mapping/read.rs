//! From the text of a file to a mapping, or to all of its mistakes.

use std::path::Path;
use std::sync::OnceLock;

use hermes_config::{Places, Problem, Problems, child, from_json, read_documents, schema_of};
use http::StatusCode;
use indexmap::IndexMap;
use serde_json::Value as Json;

use super::ask::AskPattern;
use super::destination::Destination;
use super::file::{AnswerSpec, MappingFile, OperationSpec, SpokenSpec};
use super::read_parts::{Parts, Variables};
use super::spoken::{FieldMark, MediaTypeParameter, Spoken};
use super::way_back::WayBack;
use super::{AnswerRule, Mapping, Operation, StatusPattern};
use crate::content::ContentBounds;

/// Bytes of a file.
#[doc(alias = "bound")]
pub(crate) const FILE: usize = 1 << 20;

/// Operations of a mapping: a request is compared with each.
#[doc(alias = "bound")]
const OPERATIONS: usize = 1_000;

/// The longest content, or element of one, where the file says nothing.
#[doc(alias = "bound")]
const BYTES: u32 = 1 << 20;

/// The most that the file may say.
#[doc(alias = "bound")]
const MOST_BYTES: u32 = 4 << 20;

/// Arrays and objects within each other, where the file says nothing.
#[doc(alias = "bound")]
const DEPTH: u32 = 32;

/// The most that the file may say.
#[doc(alias = "bound")]
const MOST_DEPTH: u32 = 64;

/// The schema of the file.
pub fn mapping_schema() -> &'static Json {
    static SCHEMA: OnceLock<Json> = OnceLock::new();
    SCHEMA.get_or_init(schema_of::<MappingFile>)
}

impl Mapping {
    /// Reads a mapping; `name` is the name of its file in mistakes.
    ///
    /// # Errors
    /// All mistakes, with file, line, reason and, where it is known, the remedy.
    pub fn read(name: &Path, text: &str) -> Result<Self, Problems> {
        let shown = name.display();
        if text.len() > FILE {
            let reason = format!("{shown} is larger than {FILE} bytes");
            let problem = Problem::new("", reason).remedy("divide it: a route may have several");
            return Err(Problems(vec![problem]));
        }
        let read = read_documents(name, text);
        if !read.problems.is_empty() {
            return Err(Problems(read.problems));
        }
        let [document] = read.documents.as_slice() else {
            let documents = read.documents.len();
            let reason = format!("{shown}: a mapping is one document, this has {documents}");
            let problem = Problem::new("", reason).remedy("begin with `version: 1`");
            return Err(Problems(vec![problem]));
        };
        // The form first: the meaning of a file with unknown keys would be a guess.
        let json = document.check(mapping_schema()).map_err(Problems)?;
        let places = document.places();
        let placed = |problem: Problem| places.placed(problem);
        let file = from_json::<MappingFile>(&json);
        let file = file.map_err(|problem| Problems(vec![placed(problem)]))?;
        compile(file, digest(text), places.clone()).map_err(|problems| {
            let problems = problems.into_iter().map(placed);
            Problems(problems.collect())
        })
    }
}

/// Eight digits for a text: its mapping changes with it.
fn digest(text: &str) -> String {
    // FNV-1a: no secret depends on it.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

fn compile(file: MappingFile, digest: String, places: Places) -> Result<Mapping, Vec<Problem>> {
    let mut reading = Reading {
        problems: Vec::new(),
        bounds: ContentBounds {
            bytes: file.bytes.unwrap_or(BYTES) as usize,
            depth: file.depth.unwrap_or(DEPTH) as usize,
        },
    };
    let known = [
        ("bytes", file.bytes.unwrap_or(BYTES), MOST_BYTES),
        ("depth", file.depth.unwrap_or(DEPTH), MOST_DEPTH),
    ];
    for (key, value, most) in known {
        if value == 0 || value > most {
            let remedy = format!("write a number from 1 to {most}");
            reading.wrong(key, format!("{value} is not possible"), &remedy);
        }
    }
    let count = file.operations.len();
    if count == 0 || count > OPERATIONS {
        let reason = format!("there are {count} operations");
        reading.wrong("operations", reason, &format!("write 1 to {OPERATIONS}"));
    }

    let spoken = file.spoken.iter().enumerate();
    let spoken = spoken.map(|(index, spec)| {
        let path = hermes_config::element("spoken", index);
        reading.spoken(&path, spec)
    });
    let spoken = spoken.collect();
    // Answers to all operations know no path, and so none of its variables.
    let shared = Variables::default();
    let operations: Vec<_> = file
        .operations
        .iter()
        .filter_map(|(name, spec)| reading.operation(&child("operations", name), spec))
        .collect();
    let answers = reading.answers("answers", &file.answers, &shared);
    let fields = reading.parts("fields", &shared).fields(&file.fields);
    match reading.problems.is_empty() {
        false => Err(reading.problems),
        true => Ok(Mapping {
            digest,
            spoken,
            otherwise: file.otherwise,
            unfit: file.unfit,
            fields,
            operations,
            answers,
            tests: file.tests,
            places,
        }),
    }
}

/// A file that is being read.
struct Reading {
    problems: Vec<Problem>,
    bounds: ContentBounds,
}

impl Reading {
    fn wrong(&mut self, path: &str, reason: impl Into<String>, remedy: &str) {
        self.problems
            .push(Problem::new(path, reason).remedy(remedy));
    }

    fn parts<'r>(&'r mut self, path: &str, variables: &'r Variables) -> Parts<'r> {
        Parts {
            path: path.to_owned(),
            variables,
            bounds: self.bounds,
            problems: &mut self.problems,
        }
    }

    fn spoken(&mut self, path: &str, spec: &SpokenSpec) -> Spoken {
        let prefix = spec
            .path
            .as_ref()
            .map(|prefix| prefix.trim_end_matches('/').to_owned());
        if let Some(prefix) = prefix.as_ref().filter(|prefix| !prefix.starts_with('/')) {
            let reason = format!("`{prefix}` is no beginning of a path");
            self.wrong(&child(path, "path"), reason, "write one, such as `/v1`");
        }
        let mut fields = Vec::new();
        for (name, value) in &spec.field {
            match name.parse() {
                Ok(name) => fields.push(FieldMark {
                    name,
                    value: value.clone(),
                }),
                Err(_) => {
                    let path = child(&child(path, "field"), name);
                    self.wrong(
                        &path,
                        "no name of a field",
                        "write one, such as `api-version`",
                    );
                }
            }
        }
        let media_type = spec.media_type.as_ref().and_then(|text| {
            let parameter = text.split_once('=').filter(|(name, _)| !name.is_empty());
            if parameter.is_none() {
                let path = child(path, "media_type");
                self.wrong(
                    &path,
                    format!("`{text}` is no parameter"),
                    "write `version=1`",
                );
            }
            parameter.map(|(name, value)| MediaTypeParameter {
                name: name.to_owned(),
                value: value.to_owned(),
            })
        });
        if *spec == SpokenSpec::default() {
            self.wrong(
                path,
                "it names no mark",
                "write `path`, `field` or `media_type`",
            );
        }
        Spoken {
            path: prefix,
            fields,
            media_type,
        }
    }

    fn operation(&mut self, path: &str, spec: &OperationSpec) -> Option<Operation> {
        let remedy = "write a method and a path, as `GET /v1/users/{id}`";
        let from = AskPattern::parse(&spec.from);
        let from = from
            .map_err(|reason| self.wrong(&child(path, "from"), reason, remedy))
            .ok()?;
        let variables = Variables(from.variables().map(str::to_owned).collect());
        let several = from.several().map(str::to_owned).collect();
        let to = Destination::parse(&spec.to, several);
        let to = to
            .map_err(|reason| self.wrong(&child(path, "to"), reason, remedy))
            .ok()?;
        let unknown: Vec<_> = to.variables().filter(|name| !variables.has(name)).collect();
        if let Some(name) = unknown.first() {
            let reason = format!("`{{{name}}}` is no variable of `from`");
            self.wrong(&child(path, "to"), reason, "name one, or `{query.NAME}`");
        }

        let query = self
            .parts(&child(path, "query"), &variables)
            .query(&spec.query);
        let fields = self
            .parts(&child(path, "fields"), &variables)
            .fields(&spec.fields);
        let content = spec.content.as_ref().map(|content| {
            let mut parts = self.parts(&child(path, "content"), &variables);
            parts.content(content)
        });
        let answers = self.answers(&child(path, "answers"), &spec.answers, &variables);
        Some(Operation {
            back: WayBack::of(&spec.from, &spec.to, query.is_empty()),
            from,
            to,
            query,
            fields,
            content,
            answers,
        })
    }

    fn answers(
        &mut self,
        path: &str,
        specs: &IndexMap<String, AnswerSpec>,
        variables: &Variables,
    ) -> Vec<AnswerRule> {
        let mut rules = Vec::new();
        for (pattern, spec) in specs {
            let path = child(path, pattern);
            let Some(from) = status_pattern(pattern) else {
                let reason = format!("`{pattern}` is no status");
                self.wrong(&path, reason, "write `200`, `2xx` or `any`");
                continue;
            };
            let fields = self
                .parts(&child(&path, "fields"), variables)
                .fields(&spec.fields);
            let content = spec.content.as_ref().map(|content| {
                let mut parts = self.parts(&child(&path, "content"), variables);
                parts.content(content)
            });
            let status = spec
                .status
                .and_then(|status| StatusCode::from_u16(status).ok());
            if status.is_some_and(|status| matches!(status.as_u16(), 204 | 206 | 304)) {
                let reason = "such an answer has no content, or another one";
                self.wrong(&child(&path, "status"), reason, "write another status");
            }
            rules.push(AnswerRule {
                from,
                status,
                fields,
                content,
            });
        }
        rules
    }
}

fn status_pattern(text: &str) -> Option<StatusPattern> {
    if text == "any" {
        return Some(StatusPattern::Any);
    }
    if let Some(class) = text.strip_suffix("xx") {
        let class = class.parse().ok().filter(|class| (2..=5).contains(class));
        return class.map(StatusPattern::Class);
    }
    let one = text.parse().ok().filter(|one| (200..=599).contains(one));
    one.map(StatusPattern::One)
}
