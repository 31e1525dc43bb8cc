//! The requests of operators on this machine, in JSON.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_api::{Name, Operation, Revision};
use hermes_config::Problem;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::controller::Controller;
use super::fleet;
use super::outcome::{Changed, How, NotChanged};
use crate::authority::{Revoked, TokenRequest};
use crate::resources::{
    self, Exposure, Finding, Findings, Key, Kind, Origin, Resource, Source, Tree,
};

/// Bytes of the largest request: an overlay of a hundred thousand resources.
#[doc(alias = "bound")]
pub(super) const REQUEST: usize = 64 * 1024 * 1024;

/// The request that waits for the end of a change.
pub(super) const OUTCOME: &str = "/outcome";

/// Resources as files say them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The files, in their order.
    pub files: Vec<File>,
    /// The texts of files that secrets name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<Key, String>,
    /// The set that the files are: its resources that they do not name are removed.
    #[serde(default)]
    pub set: Option<Name>,
    /// How.
    #[serde(default)]
    pub how: How,
}

/// A file of resources.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// What mistakes call it.
    pub name: String,
    /// YAML, of one or several documents.
    pub text: String,
}

/// Resources to remove.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// Their keys, such as `Name/default/VIDEO`.
    pub keys: Vec<Key>,
    /// How.
    #[serde(default)]
    pub how: How,
}

/// A server that users of the overlay may reach by a name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expose {
    /// The name.
    pub name: String,
    /// The server as its node reaches it, such as `127.0.0.1:8000`.
    pub address: String,
    /// The node beside it.
    pub node: Name,
    /// Users who may reach it.
    pub to: Vec<String>,
    /// How.
    #[serde(default)]
    pub how: How,
}

/// An earlier state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// Its revision. Default: the one before.
    #[serde(default)]
    pub to: Option<Revision>,
    /// How.
    #[serde(default)]
    pub how: How,
}

/// A node as operators see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// The user of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether it attends.
    pub attends: bool,
    /// Unix seconds at which it came or left; 0 if it has not come since the controller started.
    pub since: u64,
    /// The revision of its last word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// `in step`, `waits` for its turn in a change, `stored`, `unconfirmed`, `returned` or `refused`; `unknown` without a word.
    pub state: String,
    /// Why it refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The change in its words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub report: String,
    /// Of its program.
    pub version: String,
    /// SHA-256 of its program.
    pub binary: String,
    /// Unix seconds at which its certificate ends.
    pub expires: u64,
}

/// An answer other than 200.
pub(super) struct Failed {
    status: StatusCode,
    reason: String,
    findings: Findings,
    /// The change that has to end first.
    spreads: Option<Revision>,
}

impl Failed {
    pub(super) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            findings: Findings::default(),
            spreads: None,
        }
    }
}

impl From<NotChanged> for Failed {
    fn from(error: NotChanged) -> Self {
        let reason = error.to_string();
        match error {
            NotChanged::Invalid(findings) => Self {
                findings,
                ..Self::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "the resources are not valid",
                )
            },
            NotChanged::Conflict(_) => Self::new(StatusCode::CONFLICT, reason),
            NotChanged::Spreads(revision) => Self {
                spreads: Some(revision),
                ..Self::new(StatusCode::CONFLICT, reason)
            },
            NotChanged::Guarded(_) => Self::new(StatusCode::PRECONDITION_REQUIRED, reason),
            NotChanged::Store(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason),
        }
    }
}

/// The answer to a request.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    /// JSON.
    pub(super) value: Value,
}

impl From<Result<Value, Failed>> for Answered {
    fn from(answered: Result<Value, Failed>) -> Self {
        match answered {
            Ok(value) => Self {
                status: StatusCode::OK,
                value,
            },
            Err(failed) => Self {
                status: failed.status,
                value: json!({
                    "error": failed.reason,
                    "problems": failed.findings,
                    "spreads": failed.spreads,
                }),
            },
        }
    }
}

/// Requests that every controller answers by itself, from the store. The others are the leader's.
fn is_any_ones(operation: &Operation) -> bool {
    const OF_ALL: [&str; 11] = [
        "/about",
        "/resources",
        "/names",
        "/history",
        "/audit",
        "/backup",
        "/tokens",
        "/tokens/delete",
        "/certs",
        "/diff",
        "/why",
    ];
    OF_ALL.contains(&operation.path.as_str())
}

