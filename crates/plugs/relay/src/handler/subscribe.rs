//! Requests about subscriptions: to begin, to come again, to last longer, to leave.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_http::ResponseHead;
use hermes_plug::Response;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::fields::{SUBSCRIBE, Subscribe, Subscribed};
use hermes_proto::relay::{End, Position, Stripe};
use http::{HeaderName, HeaderValue, StatusCode, header};
use tokio::time::timeout;

use super::{Asked, Relay, malformed, redirect, set, wait};
use crate::form::{EventStream, Form, accepted};
use crate::moves::Successor;
use crate::query;
use crate::settings::Rules;
use crate::share::{Ending, Sending};
use crate::space::Full;
use crate::stream::Stream;
use crate::subscription::{Subscription, missed};

/// The event that a browser has last (HTML, section 9.2.3).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A wish to be served piece by piece (draft-ietf-httpbis-incremental).
const INCREMENTAL: HeaderName = HeaderName::from_static("incremental");

/// A word to nginx and its like, that the answer is not to be collected.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Where a subscriber was.
#[derive(Default)]
struct Before {
    from: Option<Position>,
    subscription: Option<String>,
}

/// The place of a subscriber.
enum Place {
    Here(Found),
    /// At another relay: the answer that says so.
    Elsewhere(Box<Response>),
}

/// The subscription of a subscriber.
struct Found {
    subscription: Arc<Subscription>,
    /// Whether it has missed nothing.
    is_recovered: bool,
}

impl Relay {
    /// Begins a subscription, or goes on with one.
    pub(crate) async fn subscribe(&self, asked: Asked) -> Result<Response, Refusal> {
        let fields = &asked.request.head.fields;
        let wish = Subscribe::read(fields).map_err(|error| malformed(&error))?;
        let target = asked.request.head.path.as_ref();
        let target = target.map_or("/", |path| path.as_str());
        asked.claim(&self.space)?.subscriber(target, fields)?;
        let Some(form) = accepted(fields) else {
            return Err(no_form());
        };
        let lasts = match lasting(&wish, &asked.rules) {
            Ok(lasts) => lasts,
            Err(answer) => return Ok(answer),
        };

        let now = Instant::now();
        let found = match self.find_or_begin(&asked, &wish, now + lasts, now)? {
            Place::Here(found) => found,
            Place::Elsewhere(answer) => return Ok(*answer),
        };
        let Found {
            subscription,
            is_recovered,
        } = found;
        subscription.renew(now + lasts);
        if asked.mirror.is_none() && self.space.moves.successor().is_some() {
            *subscription.opener.lock() = Some(asked.request.opener.clone());
        }
        let Some(stream) = subscription.attach() else {
            return Err(no_subscription());
        };
        let form = match wish.receivers {
            Some(receivers) => {
                subscription.weigh(receivers);
                form.for_relays()
            }
            None => form,
        };
        let takes_pieces = matches!(form, Form::Native | Form::Relayed) && wait(fields).is_none();
        subscription.takes_pieces(takes_pieces);
        let stream = self.stream(&subscription, stream, form);
        if let Some(wait) = wait(fields) {
            return Ok(one(stream, wait).await);
        }
        let head = head(&asked, &subscription, form, lasts, is_recovered);
        Ok(Response::Feed(head, Box::new(stream)))
    }

    /// The subscription that the request goes on with, or a new one.
    fn find_or_begin(
        &self,
        asked: &Asked,
        wish: &Subscribe,
        expires: Instant,
        now: Instant,
    ) -> Result<Place, Refusal> {
        let before = before(asked, wish);
        let asking = asked.asking();
        let known = before.subscription.as_deref();
        let known = known.and_then(|id| self.space.subscription(id, &asking));
        if let Some(subscription) = known {
            subscription.stripe(wish.share);
            let is_recovered = subscription.recover(before.from, wish.share);
            return Ok(Place::Here(Found {
                subscription,
                is_recovered,
            }));
        }
        let successor = self.space.moves.going();
        let successor = successor.filter(|_| asked.mirror.is_none());
        let elsewhere = |successor| Place::Elsewhere(Box::new(elsewhere(successor, asked)));
        // Until the channel goes, who comes goes along with it.
        let is_here = || {
            let channel = self.space.channel(&asked.key);
            channel.is_some_and(|channel| channel.is_here())
        };
        if let Some(successor) = &successor
            && !is_here()
        {
            return Ok(elsewhere(successor));
        }
        // A name in the URI has to be right; that of an event may be old.
        if asked.path.subscription.is_some() {
            return Err(no_subscription());
        }
        let subscription = match (self.space.subscribe(&asking, expires, now), &successor) {
            (Err(Full::Moved), Some(successor)) => return Ok(elsewhere(successor)),
            (begun, _) => begun.map_err(full)?,
        };
        subscription.stripe(wish.share);
        let is_recovered = begin(&subscription, before.from, wish.share);
        Ok(Place::Here(Found {
            subscription,
            is_recovered,
        }))
    }

