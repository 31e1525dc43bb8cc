//! The exchange that is decided on, and the order of the phases.

use std::sync::Arc;
use std::time::Duration;

use hermes_http::{AnswerFields, RequestHead};
use hermes_identity::AuthContext;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_rules::Facts;

use super::decision_logger::DecisionLogger;
use super::dry_run::DryRun;
use crate::entry::Entry;
use crate::filter;
use crate::filter::KnownUser;
use crate::next::CompiledRoute;

/// An exchange that is decided on.
pub struct Candidate<'a> {
    /// Where it enters, and by which rules.
    pub entry: Entry<'a>,
    /// The target that it names.
    pub target: &'a Target,
    /// Who the client is, and by which proof.
    pub auth: &'a AuthContext,
    /// Why it is decided on.
    pub mode: Mode<'a>,
}

/// Why an exchange is decided on.
pub enum Mode<'a> {
    /// It arrives.
    Arriving(DecisionLogger<'a>),
    /// A handler opens it.
    Opened(DecisionLogger<'a>),
    /// It is an open tunnel, by other rules or at another time.
    Reevaluated(DecisionLogger<'a>),
    /// It is only supposed.
    DryRun(&'a mut DryRun),
}

/// The grant of the policy and the filters, besides changes to the request and to its user.
#[derive(Default)]
pub struct Grant {
    /// How long that counts for a tunnel; `None`: until the configuration changes.
    pub lasts: Option<Duration>,
    /// The fields that filters add to the answer, an entry for each filter.
    pub answer: Vec<AnswerFields>,
    /// The position of the policy's rule that decided; `None` if none did.
    pub rule: Option<usize>,
}

impl Grant {
    /// Counts no longer than this.
    pub(super) fn at_most(&mut self, lasts: Option<Duration>) {
        self.lasts = [self.lasts, lasts].into_iter().flatten().min();
    }
}

impl<'a> Mode<'a> {
    /// The log of its decisions; `None` in a dry run.
    pub(super) fn logger(&mut self) -> Option<&mut DecisionLogger<'a>> {
        match self {
            Self::Arriving(logger) | Self::Opened(logger) | Self::Reevaluated(logger) => {
                Some(logger)
            }
            Self::DryRun(_) => None,
        }
    }
}

impl<'a> Candidate<'a> {
    /// Decides on the exchange as `user`'s: all phases after *identify*. The policy and the filters may change fields, and filters the
    /// user.
    ///
    /// # Errors
    /// The policy or a filter denies it, no route matches, or the route needs a signed URL.
    pub async fn decide(
        &mut self,
        head: &mut RequestHead,
        user: &mut Option<String>,
    ) -> Result<(Grant, Arc<CompiledRoute>), Refusal> {
        let grant = self.grant(head, user).await?;
        let route = self.route(head, user.as_deref())?;
        self.take_signature(&route, head)?;
        Ok((grant, route))
    }

    /// *Policy* and *authorize*.
    ///
    /// # Errors
    /// The policy or a filter denies it.
    pub async fn grant(
        &mut self,
        head: &mut RequestHead,
        user: &mut Option<String>,
    ) -> Result<Grant, Refusal> {
        let permitted = self.permit(head, user.as_deref())?;
        let mut grant = Grant::default();
        if !self.entry.snapshot.policing.filters.is_empty() {
            // Boxed: few exchanges are asked about.
            let authorized = Box::pin(self.authorize(head, user)).await;
            grant = authorized.map_err(|denied| denied.refusal)?;
        }

        grant.at_most(permitted.lasts);
        grant.rule = permitted.rule;
        Ok(grant)
    }

    /// The user of the exchange, from the result of authentication; see [`Entry::believe`].
    ///
    /// # Errors
    /// It is not believed, or a field cannot be written.
    pub fn believe(&self, head: &mut RequestHead) -> Result<Option<String>, Refusal> {
        self.entry.believe(self.auth, self.target, head)
    }

    /// *Route*: the first route that matches.
    ///
    /// # Errors
    /// No route matches, or the path is ambiguous.
    pub fn route(
        &self,
        head: &RequestHead,
        user: Option<&str>,
    ) -> Result<Arc<CompiledRoute>, Refusal> {
        let facts = self.facts(head, user);
        let route = self.entry.snapshot.rules.route(&facts, &mut ());

        route.cloned().map_err(|unmatched| {
            let listener = &self.entry.listener.name;
            let details = || format!("no route for {} from listener {listener}", self.target);
            filter::unmatched(&unmatched, details)
        })
    }

    /// Takes the signature out of a URL, where the route needs one.
    ///
    /// # Errors
    /// There is none that counts.
    pub fn take_signature(
        &self,
        route: &CompiledRoute,
        head: &mut RequestHead,
    ) -> Result<(), Refusal> {
        // A person who supposes an exchange has no key.
        if matches!(self.mode, Mode::DryRun(_)) {
            return Ok(());
        }
        let signed = &self.entry.snapshot.policing.signed;
        signed.take(route.index, head, self.target)
    }

    /// Logs the decisions that were held back: they change an open tunnel.
    pub(crate) fn log_held(&mut self) {
        let snapshot = self.entry.snapshot;
        if let Some(logger) = self.mode.logger() {
            logger.log_held(snapshot);
        }
    }

    fn whose<'b>(&'b self, user: Option<&'b str>) -> KnownUser<'b> {
        self.entry.listener.known_user(self.auth, user)
    }

    pub(super) fn facts<'b>(&'b self, head: &'b RequestHead, user: Option<&'b str>) -> Facts<'b> {
        let Entry {
            source, listener, ..
        } = self.entry;
        filter::facts(head, self.target, self.whose(user), source, &listener.name)
    }
}