pub(super) async fn dispatch(controller: Arc<Controller>, operation: Operation) -> Answered {
    if !is_any_ones(&operation)
        && let Some(answered) = controller.passed_on(&operation).await
    {
        return answered;
    }
    operate(controller, operation).await.into()
}

/// Answers a request that another controller passes on.
pub(super) async fn operate_as_leader(
    controller: Arc<Controller>,
    operation: Operation,
) -> Answered {
    if !controller.leads() {
        let reason = "this controller does not lead";
        return Err(Failed::new(StatusCode::MISDIRECTED_REQUEST, reason)).into();
    }
    // It would write a file on another machine than the operator's.
    if operation.path == "/backup" {
        return Err(Failed::new(StatusCode::NOT_FOUND, "no such request")).into();
    }
    operate(controller, operation).await.into()
}

async fn operate(controller: Arc<Controller>, operation: Operation) -> Result<Value, Failed> {
    // A change may take long to spread: this one waits, and blocks no thread.
    if operation.path == OUTCOME {
        let revision = parsed::<Revision>(&operation.query)?;
        let outcome = controller.outcome(revision).await;
        return Ok(json!(outcome));
    }
    // The store may stand still, and compiling takes its time.
    let answered = tokio::task::spawn_blocking(move || {
        let Operation { path, .. } = &operation;
        if !controller.leads() {
            // What the leader has changed by now is among the answer.
            let unread = |error| Failed::new(StatusCode::SERVICE_UNAVAILABLE, error);
            controller.take_part().map_err(unread)?;
        }
        match operation.changes {
            false => read(&controller, path, &operation.query),
            true => write(&controller, path, &operation.body),
        }
    });
    let failed = |error: tokio::task::JoinError| {
        Failed::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    answered.await.map_err(failed)?
}

fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Failed>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| Failed::new(StatusCode::BAD_REQUEST, error.to_string()))
}

fn read(controller: &Controller, path: &str, query: &str) -> Result<Value, Failed> {
    let failed = |reason| Failed::new(StatusCode::INTERNAL_SERVER_ERROR, reason);
    match path {
        "/about" => Ok(json!(controller.about())),
        "/resources" => controller.resources(query),
        "/names" => Ok(json!(controller.names(parsed(query)?).map_err(failed)?)),
        "/history" => controller.states().map_err(failed),
        "/audit" => controller.audit().map_err(failed),
        "/nodes" => Ok(json!(controller.nodes().map_err(failed)?)),
        "/status" => Ok(json!(controller.overview().map_err(failed)?)),
        "/spreading" => Ok(json!(controller.spreading())),
        "/certs" => Ok(json!(controller.certificates().map_err(failed)?)),
        "/tokens" => Ok(json!(controller.tokens().map_err(failed)?)),
        "/peerings" => Ok(json!(controller.peerings())),
        "/peering" => {
            let to = (!query.is_empty()).then(|| parsed(query)).transpose()?;
            Ok(json!({ "yaml": controller.export_peering(to.as_ref())? }))
        }
        _ => Err(Failed::new(StatusCode::NOT_FOUND, "no such question")),
    }
}

fn write(controller: &Controller, path: &str, body: &[u8]) -> Result<Value, Failed> {
    let failed = |reason| Failed::new(StatusCode::BAD_REQUEST, reason);
    match path {
        "/apply" => controller.apply(&typed(body)?),
        "/diff" => Ok(json!(controller.compare(&typed(body)?)?)),
        "/why" => Ok(json!(controller.explain(&typed(body)?)?)),
        "/delete" => controller.delete(&typed(body)?),
        "/expose" => controller.expose(&typed(body)?),
        "/peering" => {
            let (changed, made) = controller.import_peering(&typed(body)?)?;
            Ok(json!({ "changed": changed, "resources": resources::format(&made) }))
        }
        "/rollback" => {
            let asked: RollBack = typed(body)?;
            Ok(json!(controller.roll_back(asked.to, &asked.how)?))
        }
        "/backup" => {
            let file: PathBuf = typed(body)?;
            controller.back_up(&file).map_err(failed)?;
            Ok(json!({ "file": file }))
        }
        "/update" => {
            controller.update(&typed::<Name>(body)?).map_err(failed)?;
            Ok(json!({}))
        }
        "/confirm" => Ok(json!({ "revision": controller.confirm()? })),
        "/tokens" => {
            let token = controller.create_token(&typed::<TokenRequest>(body)?);
            Ok(json!({ "token": token.map_err(failed)?.to_string() }))
        }
        "/tokens/delete" => {
            let id: String = typed(body)?;
            controller.delete_token(&id).map_err(failed)?;
            Ok(json!({}))
        }
        "/revoke" => {
            let revoked = controller.revoke(&typed::<Revoked>(body)?);
            Ok(json!({ "nodes": revoked.map_err(failed)? }))
        }
        "/forget" => {
            controller.forget(&typed::<Name>(body)?).map_err(failed)?;
            Ok(json!({}))
        }
        _ => Err(Failed::new(StatusCode::NOT_FOUND, "no such request")),
    }
}

