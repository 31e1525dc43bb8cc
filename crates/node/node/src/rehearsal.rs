//! A dry run: the decision of a configuration about a supposed exchange, its policies in Rego included.
//!
//! The phases are those of the pipeline, with nothing sent anywhere: a filter that would ask a server, or one of the program, is passed
//! over.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_admit::decide::{Candidate, DryRun, Mode};
use hermes_admit::entry::Entry;
use hermes_admit::snapshot::{ListenerRules, Snapshot};
use hermes_config::{Loaded, Problems};
use hermes_http::RequestHead;
use hermes_identity::{AuthContext, Identity};
use hermes_net::{LocalAddresses, PeerAddress, Resolver, StreamInfo};
use hermes_observe::{AccessSink, Telemetry};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_rules::judge::Authenticated;
use hermes_upstream::Client;
use serde_json::{Map, Value};
use tokio_util::task::TaskTracker;

use crate::builtin;
use crate::nowhere::Nowhere;
use crate::why::packet::{JudgedSupposed, SupposedFlows, SupposedPacket};
use crate::why::question;
use crate::why::question::{CLIENT_PORT, SupposedRequest, own_address};
use crate::why::supposed_claims::{SaidOfUser, SupposedClaims};

/// An exchange that is only supposed.
#[derive(Debug, Clone)]
pub struct Supposed {
    /// Its request: `GET http://WEB/plans`, `CONNECT DB:5432`, `CONNECT-IP 10.0.0.0/8`; nothing for a listener that says so itself.
    pub ask: Option<String>,
    /// Where it enters; the first listener for HTTP if nothing is said.
    pub listener: Option<String>,
    /// Whom authentication found.
    pub user: Option<String>,
    /// The groups that this user's token claims.
    pub claim_groups: Vec<String>,
    /// Its further claims.
    pub claims: Map<String, Value>,
    /// Where it comes from; this machine or the device of the listener if nothing is said.
    pub source: Option<IpAddr>,
    /// When it arrives, in Unix time; now if nothing is said.
    pub at: Option<u64>,
    /// Its fields.
    pub fields: Fields,
}

impl Supposed {
    fn said_of_user(&self) -> SaidOfUser<'_> {
        SaidOfUser {
            user: self.user.as_deref(),
            groups: &self.claim_groups,
            claims: &self.claims,
        }
    }
}

/// The decision.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    /// Whose it is.
    pub user: Option<String>,
    /// Its fields when its route is chosen, or when it is refused.
    pub fields: Fields,
    /// The route, or the status and the reason of the refusal.
    pub outcome: Result<String, (u16, String)>,
    /// The words of filters; those that were passed over have none.
    pub filters: Vec<String>,
}

/// A configuration that is in force nowhere.
pub struct Rehearsal {
    snapshot: Arc<Snapshot>,
    client: Client,
}

impl Rehearsal {
    /// Makes a configuration ready to decide.
    ///
    /// # Errors
    /// Its problems.
    pub fn new(loaded: Loaded) -> Result<Self, Problems> {
        let files = loaded.files.clone();
        let telemetry = Telemetry::new("rehearsal", AccessSink::off());
        let built = Snapshot::build(loaded, None, &telemetry, &builtin::plugs());
        let draft = built.map_err(|problems| problems.in_order(&files))?;
        let snapshot = draft.with_sockets(HashMap::new(), &[], &LocalAddresses::default());

        let snapshot = Arc::new(snapshot);
        let resolver = Arc::new(Resolver::system());
        let directory = Arc::new(Nowhere);
        Ok(Self {
            snapshot,
            client: Client::new(resolver, TaskTracker::new(), directory),
        })
    }

