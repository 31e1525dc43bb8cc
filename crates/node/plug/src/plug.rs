//! A plug as a whole, beside its work for single exchanges: settings for the node, a lifecycle, status and metrics.

use std::sync::Arc;

use hermes_config::Problem;
use hermes_config::model::{Document, PlugSettings};
use hermes_net::Watch;
use hermes_observe::GaugeFamily;
use hermes_observe::admin::AdminRefusal;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::agreement::Agreement;
use crate::neighbour::NeighbourView;
use crate::settings::{located, read};

/// The whole of a plug, whatever its kinds: one that is a handler and an ingress has one of these, and one that has no settings, no
/// work of its own and nothing to tell has none. It is registered by [`Plugs::plug`](crate::Plugs::plug), under the name that
/// `plugs: { NAME: {..} }` has.
///
/// Its life: [`start`](Self::start), once; each document is [prepared](Self::prepare), and the change that came of it applied if the
/// document is put in force, at the start and on each reload; when the node drains, [`Background::stopping`] resolves, and the
/// drain waits for its tasks.
///
/// All of it runs outside the workers. No method may block, except that [`prepare`](Self::prepare) may read files.
pub trait Plug: Send + Sync {
    /// The JSON Schema of its settings, by [`settings_schema`](hermes_config::settings_schema). `None`: it takes none.
    fn schema(&self) -> Option<Value> {
        None
    }

    /// Reads a document: its mistakes, or the change that puts it in force. All that can fail is to fail here; nothing is to
    /// change before the change is applied, which it may never be.
    ///
    /// # Errors
    /// All that is wrong, with paths in the document ([`DocumentSettings::problem`]).
    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let _ = settings;
        Ok(Change::none())
    }

    /// The node runs, and its first document is about to be put in force.
    fn start(&self, background: &Background) {
        let _ = background;
    }

    /// Its part of `hermes status`. Null: none.
    fn status(&self) -> Value {
        Value::Null
    }

    /// The neighbours to which it carries requests: `hermes status` shows them under the name of the plug, and the states of upstreams
    /// with their names.
    fn neighbours(&self) -> Vec<NeighbourView> {
        Vec::new()
    }

    /// Answers a question of the administrator, or does as told: `POST /plugs/NAME` at the admin socket, with this JSON. It runs on a
    /// thread that may block.
    ///
    /// # Errors
    /// It takes no questions, or not this one.
    fn ask(&self, question: &Value) -> Result<Value, AdminRefusal> {
        let _ = question;
        Err(AdminRefusal::other(
            "this part of the node takes no questions",
        ))
    }

    /// Its metrics. Their names begin with `hermes_NAME_`.
    fn metrics(&self) -> Vec<GaugeFamily> {
        Vec::new()
    }
}

/// The settings of a plug as a whole, as a document has them.
pub struct DocumentSettings<'a> {
    /// The document.
    pub document: &'a Document,
    /// The value under the name of the plug; `None` without one.
    pub settings: Option<&'a PlugSettings>,
    /// The path where that stands, or would.
    pub path: String,
    /// Whether the document is only checked: then the plug makes no file, and takes no port or lock.
    pub is_check: bool,
}

impl DocumentSettings<'_> {
    /// The settings as this type; `None` without any.
    ///
    /// # Errors
    /// The mistakes in their form.
    pub fn read<S: DeserializeOwned>(&self) -> Result<Option<S>, Problem> {
        let settings = self.settings.map(read).transpose();
        settings.map_err(|wrong| located(&self.path, wrong))
    }

    /// A mistake in the settings at this path, such as `neighbours.a.key`.
    pub fn problem(&self, path: &str, reason: impl Into<String>, remedy: &str) -> Problem {
        located(&self.path, Problem::new(path, reason).remedy(remedy))
    }
}

/// By which a document that was prepared is put in force.
#[derive(Default)]
pub struct Change {
    apply: Option<Box<dyn FnOnce() + Send>>,
    needs_restart: Vec<String>,
}

impl Change {
    /// Nothing is to be done.
    pub fn none() -> Self {
        Self::default()
    }

    /// This is to be done, and cannot fail.
    pub fn new(apply: impl FnOnce() + Send + 'static) -> Self {
        Self {
            apply: Some(Box::new(apply)),
            needs_restart: Vec::new(),
        }
    }

    /// Keys, by their paths, that changed and are in force only after a restart.
    #[must_use]
    pub fn needs_restart(mut self, keys: Vec<String>) -> Self {
        self.needs_restart = keys;
        self
    }

    /// Does it; says which keys need a restart.
    pub(crate) fn apply(self) -> Vec<String> {
        if let Some(apply) = self.apply {
            apply();
        }
        self.needs_restart
    }

    /// Which keys need a restart.
    pub(crate) fn restarts(&self) -> &[String] {
        &self.needs_restart
    }
}

/// Where a plug works beside the exchanges: on the runtime of administration, never on a worker.
#[derive(Clone)]
pub struct Background {
    runtime: Handle,
    watch: Watch,
    agreement: Option<Arc<dyn Agreement>>,
}

impl Background {
    /// On the runtime of the caller, until `watch` drains; the node agrees with others there.
    pub fn new(watch: Watch, agreement: Option<Arc<dyn Agreement>>) -> Self {
        Self {
            runtime: Handle::current(),
            watch,
            agreement,
        }
    }

    /// Runs a task. It should end soon after [`stopping`](Self::stopping): the drain waits for it, and then cuts it off.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let _entered = self.runtime.enter();
        let watch = self.watch.clone();
        self.watch.spawn(async move {
            tokio::select! {
                () = task => {}
                () = watch.forced() => {}
            }
        });
    }

    /// Resolves when the node drains.
    pub async fn stopping(&self) {
        self.watch.graceful().await;
    }

    /// Where the node agrees with others; `None` without a controller.
    pub fn agreement(&self) -> Option<&Arc<dyn Agreement>> {
        self.agreement.as_ref()
    }

    /// The drain itself.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }
}
