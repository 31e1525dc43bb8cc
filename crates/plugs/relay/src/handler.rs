//! The requests of a relay, by method and URI.

mod hold;
mod subscribe;

pub(crate) use subscribe::{jitter, no_subscription};

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_certified::APPROVE;
use hermes_http::ResponseHead;
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Response, Settings};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::MEDIA_TYPE;
use hermes_proto::relay::fields::{DELIVERED, Delivered, FORWARDED, FieldError, MOVE, Publish};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::task::yield_now;

use crate::account::Account;
use crate::certified::{self, Claim};
use crate::channel::{Channel, NoRoom};
use crate::moves::GrantCheck;
use crate::publish::{NotPublished, Publishing, SignedRequest};
use crate::query::{ChannelPath, take_apart};
use crate::settings::{RelaySettings, Rules};
use crate::space::{Asking, Space};

/// The longest time for which a message or a reader may ask to wait, with `Prefer: wait=SECONDS` (RFC 7240, section 4.3).
#[doc(alias = "bound")]
const MAX_WAIT: Duration = Duration::from_mins(1);

/// The media type of HTML forms.
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// How long a reliable message waits for room if it does not say.
const WAIT: Duration = Duration::from_secs(10);

/// Answers subscribers and publishers.
pub(crate) struct Relay {
    pub(crate) space: Arc<Space>,
    pub(crate) rules: Option<Arc<Rules>>,
}

/// A request, read.
pub(crate) struct Asked {
    pub(crate) request: HandlerRequest,
    pub(crate) path: ChannelPath,
    /// The key of the channel: its host and path.
    pub(crate) key: String,
    pub(crate) owner: Arc<Account>,
    pub(crate) rules: Arc<Rules>,
    /// The channel, where it is that of another relay.
    pub(crate) mirror: Option<Arc<Channel>>,
}

impl Relay {
    /// A relay of the channels of this space.
    pub(crate) fn new(space: Arc<Space>) -> Self {
        let rules = RelaySettings::default().rules();
        Self {
            space,
            rules: rules.ok().map(Arc::new),
        }
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let Some(rules) = self.rules.clone() else {
            let details = "the relay has no rules";
            return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
        };
        let path = request.head.path.as_ref().map_or("/", |path| path.as_str());
        let path = take_apart(path);
        let owner = Owner::of(request.user.as_deref(), &request.source.peer).to_string();
        let asked = Asked {
            key: format!("{}{}", request.target, path.channel),
            owner: self.space.account(&owner),
            path,
            rules,
            mirror: None,
            request,
        };
        if let Some(elsewhere) = self.check_grant(&asked)? {
            return Ok(elsewhere);
        }
        let is_subscription = asked.path.subscription.is_some();
        match asked.request.head.method {
            Method::GET => self.subscribe(asked).await,
            Method::POST if asked.request.head.fields.get(MOVE).is_some() => self.hold(&asked),
            Method::POST if asked.request.head.fields.get(APPROVE).is_some() => {
                let claim = asked.claim(&self.space)?;
                claim.approve(&asked.request.head.fields)?;
                let head = ResponseHead::new(StatusCode::NO_CONTENT);
                Ok(Response::Whole(head, Bytes::new()))
            }
            Method::POST | Method::PUT if is_subscription => self.renew(&asked),
            Method::DELETE if is_subscription => self.leave(&asked),
            Method::POST | Method::PUT => self.publish(asked).await,
            _ => Err(wrong_method(is_subscription)),
        }
    }

