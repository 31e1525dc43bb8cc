//! What a configuration would decide about an exchange that is only supposed, its policies in Rego included.
//!
//! The phases are those of the pipeline, with nothing sent anywhere: a filter that would ask a server, or one of the program, is passed
//! over.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_config::{Loaded, Problems};
use hermes_http::RequestHead;
use hermes_identity::{AuthContext, Identity, Proof};
use hermes_net::{LocalAddresses, PeerAddress, Resolver, StreamInfo};
use hermes_observe::{AccessSink, Telemetry};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::upgrade::Protocol;
use hermes_proto::uri_template;
use hermes_rules::fields::USER;
use hermes_rules::judge::Authenticated;
use hermes_rules::{ClaimedGroups, Facts};
use hermes_upstream::{Client, Directory, Upstream};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode, Uri, Version};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::entry::Entry;
use crate::filter::{self, Checkpoint, KnownUser};
use crate::node::one;
use crate::permit::Permitting;
use crate::plug::{Decision, Plugs, Subject, Verdict};
use crate::refusal::Refusal;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::target::Target;

/// The port that the supposed connection comes from.
const CLIENT_PORT: u16 = 50_000;

/// An exchange that is only supposed.
#[derive(Debug, Clone)]
pub struct Supposed {
    /// What it asks for: `GET http://WEB/plans`, `CONNECT DB:5432`, `CONNECT-UDP DNS:53`; nothing for a listener that says so itself.
    pub ask: Option<String>,
    /// Where it enters; the first listener for HTTP if nothing is said.
    pub listener: Option<String>,
    /// Whom authentication found.
    pub user: Option<String>,
    /// The groups that this user's token claims.
    pub claim_groups: Vec<String>,
    /// Where it comes from.
    pub source: IpAddr,
    /// Its fields.
    pub fields: Fields,
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
        let built = Snapshot::build(loaded, None, &telemetry, &Plugs::new());
        let draft = built.map_err(|problems| problems.in_order(&files))?;
        let snapshot = draft.with_sockets(HashMap::new(), &[], &LocalAddresses::default());

        let snapshot = Arc::new(snapshot);
        let resolver = Arc::new(Resolver::system().map_err(|error| one("", &error))?);
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
        let mut head = match (ask, &listener.config.target) {
            (Some(ask), _) => head_of(ask)?,
            (None, Some(target)) if listener.config.udp.is_some() => {
                tunnel(Some(Protocol::ConnectUdp), target)?
            }
            (None, Some(target)) => tunnel(None, target)?,
            (None, None) => return Err("say what it asks for".to_owned()),
        };
        head.fields.extend(&supposed.fields);

        let source = StreamInfo {
            peer: PeerAddress::Ip(SocketAddr::new(supposed.source, CLIENT_PORT)),
            local: None,
            tls: None,
        };
        let entry = Entry {
            snapshot: &self.snapshot,
            listener,
            source: &source,
        };

