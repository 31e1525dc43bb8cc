//! A change that was under way when its leader was lost, or its controller ended: the next one goes on with it.
//!
//! The store says which state all nodes had before. The next leader makes the same stages from it and, for a while, lets the nodes come:
//! each keeps the stage that it came with. Then the change spreads in waves again, in which nodes that have a stage already are not waited
//! for. All stages have the revision of the newest state, since nodes have seen it.

use std::sync::Arc;
use std::time::Instant;

use hermes_api::Revision;

use super::change::bake;
use super::controller::Controller;
use super::difference::Difference;
use super::fleet::Gathering;
use super::in_force::{InForce, compiled};
use super::outcome::How;
use super::published::Published;
use super::stages::{Spread, states};
use crate::resources::Tree;
use crate::store::UnderWay;

/// How long the change waits for members that do not come, in milliseconds: more than nodes that know several controllers pause, and as
/// long as a fleet of thousands takes. One that comes later gets the state when all others have it.
#[doc(alias = "bound")]
const GATHER: u64 = 10_000;

impl Controller {
    /// Takes up the change under way, if there is one. It may block.
    pub(super) fn resume(&self, in_force: &mut InForce) {
        let gathering = match self.gathering(in_force) {
            Ok(Some(gathering)) => gathering,
            Ok(None) => return,
            Err(error) => {
                return tracing::error!("the change under way goes to all nodes at once: {error}");
            }
        };
        in_force.before = gathering.stages[0].tree.clone();
        if let Some(awaiting) = &mut in_force.awaiting
            && awaiting.until.is_some_and(|until| Instant::now() < until)
        {
            // The operator's time begins when it is in force everywhere.
            awaiting.until = None;
        }
        tracing::info!(
            "revision {} still spreads: it goes on in waves when the nodes have come",
            in_force.published.revision
        );
        self.fleet.lock().gather(gathering);
    }

    /// The change under way, for which nodes are to come; `None` without one.
    fn gathering(&self, in_force: &InForce) -> Result<Option<Gathering>, String> {
        let Some(before) = self.before_the_change(in_force)? else {
            return Ok(None);
        };
        let before = Arc::new(before);
        let next = in_force.published.clone();
        let difference = Difference::between(&before.tree, &next.tree);
        let is_restriction = difference.is_restriction(&before.tree, &next.tree);
        let mut stages = vec![before.clone()];
        match is_restriction {
            true => stages.push(next.clone()),
            false => stages.extend(states(&before, &next, &self.about.trust_domain)),
        }
        let back = Published {
            revision: next.revision.next(),
            endorsements: next.endorsements.clone(),
            ..(*before).clone()
        };
        let members = self.members()?.into_iter();
        let members = members.filter(|member| member.revoked.is_none());
        Ok(Some(Gathering {
            overlay: self.about.overlay.clone(),
            stages,
            back: Arc::new(back),
            members: members.map(|member| member.node).collect(),
            until: match is_restriction {
                // Who is denied something should not have it any longer.
                true => self.now(),
                false => self.now() + GATHER,
            },
        }))
    }

    /// The state that all nodes had before the change under way, under its revision.
    fn before_the_change(&self, in_force: &InForce) -> Result<Option<Published>, String> {
        let Some(UnderWay { from, .. }) = self.under_way()? else {
            return Ok(None);
        };
        let tree = match self.history.at(from) {
            Ok(state) => self.history.tree(&state),
            // The first change has no state before it.
            Err(_) if from == Revision::FIRST => Ok(Tree::default()),
            Err(error) => Err(error),
        };
        let tree = tree.map_err(|error| error.to_string())?;
        let next = &in_force.published;
        let documents = compiled(&tree, &self.about.trust_domain, Some(next));
        let documents = documents.map_err(|findings| findings.to_string())?;
        Ok(Some(Published {
            tree: Arc::new(tree),
            documents,
            confirm: None,
            ..(**next).clone()
        }))
    }

    fn under_way(&self) -> Result<Option<UnderWay>, String> {
        self.history.under_way().map_err(|error| error.to_string())
    }

    /// Goes on with the change once its nodes have come. It may block.
    pub(super) fn go_on(&self) {
        let now = self.now();
        let under_way = self.under_way();
        let how = How {
            // Its first nodes are looked at where the store does not say.
            now: under_way.is_ok_and(|course| course.is_some_and(|course| course.at_once)),
            ..How::default()
        };
        let mut fleet = self.fleet.lock();
        let Some([before, next]) = fleet.gathered(now) else {
            return;
        };
        let plan = next.tree.rollout();
        let difference = Difference::between(&before.tree, &next.tree);
        let spread = match difference.is_restriction(&before.tree, &next.tree) {
            true => Spread::at_once(&fleet, &before, &next),
            false => Spread::in_stages(&fleet, &before, &next, self.making(&plan)),
        };
        let bake = bake(&plan, spread.decides, &how);
        let events = fleet.go_on(spread.waves, bake, now);
        drop(fleet);
        self.settle(events);
    }
}