    /// Checks that a rendezvous sent the client here, where this relay serves no one else: the way to the rendezvous, if it did not.
    fn check_grant(&self, asked: &Asked) -> Result<Option<Response>, Refusal> {
        let membership = self.space.moves.membership();
        let Some(membership) = membership.filter(|membership| membership.needs_grants) else {
            return Ok(None);
        };
        let method = &asked.request.head.method;
        // One that was begun with a grant goes on without: its name is a secret. Relays have grants of their own.
        let is_known = asked.path.subscription.as_deref().is_some_and(|id| {
            let known = self.space.subscription(id, &asked.asking());
            known.is_some() || method == Method::DELETE
        });
        if is_known || asked.request.head.fields.get(MOVE).is_some() {
            return Ok(None);
        }
        let grant = asked.path.grant.as_deref();
        match membership.check(grant, &asked.path.channel, certified::seconds()) {
            GrantCheck::Good => Ok(None),
            GrantCheck::Forged => {
                let details =
                    "the grant is not of a rendezvous of this relay, or for another channel";
                Err(Refusal::new(ProxyError::HttpRequestDenied, details)
                    .status(StatusCode::FORBIDDEN))
            }
            GrantCheck::None => Ok(membership.rendezvous_uri(&asked.path.channel).map(redirect)),
        }
    }

    async fn publish(&self, asked: Asked) -> Result<Response, Refusal> {
        let HandlerRequest {
            head,
            mut content,
            user,
            opener,
            ..
        } = asked.request;
        let fields = &head.fields;
        let how = Publish::read(fields).map_err(|error| malformed(&error))?;
        let claim = Claim {
            certified: &self.space.certified,
            channel: &asked.path.channel,
            keys: certified::keys(&asked.path.channel)?,
            key: &asked.key,
            user: user.as_deref(),
            account: &asked.owner,
        };
        let content_type = fields.get(header::CONTENT_TYPE);
        let is_stream = content_type.is_some_and(|kind| kind.as_bytes() == MEDIA_TYPE.as_bytes());
        // Each message of a stream has its own proof.
        let proof = match is_stream {
            true => None,
            false => claim.of_publisher(fields)?,
        };
        // curl names this type for whatever it is given: it says nothing.
        let content_type = content_type.filter(|kind| proof.is_some() || kind.as_bytes() != FORM);
        let content_type = content_type.map(|kind| Bytes::copy_from_slice(kind.as_bytes()));
        let publishing = Publishing {
            space: &self.space,
            channel: self.space.channel(&asked.key),
            how,
            content_type,
            owner: &asked.owner,
            limit: asked.rules.message,
            long_limit: asked.rules.long_message,
            wait: wait(fields).unwrap_or(WAIT),
            path: &asked.path.channel,
            opener,
            is_forwarded: fields.get(FORWARDED).is_some(),
            claim,
        };
        let signed = proof.map(|proof| SignedRequest { fields, proof });
        let published = match is_stream {
            true => publishing.each(&mut content).await,
            false => publishing.whole(&mut content, signed.as_ref()).await,
        };
        // Receivers on this worker were woken. Their writes come first: the answer is one more system call ahead of each of them.
        yield_now().await;
        match published {
            Ok(delivered) => Ok(delivered_to(StatusCode::OK, &delivered)),
            Err(NotPublished::NoRoom(no_room, before)) => Ok(no_room_for(no_room, before)),
            Err(NotPublished::Refused(refusal)) => Err(refusal),
        }
    }
}

impl Handler for Relay {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    /// Who knows the URI of a channel may read it.
    fn hides_paths(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let space = self.space.clone();
        Some(Settings::new(move |settings: RelaySettings| {
            let relay: Arc<dyn Handler> = Arc::new(Self {
                space: space.clone(),
                rules: Some(Arc::new(settings.rules()?)),
            });
            Ok(relay)
        }))
    }
}

impl Asked {
    /// By which the request may do as it asks, where the channel names keys.
    pub(crate) fn claim<'a>(&'a self, space: &'a Space) -> Result<Claim<'a>, Refusal> {
        Ok(Claim {
            certified: &space.certified,
            channel: &self.path.channel,
            keys: certified::keys(&self.path.channel)?,
            key: &self.key,
            user: self.request.user.as_deref(),
            account: &self.owner,
        })
    }