    /// Has a subscription last longer. One that asks for too long stays as it was.
    pub(crate) fn renew(&self, asked: &Asked) -> Result<Response, Refusal> {
        let wish = Subscribe::read(&asked.request.head.fields);
        let wish = wish.map_err(|error| malformed(&error))?;
        let subscription = self.named(asked)?;
        let lasts = match lasting(&wish, &asked.rules) {
            Ok(lasts) => lasts,
            Err(answer) => return Ok(answer),
        };
        subscription.renew(Instant::now() + lasts);
        if let Some(receivers) = wish.receivers {
            subscription.weigh(receivers);
        }
        let mut head = ResponseHead::new(StatusCode::NO_CONTENT);
        let renewed = subscribed(&subscription, lasts, true);
        if let Some(value) = renewed.and_then(|renewed| renewed.value()) {
            head.fields.insert(SUBSCRIBE, value);
        }
        Ok(Response::Whole(head, Bytes::new()))
    }

    /// Ends a subscription.
    pub(crate) fn leave(&self, asked: &Asked) -> Result<Response, Refusal> {
        let subscription = self.named(asked)?;
        let mut share = subscription.share.lock();
        let waker = share.end(subscription.member, Ending::of(End::Left));
        drop(share);
        match waker {
            // Its stream takes the last word, and removes it.
            Some(waker) => waker.wake(),
            None => self.space.remove(&subscription),
        }
        let head = ResponseHead::new(StatusCode::NO_CONTENT);
        Ok(Response::Whole(head, Bytes::new()))
    }

    fn named(&self, asked: &Asked) -> Result<Arc<Subscription>, Refusal> {
        let id = asked.path.subscription.as_deref().unwrap_or_default();
        let found = self.space.subscription(id, &asked.asking());
        found.ok_or_else(no_subscription)
    }

    fn stream(&self, subscription: &Arc<Subscription>, stream: u64, form: Form) -> Stream {
        let events = EventStream {
            epoch: subscription.channel.epoch,
            subscription: subscription.id.clone(),
        };
        Stream {
            space: self.space.clone(),
            subscription: subscription.clone(),
            sending: Sending {
                member: subscription.member,
                stream,
                form,
                events: (form == Form::EventStream).then_some(events),
            },
            is_over: false,
        }
    }
}

/// One message, or none in this time: for readers that take no endless content.
async fn one(mut stream: Stream, wait: Duration) -> Response {
    stream.is_over = true;
    let next = poll_fn(|cx| {
        let mut share = stream.subscription.share.lock();
        let others = share.take_others();
        let message = share.one(stream.sending.member, Instant::now());
        if message.is_none() {
            share.wait(stream.sending.member, cx);
        }
        drop(share);
        for other in others {
            other.wake();
        }
        message.map_or(Poll::Pending, Poll::Ready)
    });
    let Ok(message) = timeout(wait, next).await else {
        let head = ResponseHead::new(StatusCode::NO_CONTENT);
        return Response::Whole(head, Bytes::new());
    };

    let mut head = ResponseHead::new(StatusCode::OK);
    let kind = message.content_type.as_deref();
    let kind = kind.and_then(|kind| HeaderValue::from_bytes(kind).ok());
    if let Some(kind) = kind {
        head.fields.insert(header::CONTENT_TYPE, kind);
    }
    set(&mut head.fields, header::CACHE_CONTROL, "no-store");
    Response::Whole(head, message.data.clone())
}

/// Where the subscriber was: as its fields say, or as a browser repeats the name of its last event.
fn before(asked: &Asked, wish: &Subscribe) -> Before {
    let mut before = Before {
        from: wish.from,
        subscription: asked.path.subscription.clone(),
    };
    let last = asked.request.head.fields.get(LAST_EVENT_ID);
    let last = last.map(|last| String::from_utf8_lossy(last.as_bytes()).into_owned());
    // The name of an event is a position and a subscription.
    if let Some((position, subscription)) = last.as_deref().and_then(|last| last.rsplit_once('.'))
        && let Ok(position) = position.parse()
    {
        before.from.get_or_insert(position);
        let named = subscription.to_owned();
        before.subscription.get_or_insert(named);
    }
    before
}

