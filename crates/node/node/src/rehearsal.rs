//! What a configuration would decide about an exchange that is only supposed, its policies in Rego included.
//!
//! The phases are those of the pipeline, with nothing sent anywhere: a filter that would ask a server, or one of the program, is passed
//! over.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_admit::entry::Entry;
use hermes_admit::filter;
use hermes_admit::filter::{Checkpoint, KnownUser};
use hermes_admit::permit::Permitting;
use hermes_admit::snapshot::{ListenerRules, Snapshot};
use hermes_config::{Loaded, Problems};
use hermes_http::RequestHead;
use hermes_identity::{AuthContext, Identity, Proof};
use hermes_net::{LocalAddresses, PeerAddress, Resolver, StreamInfo};
use hermes_observe::{AccessSink, Telemetry};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{Changes, Decision, Subject, Verdict};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::Facts;
use hermes_rules::fields::USER;
use hermes_rules::judge::Authenticated;
use hermes_upstream::{Client, Directory, Upstream};
use http::HeaderValue;
use serde_json::{Map, Value};
use tokio_util::task::TaskTracker;

use crate::builtin;
use crate::why::packet::{JudgedSupposed, SupposedFlows, SupposedPacket};
use crate::why::question;
use crate::why::question::{SupposedRequest, own_address};
use crate::why::supposed_claims::{SaidOfUser, SupposedClaims};

/// The port that the supposed connection comes from.
const CLIENT_PORT: u16 = 50_000;

/// An exchange that is only supposed.
#[derive(Debug, Clone)]
pub struct Supposed {
    /// What it asks for: `GET http://WEB/plans`, `CONNECT DB:5432`, `CONNECT-IP 10.0.0.0/8`; nothing for a listener that says so itself.
    pub ask: Option<String>,
    /// Where it enters; the first listener for HTTP if nothing is said.
    pub listener: Option<String>,
    /// Whom authentication found.
    pub user: Option<String>,
    /// The groups that this user's token claims.
    pub claim_groups: Vec<String>,
    /// What else it claims.
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

/// What would be decided.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    /// Whose it is.
    pub user: Option<String>,
    /// Its fields when its route is chosen, or when it is refused.
    pub fields: Fields,
    /// The route, or the status and the reason of the refusal.
    pub outcome: Result<String, (u16, String)>,
    /// What filters said; those that were passed over say nothing.
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
    /// What is wrong with it.
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
            None => SupposedRequest::of_listener(config).ok_or("say what it asks for")?,
        };
        let mut head = asked.head;
        head.fields.extend(&supposed.fields);

        let own = || own_address(config);
        let address = supposed.source.unwrap_or_else(own);
        let source = StreamInfo {
            peer: PeerAddress::Ip(SocketAddr::new(address, CLIENT_PORT)),
            local: None,
            tls: None,
            neighbour: None,
        };
        let entry = Entry {
            snapshot: &self.snapshot,
            listener,
            source: &source,
        };

        let claims = SupposedClaims::new(Some(config), supposed.said_of_user())?;
        let mut going = Going {
            entry,
            head,
            user: None,
            claims: &claims,
            claimed: Authenticated {
                user: supposed.user.as_deref(),
                claimed: claims.groups(),
                ..Authenticated::default()
            },
            said: Vec::new(),
        };
        let outcome = self.phases(&mut going, supposed).await;
        Ok(Rehearsed {
            user: going.user,
            fields: going.head.fields,
            outcome: outcome.map_err(|refusal| (refusal.code().as_u16(), refusal.reason())),
            filters: going.said,
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

    async fn phases(&self, going: &mut Going<'_>, supposed: &Supposed) -> Result<String, Refusal> {
        let entry = going.entry;
        let target = Target::of(&going.head, &entry.listener.forms(), false)?;
        let identity = Identity {
            user: supposed.user.clone(),
            proof: Proof::Nothing,
            certificate: None,
            expires: None,
        };
        let auth = AuthContext::new(identity, Fields::new(), false);
        going.user = entry.believe(&auth, &target, &mut going.head)?;
        let permitting = Permitting {
            target: &target,
            whose: KnownUser {
                user: going.user.as_deref(),
                claimed: going
                    .claimed
                    .claimed_of(going.user.as_deref(), &entry.listener.aliases),
            },
            witness: None,
            at: supposed.at,
        };
        entry.permit(&mut going.head, permitting)?;

        for asked in self.snapshot.filters.iter().filter(|filter| filter.is_rego) {
            self.ask_about_others(asked, going, &target).await?;
            if asked.applies(&going.facts(&target)) {
                let changes = self.ask(asked, going, &target).await?;
                going.change(&changes);
            }
        }

        let route = self.snapshot.rules.route(&going.facts(&target), &mut ());
        route
            .map(|route| route.name.to_string())
            .map_err(|unmatched| filter::unmatched(&unmatched, || unmatched.to_string()))
    }

    /// Asks about the other readings of the path, as the pipeline does.
    async fn ask_about_others(
        &self,
        asked: &Checkpoint,
        going: &mut Going<'_>,
        target: &Target,
    ) -> Result<(), Refusal> {
        for other in filter::other_readings(&self.snapshot.document, &going.head)? {
            let written = std::mem::replace(&mut going.head, other);
            let answer = match asked.applies(&going.facts(target)) {
                true => self.ask(asked, going, target).await.map(drop),
                false => Ok(()),
            };
            going.head = written;
            answer?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        asked: &Checkpoint,
        going: &mut Going<'_>,
        target: &Target,
    ) -> Result<Changes, Refusal> {
        let user = going.user.as_deref();
        let target = target.canonical();
        let subject = Subject {
            client: &self.client,
            head: &going.head,
            target: &target,
            user,
            source: going.entry.source,
            listener: &going.entry.listener.name,
            credentials: &Fields::new(),
            claims: going.claims.all(),
            groups: self.snapshot.rules.names.groups_of(user),
        };
        let Verdict {
            decision,
            outcome,
            reason,
            ..
        } = asked.decide(&subject).await;
        let reason = format!("{} {}: {reason}", asked.name, outcome.word());
        going.said.push(reason.clone());

        match decision {
            Decision::Allow(changes) => Ok(changes),
            Decision::Deny(denial) => {
                Err(Refusal::new(ProxyError::HttpRequestDenied, reason).status(denial.status))
            }
        }
    }
}

/// An exchange on its way through the phases.
struct Going<'a> {
    entry: Entry<'a>,
    head: RequestHead,
    user: Option<String>,
    claims: &'a SupposedClaims,
    claimed: Authenticated<'a>,
    said: Vec<String>,
}

impl Going<'_> {
    fn change(&mut self, changes: &Changes) {
        changes.apply_to(&mut self.head);
        let named = changes.set.get(USER).and_then(|named| named.to_str().ok());
        if let Some(named) = named {
            self.user = Some(named.to_owned());
        }
    }

    fn facts<'a>(&'a self, target: &'a Target) -> Facts<'a> {
        let Entry {
            source, listener, ..
        } = self.entry;
        let user = self.user.as_deref();
        let whose = KnownUser {
            user,
            claimed: self.claimed.claimed_of(user, &self.entry.listener.aliases),
        };
        filter::facts(&self.head, target, whose, source, &listener.name)
    }
}

/// Nothing is reached.
pub(crate) struct Nowhere;

impl Directory for Nowhere {
    fn upstream(&self, _: &str) -> Option<Arc<Upstream>> {
        None
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        None
    }
}