fn typed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failed> {
    serde_json::from_slice(body)
        .map_err(|error| Failed::new(StatusCode::BAD_REQUEST, format!("the request: {error}")))
}

impl Controller {
    fn apply(&self, asked: &Apply) -> Result<Value, Failed> {
        let read = resources::read(&asked.sources()).map_err(NotChanged::Invalid)?;
        // Before anything else sees it: no tree has the text of a secret.
        let read = self.sealed(&read, &asked.secrets)?;
        let changed = self.change(&asked.how, &|tree| applied(tree, asked, &read))?;
        Ok(json!(changed))
    }

    fn delete(&self, asked: &Delete) -> Result<Value, Failed> {
        let changed = self.change(&asked.how, &|tree| {
            let mut next = tree.clone();
            let mut missing = Findings::default();
            for key in &asked.keys {
                if is_planned(key) && tree.resource(key).is_some() {
                    missing.extend([tree.finding(key, by_planner())]);
                } else if !next.remove(key) {
                    missing.extend([Finding::from(Problem::new(
                        "",
                        format!("there is no {key}"),
                    ))]);
                }
            }
            missing.or(next)
        })?;
        Ok(json!(changed))
    }

    /// Adds resources, in place of those of the same keys.
    ///
    /// # Errors
    /// See [`NotChanged`].
    pub fn add(&self, made: &[Resource], how: &How) -> Result<Changed, NotChanged> {
        self.change(how, &|tree| {
            let mut next = tree.clone();
            for resource in made {
                insert(&mut next, resource.clone(), None)?;
            }
            Ok(next)
        })
    }

    fn expose(&self, asked: &Expose) -> Result<Value, Failed> {
        let made = resources::expose(&Exposure {
            name: &asked.name,
            node: &asked.node,
            address: &asked.address,
            to: &asked.to,
        });
        let made = made.map_err(|bad| Failed::new(StatusCode::BAD_REQUEST, bad.to_string()))?;
        let changed = self.add(&made, &asked.how)?;
        Ok(json!({ "changed": changed, "resources": resources::format(&made) }))
    }

    /// Resources as YAML: all, or those whose keys begin with the text.
    fn resources(&self, begins: &str) -> Result<Value, Failed> {
        let in_force = self.in_force.lock();
        let tree: Arc<Tree> = in_force.published.tree.clone();
        let revision = in_force.published.revision;
        drop(in_force);
        let chosen = tree.resources();
        let chosen = chosen.filter(|resource| resource.key().to_string().starts_with(begins));
        Ok(json!({ "revision": revision, "yaml": resources::format(chosen) }))
    }

    /// Writes the controller's state to a new file that only this user can read.
    ///
    /// # Errors
    /// The file is there, or cannot be written.
    fn back_up(&self, path: &Path) -> Result<(), String> {
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(named)?;
        self.history
            .back_up(&mut file)
            .map_err(|error| error.to_string())?;
        file.sync_all().map_err(named)
    }

    /// The last acts, and whether all of them follow one another.
    fn audit(&self) -> Result<Value, String> {
        /// Entries that a request lists.
        const LISTED: usize = 1000;
        let audit = self.history.audit();
        let entries = audit.list(LISTED).map_err(|error| error.to_string())?;
        let broken = audit.verify().err().map(|error| error.to_string());
        Ok(json!({ "entries": entries, "broken": broken }))
    }

    fn states(&self) -> Result<Value, String> {
        /// States that a request lists.
        const LISTED: usize = 100;
        let listed = self.history.list(LISTED);
        Ok(json!(listed.map_err(|error| error.to_string())?))
    }

