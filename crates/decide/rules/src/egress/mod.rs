//! Egress: which addresses a request may choose.
//!
//! Checked on the address that is dialled, after resolution, at every place where a tunnel or a request leaves the
//! overlay for a target of the client's choice. An address that holds an IPv4 address is judged by that.
//!
//! Own listeners, `deny` and `deny_ports` beat `allow`; `allow` beats the defaults. A prefix that was written for a network does
//! not open this machine, which may have an address there: only an entry for that address alone does, and for loopback a prefix
//! of loopback.

mod special;

use std::net::{IpAddr, SocketAddr};

use hermes_config::model::{Egress, PortMatch};
use ipnet::IpNet;

use crate::route::canonical_net;
use special::{SPECIAL, judged};

/// Ports that are denied by default: mail (RFC 5321), which strangers would send through us.
const DENIED_PORTS: PortMatch = PortMatch { low: 25, high: 25 };

/// The addresses that an address holds (IPv4 in IPv6, by any of its forms), or itself.
pub fn held_addresses(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    judged(address).into_iter().flatten()
}

/// An address that a request may not choose, and the rule that says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} is denied: {rule}")]
pub struct Denied {
    /// The address as it was to be dialled.
    pub address: SocketAddr,
    /// The rule, in words.
    pub rule: String,
}

/// The compiled rules of one document.
#[derive(Debug, Clone)]
pub struct EgressRules {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
    deny_ports: Vec<PortMatch>,
    own: Vec<SocketAddr>,
}

impl EgressRules {
    /// Compiles the rules. `own` are the addresses that this process listens on (metrics included), as bound.
    pub fn compile(egress: &Egress, own: &[SocketAddr]) -> Self {
        let nets = |nets: &[IpNet]| nets.iter().map(|net| canonical_net(*net)).collect();
        Self {
            allow: nets(&egress.allow),
            deny: nets(&egress.deny),
            deny_ports: egress
                .deny_ports
                .clone()
                .unwrap_or_else(|| vec![DENIED_PORTS]),
            own: own
                .iter()
                .map(|own| SocketAddr::new(own.ip().to_canonical(), own.port()))
                .collect(),
        }
    }

    /// Whether a request may choose this address; `is_local` says which addresses are this machine's at the moment.
    ///
    /// # Errors
    /// With the rule that denies it. TCP and UDP are not told apart: an own TCP listener's address is denied to UDP too.
    pub fn check(
        &self,
        address: SocketAddr,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> Result<(), Denied> {
        let denied = |rule: String| Denied { address, rule };
        if let Some(range) = self
            .deny_ports
            .iter()
            .find(|range| range.matches(address.port()))
        {
            return Err(denied(format!("egress.deny_ports names port {range}")));
        }

        let outer = address.ip();
        if let Some(net) = self.deny.iter().find(|net| net.contains(&outer)) {
            return Err(denied(format!("egress.deny names {net}")));
        }

        for ip in judged(outer).into_iter().flatten() {
            self.judge(ip, address.port(), is_local(ip))
                .map_err(denied)?;
        }

        Ok(())
    }

    /// Judges one address; the rule that denies it is the error.
    fn judge(&self, ip: IpAddr, port: u16, local: bool) -> Result<(), String> {
        // Dialling the unspecified address reaches this machine.
        let reaches =
            |own: IpAddr| ip == own || ip.is_unspecified() || (own.is_unspecified() && local);
        if let Some(own) = self
            .own
            .iter()
            .find(|own| own.port() == port && reaches(own.ip()))
        {
            return Err(format!("this proxy itself listens on {own}"));
        }

        if let Some(net) = self.deny.iter().find(|net| net.contains(&ip)) {
            return Err(format!("egress.deny names {net}"));
        }
        let mut allowing = self.allow.iter().filter(|net| net.contains(&ip)).peekable();
        let named = allowing.peek().is_some();

        if allowing.any(|net| !local || may_open_local(net)) {
            return Ok(());
        }
        match SPECIAL.iter().find(|special| special.net.contains(&ip)) {
            Some(special) if !named => Err(format!(
                "{} addresses ({}) are denied unless egress.allow names them",
                special.what, special.net
            )),
            _ if local => Err(format!(
                "{ip} is an address of this machine, denied unless egress.allow names {} alone",
                IpNet::from(ip)
            )),
            _ => Ok(()),
        }
    }
}

/// Whether an entry of `allow` can be meant for this machine: one address, or addresses that are always this machine's.
fn may_open_local(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
        || net.network().is_loopback() && net.broadcast().is_loopback()
        || net.network().is_unspecified() && net.prefix_len() >= 8
}
