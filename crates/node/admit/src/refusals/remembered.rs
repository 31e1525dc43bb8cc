//! The last refusals of a node.
//!
//! Comparisons are not written down while they are made: that would cost every exchange. The head is kept instead, and
//! compared again when someone asks.

use std::sync::Arc;
use std::time::SystemTime;

use hermes_config::{Places, child, element};
use hermes_http::RequestHead;
use hermes_net::memory::Owner;
use hermes_net::{StreamInfo, TlsPeer};
use hermes_observe::{Exchange, LaterRefusal, Learnt};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::names::{AUTHORIZATION, PROXY_AUTHORIZATION};
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::judge::{Phase, Step};
use http::header::REFERER;
use parking_lot::Mutex;
use serde::Serialize;

use super::account::{Account, Happened, Later, Stated};
use super::ring::{Ring, RingEntry};
use crate::snapshot::{ListenerRules, Snapshot};

/// Refusals that a node remembers of users, and as many of strangers and of handshakes, which cannot push out those of users: minutes
/// of what goes wrong, and some megabytes at most. The owner of most of them loses its oldest for the next.
#[doc(alias = "bound")]
const REMEMBERED: usize = 512;

/// Packets that rules denied and that are remembered, over all tunnels.
#[doc(alias = "bound")]
const PACKETS: usize = 1024;

/// Bytes of the fields that are kept of a refused request, names included: fields that rules look at are shorter. The lines behind that
/// are forgotten.
#[doc(alias = "bound")]
const FIELD_BYTES: usize = 4096;

/// Bytes of method, authority and path together that are kept of a refused request; longer ones are not compared again.
#[doc(alias = "bound")]
const LINE_BYTES: usize = 4096;

/// Bytes of the reason that are kept: a client chooses parts of it.
#[doc(alias = "bound")]
const REASON_BYTES: usize = 1024;

/// The last refusals.
#[derive(Default)]
pub struct LastRefusals {
    /// Of exchanges whose user is known.
    users: Mutex<Ring<Arc<RememberedRefusal>>>,
    /// Of all others.
    strangers: Mutex<Ring<Arc<RememberedRefusal>>>,
    /// Of handshakes, which anyone can begin: a flood of them pushes out nothing else.
    handshakes: Mutex<Ring<Arc<RememberedRefusal>>>,
    /// Of packets within tunnels that go on.
    packets: Mutex<Ring<Arc<RememberedRefusal>>>,
}

/// One refusal, or the end of a tunnel that this node has brought about.
pub struct RememberedRefusal {
    /// Its number, which the client was told.
    pub id: RefusalId,
    /// When it happened.
    pub time: SystemTime,
    /// The revision of the rules that refused it.
    pub revision: u64,
    /// Where it came in.
    pub listener: Arc<str>,
    /// The connection that it came on.
    pub source: Arc<StreamInfo>,
    /// The kind of arrival that became no exchange.
    pub instead: Instead,
    /// The exchange as it was then; `None` where there was no request.
    pub learnt: Option<Learnt>,
    /// The request; `None` once its head went on.
    pub head: Option<Box<RequestHead>>,
    /// The last thing that was compared.
    pub last: Step,
    /// The status of the answer; `None` where there was none.
    pub status: Option<u16>,
}

/// Why an exchange is refused.
pub struct Cause {
    /// The phase and the place in the document; `None`: those that the exchange had come to.
    pub at: Option<(Phase, String)>,
    /// In words.
    pub said: String,
    /// The status of the answer.
    pub status: Option<u16>,
}

/// An arrival that was refused before it became an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    /// Bytes that came as a request, and are none.
    Request,
    /// A handshake of TLS over TCP.
    Tls,
    /// One of QUIC.
    Quic,
    /// A packet in a tunnel.
    Packet,
}

impl Instead {
    fn words(self) -> &'static str {
        match self {
            Self::Request => "what is no request",
            Self::Tls => "a TLS handshake",
            Self::Quic => "a QUIC handshake",
            Self::Packet => "a packet",
        }
    }
}