    /// All members, with the state of those that have attended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn nodes(&self) -> Result<Vec<NodeView>, String> {
        let members = self.members()?;
        let fleet = self.fleet.lock();
        let views = members.into_iter().map(|member| {
            let record = fleet.nodes().get(&member.node);
            let mut view = view(&member.node, member.user.as_ref(), member.expires, record);
            // It has all that it should have now, and another state is to come.
            if view.state == IN_STEP && fleet.waits(&member.node) {
                view.state = "waits".to_owned();
            }
            view
        });
        Ok(views.collect())
    }
}

/// The tree after files were applied to it, as they were read. Whether its resources fit together is left to the compiler.
///
/// # Errors
/// There are too many.
pub fn applied(tree: &Tree, asked: &Apply, read: &Tree) -> Result<Tree, Findings> {
    let mut next = tree.clone();
    planned(tree, read)?;
    if let Some(set) = &asked.set {
        prune(&mut next, set, read);
    }
    let written = read.resources();
    for resource in written.filter(|resource| !is_planned(resource.key())) {
        let resource = match &asked.set {
            Some(set) => resource.labelled(SET, set.as_str()),
            None => resource.clone(),
        };
        let origin = read.origin(resource.key()).cloned();
        insert(&mut next, resource, origin)?;
    }
    Ok(next)
}

/// Whether the planner alone writes a resource.
fn is_planned(key: &Key) -> bool {
    key.kind == Kind::Placement
}

/// Files may have Placements, unchanged: `hermes get` prints it among the rest.
fn planned(tree: &Tree, read: &Tree) -> Result<(), Findings> {
    let mut findings = Findings::default();
    for resource in read.of_kind(Kind::Placement) {
        let key = resource.key();
        if tree.resource(key) != Some(resource) {
            findings.extend([read.finding(key, by_planner())]);
        }
    }
    findings.or(())
}

fn by_planner() -> Problem {
    let reason = "the planner alone writes placements: it decides them by measurements";
    let remedy =
        "leave it out, or as `hermes get` prints it; what the planner aims at is yours to say";
    Problem::new("kind", reason).remedy(remedy)
}

impl Apply {
    /// The files as the reader of resources takes them.
    pub fn sources(&self) -> Vec<Source<'_>> {
        self.files.iter().map(File::source).collect()
    }
}

/// The label of resources that were applied as a set.
const SET: &str = "set";

/// Removes the resources of a set that are not among those that were read.
fn prune(tree: &mut Tree, set: &Name, read: &Tree) {
    let of_set = tree
        .resources()
        .filter(|resource| resource.label(SET) == Some(set.as_str()));
    let keys = of_set
        .map(Resource::key)
        .filter(|key| read.resource(key).is_none());
    let keys: Vec<Key> = keys.cloned().collect();
    for key in keys {
        tree.remove(&key);
    }
}

fn insert(tree: &mut Tree, resource: Resource, origin: Option<Origin>) -> Result<(), Findings> {
    let full =
        |error: resources::TreeFull| Findings(vec![Problem::new("", error.to_string()).into()]);
    tree.insert(resource, origin).map_err(full)
}

impl File {
    fn source(&self) -> Source<'_> {
        Source {
            name: Path::new(&self.name),
            text: &self.text,
        }
    }
}

fn view(
    node: &Name,
    user: Option<&Name>,
    expires: u64,
    record: Option<&fleet::NodeRecord>,
) -> NodeView {
    let word = record.and_then(|record| record.word.as_ref());
    NodeView {
        node: node.to_string(),
        user: user.map(Name::to_string),
        attends: record.is_some_and(|record| record.session.is_some()),
        since: record.map_or(0, |record| record.since),
        revision: word.map(|word| word.revision),
        state: word
            .map_or("unknown", |word| state(word.progress))
            .to_owned(),
        reason: word.map_or_else(String::new, |word| word.mistakes.join("; ")),
        report: word.map_or_else(String::new, |word| word.report.clone()),
        version: record.map_or_else(String::new, |record| record.version.clone()),
        binary: record
            .and_then(|record| record.binary)
            .map_or_else(String::new, |binary| binary.to_string()),
        expires,
    }
}

/// The state of a node that has all that it should have.
const IN_STEP: &str = "in step";

fn state(progress: hermes_api::Progress) -> &'static str {
    use hermes_api::Progress;
    match progress {
        Progress::Confirmed => IN_STEP,
        Progress::InForce => "unconfirmed",
        Progress::Stored => "stored",
        Progress::Returned => "returned",
        Progress::Refused => "refused",
    }
}