    /// Decides about an exchange.
    ///
    /// # Errors
    /// It cannot be supposed, in words.
    pub async fn decide(&self, supposed: &Supposed) -> Result<Rehearsed, String> {
        let listener = self.listener(supposed.listener.as_deref())?;
        let ask = supposed.ask.as_deref();
        let config = &listener.config;
        let asked = match ask {
            Some(ask) => {
                let words: Vec<_> = ask.split_whitespace().map(str::to_owned).collect();
                SupposedRequest::parse(&words)?
            }
            None => SupposedRequest::of_listener(config).ok_or("name the request")?,
        };
        let mut head = asked.head;
        head.fields.extend(&supposed.fields);

        let own = || own_address(config);
        let address = supposed.source.unwrap_or_else(own);
        let source = StreamInfo {
            peer: PeerAddress::Ip(SocketAddr::new(address, CLIENT_PORT)),
            local: None,
            tls: None,
            origin: None,
        };
        let entry = Entry {
            snapshot: &self.snapshot,
            listener,
            source: &source,
        };

        let claims = SupposedClaims::new(Some(config), supposed.said_of_user())?;
        let identity = Identity {
            user: supposed.user.clone(),
            proof: claims.proof(),
            certificate: None,
            expires: None,
        };
        let auth = AuthContext::new(identity, Fields::new(), false);

        let mut dry = DryRun::new(self.client.clone(), supposed.at);
        let mut user = None;
        let outcome = phases(entry, &auth, &mut dry, &mut head, &mut user).await;
        Ok(Rehearsed {
            user,
            fields: head.fields,
            outcome: outcome.map_err(|refusal| (refusal.code().as_u16(), refusal.reason())),
            filters: dry.said,
        })
    }

    /// Whether a packet of a tunnel of this user may pass; `None` where it is no packet that is supposed.
    ///
    /// # Errors
    /// It cannot be supposed, in words.
    pub fn judge_packet(&self, supposed: &Supposed) -> Result<Option<JudgedSupposed>, String> {
        let ask = supposed.ask.as_deref().unwrap_or_default();
        let words: Vec<_> = ask.split_whitespace().map(str::to_owned).collect();
        let Some(packet) = SupposedPacket::parse(&words, supposed.source)? else {
            return Ok(None);
        };
        let claims = SupposedClaims::of_packet(
            &self.snapshot.document,
            supposed.listener.as_deref(),
            supposed.said_of_user(),
        )?;
        let whose = Authenticated {
            user: supposed.user.as_deref(),
            claimed: claims.groups(),
            ..Authenticated::default()
        };
        let flows = self.snapshot.policing.flows.as_deref();
        let asked = flows.map(|policy| SupposedFlows {
            policy,
            claims: claims.all(),
            listener: supposed.listener.as_deref().unwrap_or_default(),
        });
        packet.judge(&self.snapshot.rules, whose, asked).map(Some)
    }

    /// The listener of this name; the key of a tunnel of a device is its own.
    fn listener(&self, name: Option<&str>) -> Result<&ListenerRules, String> {
        let (found, config) = question::listener(&self.snapshot.document, name)?;
        // A tunnel of a device has rules of its own, under the name that was asked for.
        let key = match (config, name) {
            (Cow::Owned(_), Some(tunnel)) => tunnel,
            _ => found,
        };
        let found = self.snapshot.listeners.get(key);
        found
            .map(Arc::as_ref)
            .ok_or_else(|| format!("there is no listener `{key}`"))
    }
}

/// Takes the exchange through the phases of one that arrives; the name of its route.
async fn phases(
    entry: Entry<'_>,
    auth: &AuthContext,
    dry: &mut DryRun,
    head: &mut RequestHead,
    user: &mut Option<String>,
) -> Result<String, Refusal> {
    let target = Target::of(head, &entry.listener.forms(), false)?;
    let mut candidate = Candidate {
        entry,
        target: &target,
        auth,
        mode: Mode::DryRun(dry),
    };

    *user = candidate.believe(head)?;
    let (_, route) = candidate.decide(head, user).await?;
    Ok(route.name.to_string())
}