/// The circumstances in which an exchange is refused.
pub struct Circumstances<'a> {
    /// The rules that refused it.
    pub snapshot: &'a Snapshot,
    /// Those of its listener.
    pub listener: &'a ListenerRules,
    /// The connection that it came on.
    pub source: &'a Arc<StreamInfo>,
    /// Its record, if it became an exchange.
    pub exchange: Option<&'a Exchange>,
    /// The kind of arrival, where there is no exchange.
    pub instead: Instead,
    /// The request, as far as it is still here.
    pub head: Option<&'a RequestHead>,
    /// Position of its route.
    pub route: Option<usize>,
}

impl Cause {
    /// Of a refusal.
    pub fn of(refusal: &Refusal) -> Self {
        Self {
            at: refusal.place(),
            said: refusal.reason(),
            status: Some(refusal.code().as_u16()),
        }
    }
}

impl Circumstances<'_> {
    /// The kept part of the request, without a path that is a secret.
    fn kept_head(&self) -> Option<RequestHead> {
        let mut kept = self.head.and_then(kept)?;
        if let Some(shown) = self.exchange.and_then(Exchange::shown_path) {
            // Its beginning stands in the document, so that routes are found by it as before.
            kept.path = Some(shown.parse().ok()?);
            kept.fields.remove(REFERER);
        }
        Some(kept)
    }

    /// The place in the document that the exchange had come to: the upstream that it was sent to, its route, or its listener.
    fn place(&self, learnt: Option<&Learnt>) -> (Phase, String) {
        let upstream = learnt.and_then(|learnt| learnt.view.upstream.as_deref());
        let known = upstream.filter(|name| self.snapshot.document.upstreams.contains_key(*name));
        match (known, self.route) {
            (Some(name), _) => (Phase::Forward, child("upstreams", name)),
            (None, Some(index)) => (Phase::Forward, element("routes", index)),
            (None, None) => (Phase::Accept, child("listeners", &self.listener.name)),
        }
    }
}

impl LastRefusals {
    /// Remembers a refusal under this name, and forgets the oldest of the user or source that has most for it.
    pub fn remember(&self, id: RefusalId, circumstances: &Circumstances<'_>, cause: Cause) {
        let learnt = circumstances.exchange.map(Exchange::learnt);
        let is_user = learnt
            .as_ref()
            .is_some_and(|learnt| learnt.view.user.is_some());

        let (phase, path) = cause
            .at
            .unwrap_or_else(|| circumstances.place(learnt.as_ref()));
        let exchange = circumstances.exchange;
        let mut said = match exchange {
            Some(exchange) => exchange.without_secret(&cause.said).into_owned(),
            None => cause.said,
        };
        said.truncate(said.floor_char_boundary(REASON_BYTES));
        said.shrink_to_fit();

        let remembered = Arc::new(RememberedRefusal {
            id,
            time: SystemTime::now(),
            revision: circumstances.snapshot.revision,
            listener: circumstances.listener.name.clone(),
            source: without_chain(circumstances.source),
            instead: circumstances.instead,
            learnt,
            head: circumstances.kept_head().map(Box::new),
            last: Step { phase, path, said },
            status: cause.status,
        });

        let (ring, most) = match circumstances.instead {
            Instead::Tls | Instead::Quic => (&self.handshakes, REMEMBERED),
            Instead::Packet => (&self.packets, PACKETS),
            Instead::Request if is_user => (&self.users, REMEMBERED),
            Instead::Request => (&self.strangers, REMEMBERED),
        };
        let forgotten = ring.lock().push(remembered, most);
        // Their memory is freed without the lock.
        drop(forgotten);
    }