        let claimed = Value::from(supposed.claim_groups.clone());
        let mut going = Going {
            entry,
            head,
            user: None,
            claimed: Authenticated {
                user: supposed.user.as_deref(),
                claimed: ClaimedGroups(Some(&claimed)),
                ..Authenticated::default()
            },
            said: Vec::new(),
        };
        let outcome = self.phases(&mut going, supposed.user.clone()).await;
        Ok(Rehearsed {
            user: going.user,
            fields: going.head.fields,
            outcome: outcome.map_err(|refusal| (refusal.code().as_u16(), refusal.reason())),
            filters: going.said,
        })
    }

    fn listener(&self, name: Option<&str>) -> Result<&ListenerRules, String> {
        let listeners = &self.snapshot.document.listeners;
        let first = || {
            let http = listeners.iter().find(|(_, config)| config.http.is_some());
            http.or_else(|| listeners.first())
                .map(|(name, _)| name.as_str())
        };
        let name = name.or_else(first).ok_or("there is no listener")?;
        let found = self.snapshot.listeners.get(name);
        found
            .map(Arc::as_ref)
            .ok_or_else(|| format!("there is no listener `{name}`"))
    }

    async fn phases(
        &self,
        going: &mut Going<'_>,
        authenticated: Option<String>,
    ) -> Result<String, Refusal> {
        let entry = going.entry;
        let target = Target::of(&going.head, &entry.listener.forms(), false)?;
        let identity = Identity {
            user: authenticated,
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
                claimed: going.claimed.claimed_of(going.user.as_deref()),
            },
            witness: None,
        };
        entry.permit(&mut going.head, permitting)?;

        for asked in self.snapshot.filters.iter().filter(|filter| filter.is_rego) {
            if asked.applies(&going.facts(&target)) {
                self.ask(asked, going, &target).await?;
            }
        }

        let route = self.snapshot.rules.route(&going.facts(&target), &mut ());
        route.map(|route| route.name.to_string()).ok_or_else(|| {
            Refusal::new(ProxyError::DestinationNotFound, "no route matches")
                .status(StatusCode::NOT_FOUND)
        })
    }

    async fn ask(
        &self,
        asked: &Checkpoint,
        going: &mut Going<'_>,
        target: &Target,
    ) -> Result<(), Refusal> {
        let user = going.user.as_deref();
        let subject = Subject {
            client: &self.client,
            head: &going.head,
            target,
            user,
            source: going.entry.source,
            listener: &going.entry.listener.name,
            credentials: &Fields::new(),
            claims: None,
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
            Decision::Allow(changes) => {
                changes.apply_to(&mut going.head);
                let named = changes.set.get(USER).and_then(|named| named.to_str().ok());
                if let Some(named) = named {
                    going.user = Some(named.to_owned());
                }
                Ok(())
            }
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
    claimed: Authenticated<'a>,
    said: Vec<String>,
}

impl Going<'_> {
    fn facts<'a>(&'a self, target: &'a Target) -> Facts<'a> {
        let Entry {
            source, listener, ..
        } = self.entry;
        let user = self.user.as_deref();
        let whose = KnownUser {
            user,
            claimed: self.claimed.claimed_of(user),
        };
        filter::facts(&self.head, target, whose, source, &listener.name)
    }
}

/// Nothing is reached.
struct Nowhere;

impl Directory for Nowhere {
    fn upstream(&self, _: &str) -> Option<Arc<Upstream>> {
        None
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        None
    }
}

/// `METHOD URL`, or a kind of tunnel and `host:port`.
fn head_of(ask: &str) -> Result<RequestHead, String> {
    let (word, target) = ask
        .split_once(' ')
        .ok_or_else(|| format!("`{ask}`: write a method and a URL, such as GET http://WEB/"))?;
    let address = || {
        target
            .parse::<HostPort>()
            .map_err(|error| error.to_string())
    };
    match word {
        "CONNECT" => tunnel(None, &address()?),
        "CONNECT-UDP" => tunnel(Some(Protocol::ConnectUdp), &address()?),
        "CONNECT-TCP" => tunnel(Some(Protocol::ConnectTcp), &address()?),
        method => message(method, target),
    }
}

fn message(method: &str, url: &str) -> Result<RequestHead, String> {
    let method = Method::from_bytes(method.as_bytes());
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let parts = uri.into_parts();
    if parts.scheme.is_none() || parts.authority.is_none() {
        return Err(format!("{url} is no URL, such as http://WEB/"));
    }

    Ok(RequestHead {
        method: method.map_err(|error| error.to_string())?,
        scheme: parts.scheme,
        authority: parts.authority,
        path: parts.path_and_query,
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    })
}

fn tunnel(protocol: Option<Protocol>, target: &HostPort) -> Result<RequestHead, String> {
    let template = match protocol {
        Some(Protocol::ConnectUdp) => Some(&uri_template::UDP),
        Some(_) => Some(&uri_template::TCP),
        None => None,
    };
    let path = template.map(|template| template.expand(&target.host, target.port));
    let path = path.map(PathAndQuery::try_from).transpose();
    let authority = Authority::try_from(target.to_string());

    Ok(RequestHead {
        method: Method::CONNECT,
        scheme: protocol.is_some().then_some(Scheme::HTTPS),
        authority: Some(authority.map_err(|error| error.to_string())?),
        path: path.map_err(|error| error.to_string())?,
        protocol,
        fields: Fields::new(),
        version: Version::HTTP_2,
        origin_form: false,
    })
}
