//! The state of an overlay at a glance: how far a change has spread, who is in step, whose certificates end.

use hermes_api::{Name, Revision};
use hermes_net::clock::unix_seconds;
use serde::{Deserialize, Serialize};

use super::admin::NodeView;
use super::controller::Controller;
use super::outcome::Spreading;
use super::peering::PeeringView;
use crate::authority::CertificateView;

/// Certificates that end within so many seconds are told of: nodes renew them long before.
const SOON: u64 = 2 * 24 * 60 * 60;

/// The state of an overlay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Overview {
    /// The overlay.
    pub overlay: Name,
    /// The revision that all nodes should have in the end.
    pub revision: Revision,
    /// The change that spreads.
    pub spreading: Option<Spreading>,
    /// Whether it waits to be confirmed.
    pub unconfirmed: bool,
    /// Members that are in step.
    pub in_step: usize,
    /// Members that are not: away, refused, or on the way.
    pub others: Vec<NodeView>,
    /// Certificates that end soon, or have ended.
    pub ending: Vec<CertificateView>,
    /// Keys on whose values nodes have agreed, such as channels of a rendezvous.
    #[serde(default)]
    pub agreed: usize,
    /// Other overlays that have made newer authorities than we know of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<PeeringView>,
}

impl Controller {
    /// The state of the overlay.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn overview(&self) -> Result<Overview, String> {
        let now = unix_seconds();
        let nodes = self.nodes()?;
        let certificates = self.certificates()?;
        let in_force = self.in_force.lock();
        let revision = in_force.published.revision;
        let unconfirmed = in_force.awaiting.is_some();
        drop(in_force);
        let is_in_step = |node: &NodeView| node.attends && node.state == "in step";
        let (in_step, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_in_step);
        let ends = |one: &CertificateView| one.revoked.is_none() && one.expires < now + SOON;
        Ok(Overview {
            overlay: self.about.overlay.clone(),
            revision,
            spreading: self.spreading(),
            unconfirmed,
            in_step: in_step.len(),
            others,
            ending: certificates.into_iter().filter(ends).collect(),
            agreed: self.agreed.lock().len(),
            due: self.due_peerings(),
        })
    }

    /// How far the change under way has spread, if there is one.
    pub fn spreading(&self) -> Option<Spreading> {
        self.fleet.lock().spreading()
    }

    /// The newest certificate of each member.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn certificates(&self) -> Result<Vec<CertificateView>, String> {
        let certificates = self.authority.certificates();
        certificates.map_err(|error| error.to_string())
    }
}