    /// The last refusal of this name, or of the exchange with this identifier; of a tunnel that goes on, the last packet of it that was
    /// denied.
    pub fn find(&self, asked: &str) -> Option<Arc<RememberedRefusal>> {
        let id = asked.parse::<RefusalId>().ok();
        let rings = [
            &self.users,
            &self.strangers,
            &self.handshakes,
            &self.packets,
        ];
        rings
            .into_iter()
            .find_map(|ring| ring.lock().find(|known| known.is(id, asked)))
    }
}

/// A refusal that is remembered, on one line.
#[derive(Debug, Serialize)]
pub struct RefusalLine {
    time: String,
    /// Its name, by which `hermes why` tells of it.
    refusal: String,
    source: String,
    user: Option<String>,
    listener: String,
    /// The request.
    target: String,
    status: Option<u16>,
    reason: String,
}

impl LastRefusals {
    /// All that are remembered, the latest first.
    pub fn lines(&self) -> Vec<RefusalLine> {
        let rings = [
            &self.users,
            &self.strangers,
            &self.handshakes,
            &self.packets,
        ];
        let mut all = Vec::new();
        for ring in rings {
            all.extend(ring.lock().iter().cloned());
        }
        all.sort_by_key(|known| std::cmp::Reverse(known.time));
        all.iter().map(|known| known.line()).collect()
    }
}

impl RememberedRefusal {
    /// Whose it is: its user's, or its source's where there is none.
    pub fn owner(&self) -> Owner {
        let view = self.learnt.as_ref().map(|learnt| &learnt.view);
        let user = view.and_then(|view| view.user.as_deref());
        Owner::of(user, &self.source.peer)
    }

    /// Bytes that it takes, as far as others choose them.
    pub fn size(&self) -> usize {
        let head = self.head.as_ref().map_or(0, |head| {
            line_bytes(head) + head.fields.size() + head.fields.len() * size_of::<[usize; 2]>()
        });
        let names = self.source.tls.as_ref().map_or(0, |tls| tls_bytes(tls));
        let learnt = self.learnt.as_ref().map_or(0, learnt_bytes);

        size_of::<Self>() + size_of::<RequestHead>() + head + names + learnt + self.last.said.len()
    }

    fn line(&self) -> RefusalLine {
        let view = self.learnt.as_ref().map(|learnt| &learnt.view);
        RefusalLine {
            time: humantime::format_rfc3339_seconds(self.time).to_string(),
            refusal: self.id.to_string(),
            source: self.source.peer.to_string(),
            user: view.and_then(|view| view.user.clone()),
            listener: self.listener.to_string(),
            target: self.question(),
            status: self.status,
            reason: self.last.said.clone(),
        }
    }

    /// The request.
    fn question(&self) -> String {
        let view = self.learnt.as_ref().map(|learnt| &learnt.view);
        let question = view.map(|view| format!("{} {}", view.method, view.target));
        let question = question.unwrap_or_else(|| self.instead.words().to_owned());
        question.trim().to_owned()
    }

    fn is(&self, id: Option<RefusalId>, asked: &str) -> bool {
        let is_exchange = |learnt: &Learnt| learnt.view.id == asked;
        Some(self.id) == id || self.learnt.as_ref().is_some_and(is_exchange)
    }

    /// The account of it, with these steps.
    pub fn account(
        &self,
        snapshot: &Snapshot,
        steps: Vec<Step>,
        places: &Result<Places, String>,
    ) -> Account {
        let view = self.learnt.as_ref().map(|learnt| &learnt.view);
        let known = places.as_ref().ok();
        let stated = steps.into_iter().map(|step| Stated::new(step, known));
        let refused_by = self
            .learnt
            .as_ref()
            .and_then(|learnt| learnt.refused_by.as_ref());

        let happened = Happened {
            refusal: self.id.to_string(),
            exchange: view.map(|view| view.id.clone()),
            time: humantime::format_rfc3339_micros(self.time).to_string(),
            source: self.source.peer.to_string(),
            upstream: view.and_then(|view| view.upstream.clone()),
            endpoint: view.and_then(|view| view.endpoint.clone()),
            refused_by: later(refused_by),
            revision: self.revision,
            revision_now: snapshot.revision,
        };

        Account {
            question: self.question(),
            node: Some(snapshot.node.name.to_string()),
            listener: self.listener.to_string(),
            steps: stated.collect(),
            user: view.and_then(|view| view.user.clone()),
            route: view.and_then(|view| view.route.clone()),
            refused: Some(self.last.said.clone()),
            status: self.status,
            without_lines: places.as_ref().err().cloned(),
            happened: Some(happened),
            ..Account::default()
        }
    }
}