/// Tells a new subscription what its subscriber missed since it was there before; whether it missed nothing.
fn begin(subscription: &Subscription, from: Option<Position>, stripe: Option<Stripe>) -> bool {
    let Some(from) = from else {
        return true;
    };
    let mut share = subscription.share.lock();
    let Some(sequence) = share.position(subscription.member) else {
        return false;
    };
    let at = Position {
        epoch: subscription.channel.epoch,
        sequence,
    };
    let gap = missed(from, at, stripe);
    if let Some(gap) = gap {
        share.tell(subscription.member, gap);
    }
    gap.is_none()
}

/// How long a subscription is to last; the answer to one that asks for too long.
fn lasting(wish: &Subscribe, rules: &Rules) -> Result<Duration, Response> {
    let Some(seconds) = wish.timeout else {
        return Ok(rules.timeout);
    };
    let asked = Duration::from_secs(seconds);
    if asked <= rules.max_timeout && seconds > 0 {
        return Ok(asked);
    }

    let most = rules.max_timeout.as_secs();
    let mut head = ResponseHead::new(StatusCode::UNPROCESSABLE_ENTITY);
    let value = HeaderValue::try_from(format!("max-timeout={most}"));
    if let Ok(value) = value {
        head.fields.insert(SUBSCRIBE, value);
    }
    set(
        &mut head.fields,
        header::CONTENT_TYPE,
        "application/problem+json",
    );
    let problem = serde_json::json!({
        "title": "the time-out of a subscription is out of bounds",
        "detail": format!("ask for 1 to {most} seconds"),
        "max-timeout": most,
    });
    Err(Response::Whole(head, problem.to_string().into()))
}

fn head(
    asked: &Asked,
    subscription: &Subscription,
    form: Form,
    lasts: Duration,
    is_recovered: bool,
) -> ResponseHead {
    let mut head = ResponseHead::new(StatusCode::OK);
    let fields = &mut head.fields;
    let answer = subscribed(subscription, lasts, is_recovered);
    if let Some(value) = answer.and_then(|answer| answer.value()) {
        fields.insert(SUBSCRIBE, value);
    }
    let location = query::of_subscription(&asked.path.channel, &subscription.id);
    if let Ok(mut location) = HeaderValue::try_from(location) {
        // Who knows it may end the subscription: it is for no log.
        location.set_sensitive(true);
        fields.insert(header::CONTENT_LOCATION, location);
    }
    set(fields, header::CONTENT_TYPE, form.media_type());
    set(fields, header::CACHE_CONTROL, "no-store");
    set(fields, header::VARY, "Accept, Hermes-Subscribe");
    set(fields, header::REFERRER_POLICY, "no-referrer");
    set(fields, INCREMENTAL, "?1");
    set(fields, ACCEL_BUFFERING, "no");
    head
}

/// Sends a subscriber to the relay that has taken the channel over. A browser repeats the name of its last event there.
fn elsewhere(successor: &Successor, asked: &Asked) -> Response {
    let path = asked.request.head.path.as_ref();
    let path = path.map_or("/", |path| path.as_str());
    redirect(successor.uri(path))
}

pub(super) fn subscribed(
    subscription: &Subscription,
    lasts: Duration,
    is_recovered: bool,
) -> Option<Subscribed> {
    let sequence = subscription.share.lock().position(subscription.member)?;
    Some(Subscribed {
        timeout: lasts.as_secs(),
        at: Position {
            epoch: subscription.channel.epoch,
            sequence,
        },
        is_recovered,
        heartbeat: subscription.rules.heartbeat.as_secs(),
    })
}

pub(crate) fn no_subscription() -> Refusal {
    let details = "there is no such subscription";
    Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::NOT_FOUND)
}

fn no_form() -> Refusal {
    let details = "a channel comes as application/hermes-adu, text/event-stream, application/x-ndjson, \
                   application/http, text/plain or application/octet-stream";
    Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::NOT_ACCEPTABLE)
}

/// Seconds after which a client is to come again, from 1 on: not all at the same time.
pub(crate) fn jitter(spread: u8) -> u16 {
    let mut byte = [0];
    // Without random numbers all come at the same time, which the node survives.
    let random = getrandom::fill(&mut byte).map_or(0, |()| byte[0] % spread);
    1 + u16::from(random)
}

pub(super) fn full(full: Full) -> Refusal {
    let mut fields = Fields::new();
    fields.insert(header::RETRY_AFTER, HeaderValue::from(jitter(10)));
    let refusal = |details: String| Refusal::new(ProxyError::ConnectionLimitReached, details);
    match full {
        Full::Owner(has) => refusal(format!("this user has {has} subscriptions already"))
            .status(StatusCode::TOO_MANY_REQUESTS),
        Full::Node => refusal("this node has too many subscriptions".to_owned()),
        Full::Moved => refusal("the channel goes to another relay".to_owned()),
        Full::NoName => refusal("the system gives no random numbers".to_owned()),
    }
    .fields(fields)
}