    fn asking(&self) -> Asking<'_> {
        Asking {
            key: &self.key,
            owner: &self.owner,
            user: self.request.user.as_deref(),
            rules: &self.rules,
            mirror: self.mirror.as_ref(),
            begins: None,
        }
    }
}

/// An answer to a publisher: the counts as a field, and as a line for people.
fn delivered_to(status: StatusCode, delivered: &Delivered) -> Response {
    let mut head = ResponseHead::new(status);
    if let Some(value) = delivered.value() {
        head.fields.insert(DELIVERED, value);
    }
    set(&mut head.fields, header::CACHE_CONTROL, "no-store");
    set(
        &mut head.fields,
        header::CONTENT_TYPE,
        "text/plain;charset=utf-8",
    );
    let line = match delivered {
        Delivered { receivers: 0, .. } => "no receivers\n".to_owned(),
        Delivered { dropped: 0, .. } => format!("receivers: {}\n", delivered.receivers),
        _ => {
            let receivers = delivered.receivers;
            let dropped = delivered.dropped;
            format!("receivers: {receivers}, lost for want of room: {dropped}\n")
        }
    };
    Response::Whole(head, line.into())
}

/// The answer where a receiver had no room in time.
fn no_room_for(no_room: NoRoom, before: Delivered) -> Response {
    let delivered = Delivered {
        receivers: no_room.receivers,
        ..before
    };
    let mut head = ResponseHead::new(StatusCode::SERVICE_UNAVAILABLE);
    if let Some(value) = delivered.value() {
        head.fields.insert(DELIVERED, value);
    }
    set(&mut head.fields, header::RETRY_AFTER, "1");
    set(
        &mut head.fields,
        header::CONTENT_TYPE,
        "text/plain;charset=utf-8",
    );
    let line = "a receiver had no room in time, and the message was put into no queue\n";
    Response::Whole(head, Bytes::from_static(line.as_bytes()))
}

/// The answer that sends a client to this URI.
pub(crate) fn redirect(uri: String) -> Response {
    let mut head = ResponseHead::new(StatusCode::TEMPORARY_REDIRECT);
    if let Ok(mut location) = HeaderValue::try_from(uri) {
        // The path of a channel is a secret of those who have it.
        location.set_sensitive(true);
        head.fields.insert(header::LOCATION, location);
    }
    set(&mut head.fields, header::CACHE_CONTROL, "no-store");
    Response::Whole(head, Bytes::new())
}

fn wrong_method(is_subscription: bool) -> Refusal {
    let (allowed, details) = match is_subscription {
        true => (
            "GET, POST, PUT, DELETE",
            "a subscription is taken by GET, renewed by POST and left by DELETE",
        ),
        false => (
            "GET, POST, PUT",
            "a channel is subscribed to by GET and published to by POST",
        ),
    };
    let mut fields = Fields::new();
    set(&mut fields, header::ALLOW, allowed);
    Refusal::new(ProxyError::HttpRequestError, details)
        .status(StatusCode::METHOD_NOT_ALLOWED)
        .fields(fields)
}

pub(crate) fn malformed(error: &FieldError) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, error.to_string())
}

fn set(fields: &mut Fields, name: HeaderName, value: &'static str) {
    fields.insert(name, HeaderValue::from_static(value));
}

/// The time of `Prefer: wait=SECONDS`.
fn wait(fields: &Fields) -> Option<Duration> {
    /// RFC 7240.
    const PREFER: HeaderName = HeaderName::from_static("prefer");

    fields.values(PREFER).find_map(|line| {
        let line = String::from_utf8_lossy(line.as_bytes());
        let mut preferences = line.split([',', ';']).map(str::trim);
        let seconds = preferences.find_map(|preference| preference.strip_prefix("wait="))?;
        let seconds = seconds.parse().ok()?;
        Some(Duration::from_secs(seconds).min(MAX_WAIT))
    })
}