/// The kept part of a request: no credentials, and only some fields. Nothing of it is a part of a buffer that the whole head
/// was read into. Nothing is kept where its line is too long.
fn kept(head: &RequestHead) -> Option<RequestHead> {
    if line_bytes(head) > LINE_BYTES {
        return None;
    }
    let path = head.path.as_ref().map(|path| path.as_str().parse());
    let authority = head.authority.as_ref().map(|name| name.as_str().parse());
    let mut kept = RequestHead {
        method: head.method.clone(),
        scheme: head.scheme.clone(),
        authority: authority.transpose().ok()?,
        path: path.transpose().ok()?,
        protocol: head.protocol.clone(),
        fields: Default::default(),
        version: head.version,
        origin_form: head.origin_form,
    };

    let mut bytes = 0;
    let secret = [AUTHORIZATION.as_str(), PROXY_AUTHORIZATION.as_str()];
    for (name, value) in head.fields.iter() {
        bytes += name.as_str().len() + value.as_bytes().len();
        if bytes > FIELD_BYTES {
            break;
        }
        if !secret.contains(&name.as_str()) {
            kept.fields.append(name, value);
        }
    }

    Some(kept)
}

fn line_bytes(head: &RequestHead) -> usize {
    let authority = head
        .authority
        .as_ref()
        .map_or(0, |name| name.as_str().len());
    head.method.as_str().len() + authority + head.path().len()
}

/// Where it came from, without the certificates that were shown: only their names are compared.
fn without_chain(source: &Arc<StreamInfo>) -> Arc<StreamInfo> {
    match &source.tls {
        Some(tls) if tls.chain.is_some() => {
            let tls = TlsPeer {
                chain: None,
                ..(**tls).clone()
            };
            Arc::new(StreamInfo {
                tls: Some(Box::new(tls)),
                ..(**source).clone()
            })
        }
        _ => source.clone(),
    }
}

fn tls_bytes(tls: &TlsPeer) -> usize {
    let server_name = tls.server_name.as_ref().map_or(0, String::len);
    let certificate = tls.certificate.as_ref().map_or(0, |names| {
        text_bytes(&names.uris) + text_bytes(&names.emails) + text_bytes(&names.dns)
    });

    size_of::<TlsPeer>() + server_name + certificate
}

/// Bytes of texts that are clipped each, but may be many.
fn learnt_bytes(learnt: &Learnt) -> usize {
    let lists = [
        &learnt.filters,
        &learnt.claimed,
        &learnt.removed,
        &learnt.tried,
    ];
    let lists: usize = lists.into_iter().map(|texts| text_bytes(texts)).sum();
    let view = &learnt.view;

    size_of::<Learnt>() + lists + view.target.len() + view.method.len()
}

fn text_bytes(texts: &[String]) -> usize {
    texts
        .iter()
        .map(|text| size_of::<String>() + text.len())
        .sum()
}

/// A later proxy's refusal, as an answer says it.
fn later(refused_by: Option<&LaterRefusal>) -> Option<Later> {
    refused_by.map(|later| Later {
        node: later.node.clone(),
        refusal: later.id.map(|id| id.to_string()),
    })
}

impl RingEntry for Arc<RememberedRefusal> {
    fn owner(&self) -> Owner {
        (**self).owner()
    }

    fn size(&self) -> usize {
        (**self).size()
    }
}
