//! The data plane as an agent changes it: started by the first statement, changed by later ones.

use std::sync::Arc;
use std::time::Duration;

use hermes_api::Statement;
use hermes_config::{DocumentForm, Loaded, Problem, Problems};
use hermes_node::change::ReloadReport;
use hermes_node::{NodeHandle, Proxy, Vitals};
use tokio::sync::Mutex;

use crate::attend::Subject;
use crate::machine::Refused;
use crate::{Membership, State};

/// Starts a node with its first document, on the run time of the caller.
pub type Start = Box<dyn FnMut(Loaded) -> Result<Proxy, Problems> + Send>;

/// A node of an overlay, which runs once it has a document.
pub struct OverlayNode {
    state: State,
    membership: Membership,
    form: DocumentForm,
    start: Start,
    proxy: SharedProxy,
    handle: Option<NodeHandle>,
    /// The statement in force would be returned from.
    unconfirmed: bool,
}

/// The node, for the part of the program that stops it; `None` until it has started.
pub type SharedProxy = Arc<Mutex<Option<Proxy>>>;

impl OverlayNode {
    /// A node that has not started. Its documents have this form.
    pub fn new(state: State, membership: Membership, form: DocumentForm, start: Start) -> Self {
        Self {
            state,
            membership,
            form,
            start,
            proxy: SharedProxy::default(),
            handle: None,
            unconfirmed: false,
        }
    }

    /// The node, for the part of the program that stops it.
    pub fn proxy(&self) -> SharedProxy {
        self.proxy.clone()
    }

    /// Starts with a statement whose parts are on the disk.
    ///
    /// # Errors
    /// The mistakes of its document.
    pub async fn begin_with(&mut self, statement: &Statement) -> Result<String, Vec<Refused>> {
        self.apply(statement, None).await
    }

    /// The document of a statement. Its disk may stand still, and must not stop the run time; a large one takes a while to read, too.
    async fn document(&mut self, statement: &Statement) -> Result<Loaded, Problems> {
        let state = self.state.clone();
        let membership = self.membership.clone();
        let form = self.form.clone();
        let statement = statement.clone();
        let read = move || state.document(&statement, &membership, &form);
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|panicked| Err(Problems(vec![Problem::new("", panicked.to_string())])))
    }

    async fn begin(&mut self, loaded: Loaded) -> Result<String, Problems> {
        let proxy = (self.start)(loaded)?;
        let report = format!("started with {} listeners", proxy.listeners().len());
        self.handle = Some(proxy.handle());
        *self.proxy.lock().await = Some(proxy);
        Ok(report)
    }

    async fn change(
        &mut self,
        handle: NodeHandle,
        loaded: Loaded,
        confirm: Option<Duration>,
    ) -> Result<String, Problems> {
        let apply = move || handle.apply(loaded, confirm);
        let applied = tokio::task::spawn_blocking(apply).await;
        // A panic of the thread is one more reason to refuse.
        let report = match applied {
            Ok(applied) => applied.map_err(|refused| refused.problems().clone())?,
            Err(error) => {
                return Err(Problems(vec![Problem::new("", error.to_string())]));
            }
        };
        self.unconfirmed = report.unconfirmed.is_some();
        Ok(summary(&report))
    }
}

impl Subject for OverlayNode {
    async fn apply(
        &mut self,
        statement: &Statement,
        confirm: Option<Duration>,
    ) -> Result<String, Vec<Refused>> {
        let loaded = self.document(statement).await.map_err(refused)?;
        let outcome = match self.handle.clone() {
            // There is no earlier document to return to, and so nothing to confirm.
            // The first document starts the data plane.
            None => self.begin(loaded).await,
            Some(handle) => self.change(handle, loaded, confirm).await,
        };
        outcome.map_err(refused)
    }

    fn vitals(&self) -> Option<Vitals> {
        self.handle.as_ref().map(NodeHandle::vitals)
    }

    async fn confirm(&mut self) {
        self.unconfirmed = false;
        let Some(handle) = self.handle.clone() else {
            return;
        };
        let confirmed = tokio::task::spawn_blocking(move || handle.confirm()).await;
        if !matches!(confirmed, Ok(Ok(_))) {
            tracing::warn!("the confirmation came too late, the node has returned");
        }
    }

    fn renewed(&mut self) {
        let Some(handle) = self.handle.clone() else {
            return;
        };
        // It may block, and its outcome is in the log.
        tokio::task::spawn_blocking(move || {
            if let Err(problems) = handle.reload() {
                tracing::error!("the renewed certificate is not in force:\n{problems}");
            }
        });
    }

    fn has_returned(&mut self) -> bool {
        let Some(handle) = self.handle.as_ref().filter(|_| self.unconfirmed) else {
            return false;
        };
        let has_returned = handle.status().process.unconfirmed.is_none();
        self.unconfirmed = !has_returned;
        has_returned
    }
}

fn refused(problems: Problems) -> Vec<Refused> {
    let problems = problems.0.into_iter();
    problems
        .map(|problem| Refused {
            path: problem.path.clone(),
            reason: match &problem.remedy {
                Some(remedy) => format!("{}; {remedy}", problem.reason),
                None => problem.reason.clone(),
            },
        })
        .collect()
}

/// A change in one line.
fn summary(report: &ReloadReport) -> String {
    let mut words = vec![format!("{} routes", report.routes)];
    if !report.upstreams_changed.is_empty() {
        words.push(format!(
            "upstreams changed: {}",
            report.upstreams_changed.join(", ")
        ));
    }
    if !report.needs_restart.is_empty() {
        words.push(format!(
            "in force after a restart: {}",
            report.needs_restart.join(", ")
        ));
    }
    words.join("; ")
}
