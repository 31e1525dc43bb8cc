//! The addresses that a tunnel assigns: which of them a device takes, and which are translated.

use std::time::Instant;

use hermes_ip::{Adoption, SessionEvent};
use hermes_proto::capsule::CapsuleType;
use hermes_proto::ip::IpPrefix;
use ipnet::IpNet;

use super::assignment::Assignment;
use super::end::TunTunnel;
use super::service::{TunClient, TunService};
use super::shared_addresses::AddressDecision;
use super::translations::{TranslatedAddress, Translations};
use super::wanted_addresses::Wanted;

impl TunTunnel {
    /// Takes a capsule.
    ///
    /// # Errors
    /// The stream must be aborted; why.
    pub(super) fn receive_capsule(&self, kind: CapsuleType, value: &[u8]) -> Result<(), String> {
        let (handled, is_answer) = self.end.with_session(|session| {
            let waiting = session.unanswered().len();
            let handled = session.handle_capsule(kind, value, Instant::now());
            (handled, session.unanswered().len() < waiting)
        });
        let Some(event) = handled.map_err(|error| error.to_string())? else {
            return Ok(());
        };

        match (event, &self.hub.service) {
            (SessionEvent::Requested(requests), TunService::Proxy(proxy)) => {
                self.hub.grant(proxy, &self.end, &requests);
            }
            // This end routes nothing and gives nothing out.
            (SessionEvent::Requested(_), TunService::Client(_)) => {
                // Cannot fail: a tunnel is too narrow for IPv6 addresses only.
                let _ = self.end.with_session(|session| session.assign(Vec::new()));
            }
            (
                SessionEvent::Assigned {
                    taken,
                    ignored,
                    refused,
                },
                TunService::Client(client),
            ) => {
                let mut assigned = taken.clone();
                let mut has_refused = false;
                for (prefix, reason) in ignored {
                    assigned.push(prefix);
                    tracing::debug!(device = self.hub.device.name(), %prefix, %reason, "an assigned address is not used");
                }
                for request in refused {
                    let prefix = request.prefix;
                    tracing::warn!(device = self.hub.device.name(), %prefix, "the proxy refused an address that was asked for");
                    has_refused = true;
                }
                let assignment = Assignment {
                    usable: &taken,
                    all: &assigned,
                    is_answer,
                    has_refused,
                };
                if let Some(shared) = &client.shared {
                    return self.share(shared.handle_assigned(self.end.number, assignment));
                }
                self.handle_assigned(client, assignment)?;
            }
            (SessionEvent::Assigned { .. } | SessionEvent::Routed { .. }, _) => {}
        }
        Ok(())
    }

    /// Decides about the addresses that the tunnel assigned.
    ///
    /// # Errors
    /// The device refuses all of it.
    fn handle_assigned(
        &self,
        client: &TunClient,
        assignment: Assignment<'_>,
    ) -> Result<(), String> {
        let mut wanted = client.wanted.lock();
        match wanted.handle_assigned(assignment) {
            Wanted::Request(addresses) => {
                self.end.with_session(|session| session.request(&addresses));
            }
            Wanted::Adopt => self.adopt(assignment.usable),
            Wanted::Keep(adoption) => {
                if !adoption.new.is_empty() {
                    self.adopt(wanted.held());
                }
                let has_none = self.end.with_session(|session| {
                    session.accept_addresses(wanted.accepts());
                    session.unanswered().is_empty() && session.own_addresses().is_empty()
                });
                if has_none && !assignment.all.is_empty() {
                    let held = wanted.held();
                    return Err(format!(
                        "it has {} and was assigned {}",
                        listed(held),
                        listed(assignment.all)
                    ));
                }
                self.translate(&adoption);
            }
        }
        Ok(())
    }

    /// Translates between the addresses of the device and those of the tunnel from now on, where they differ.
    fn translate(&self, adoption: &Adoption) {
        let translations = Translations::of(&adoption.translations);
        let before = self
            .end
            .inbox
            .with(|inbox| std::mem::replace(&mut inbox.translations, translations));
        if before == translations {
            return;
        }
        for TranslatedAddress { device, tunnel } in translations.addresses() {
            tracing::info!(name = self.hub.device.name(), %device, %tunnel, "an address is translated");
        }
    }

    /// Gives the device the assigned addresses.
    fn adopt(&self, taken: &[IpPrefix]) {
        let nets = taken
            .iter()
            .filter_map(|prefix| IpNet::new(prefix.address(), prefix.length()).ok());
        let nets: Vec<IpNet> = nets.collect();
        match self.hub.device.set_addresses(&nets) {
            Ok(()) => {
                tracing::info!(device = self.hub.device.name(), addresses = ?nets, "has its addresses");
            }
            Err(error) => tracing::error!(%error, "cannot set the addresses of the device"),
        }
        self.hub.lead_again();
    }

    /// Carries out the decision about the addresses of one of several tunnels.
    ///
    /// # Errors
    /// The tunnel is refused; why.
    fn share(&self, decided: AddressDecision) -> Result<(), String> {
        match decided {
            AddressDecision::Agreed => self.translate(&Adoption::default()),
            AddressDecision::Request(addresses) => {
                self.end.with_session(|session| session.request(&addresses));
            }
            AddressDecision::Adopt(addresses) => {
                self.adopt(&addresses);
                self.translate(&Adoption::default());
            }
            AddressDecision::Translate(adoption) => {
                if !adoption.new.is_empty() {
                    self.adopt(&adoption.new);
                }
                self.translate(&adoption);
            }
            AddressDecision::Refuse(reason) => return Err(reason),
        }
        Ok(())
    }
}

fn listed(prefixes: &[IpPrefix]) -> String {
    let texts: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
    texts.join(" and ")
}
