//! Aggregation: a node on the way to a relay subscribes once for all its subscribers of a channel, the handler `aggregate`.
//!
//! It stands between requests and their next hop. The first subscriber's request goes on, as that of a relay; those who come later and are
//! of the same credential class share its stream. Messages that are published go on as they are.

mod class;
mod joins;
mod upstream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_http::{Incoming, RequestHead};
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Opener, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::MEDIA_TYPE;
use hermes_proto::relay::fields::{SUBSCRIBE, Subscribe, Subscribed};
use http::{HeaderValue, Method, header};

use crate::certified;
use crate::handler::{Asked, Relay, malformed};
use crate::query::take_apart;
use crate::settings::{RelaySettings, Rules};
use crate::space::Space;
pub(crate) use joins::Joins;
use joins::{Join, Slot};
use upstream::{Begin, Upstream, UpstreamRefusal};

/// Joins subscribers.
pub(crate) struct Aggregate {
    relay: Relay,
    joins: Arc<Joins>,
}

/// The first subscriber, in whose name this node subscribes.
struct First {
    head: RequestHead,
    onward: Onward,
    opener: Opener,
    rules: Arc<Rules>,
}

/// The answer to a subscriber whose request has gone on.
enum Opened {
    /// A channel is there to subscribe to.
    Channel(Arc<Join>),
    /// The next hop has answered something else, which is the answer.
    Other(Box<Response>),
}

impl Aggregate {
    /// Subscribers of this space are joined.
    pub(crate) fn new(space: Arc<Space>, joins: Arc<Joins>) -> Self {
        Self {
            relay: Relay::new(space),
            joins,
        }
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let details = "subscriptions are joined between a request and its next hop";
        let Some(rules) = self.relay.rules.clone() else {
            return Err(Refusal::new(
                ProxyError::ProxyConfigurationError,
                "the aggregate has no rules",
            ));
        };
        let Some(onward) = request.onward.clone() else {
            return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
        };
        let path = request.head.path.as_ref().map_or("/", |path| path.as_str());
        let path = take_apart(path);
        let is_subscription = path.subscription.is_some();
        let method = request.head.method.clone();
        let is_ours = method == Method::GET
            || (is_subscription && matches!(method, Method::POST | Method::PUT | Method::DELETE));
        // Whose receiver proves its key, and with each request anew, is subscribed to by itself.
        let is_certified = certified::keys(&path.channel)?.receiver.is_some();
        if !is_ours || is_certified {
            let content = request.content.into_incoming();
            let (head, content) = onward.send(request.head, content).await?;
            return Ok(Response::Stream(head, content));
        }

        let class = class::of(&request);
        let owner = Owner::of(request.user.as_deref(), &request.source.peer).to_string();
        let mut asked = Asked {
            // Channels of this node itself begin with their host.
            key: format!("/{class}/{}{}", request.target, path.channel),
            owner: self.relay.space.account(&owner),
            path,
            rules,
            mirror: None,
            request,
        };
        match method {
            Method::GET => self.subscribe(asked, onward).await,
            Method::DELETE => self.relay.leave(&asked),
            _ => self.renew(&mut asked).await,
        }
    }

    async fn subscribe(&self, mut asked: Asked, onward: Onward) -> Result<Response, Refusal> {
        let wish = Subscribe::read(&asked.request.head.fields);
        let wish = wish.map_err(|error| malformed(&error))?;
        let first = First {
            head: onward_head(&asked.request.head, &wish),
            onward,
            opener: asked.request.opener.clone(),
            rules: asked.rules.clone(),
        };
        let slot = self.joins.slot(&asked.key);
        let mut held = slot.join.lock().await;
        let alive = held.as_ref().filter(|join| !join.is_over()).cloned();
        let join = match alive {
            Some(join) => join,
            // Under its name nothing else is to be had.
            None if asked.path.subscription.is_some() => {
                return Err(crate::handler::no_subscription());
            }
            None => match self.open(first, &slot).await? {
                Opened::Channel(join) => {
                    *held = Some(join.clone());
                    join
                }
                Opened::Other(other) => return Ok(*other),
            },
        };
        // While it is there, the subscription to the relay is not left.
        let _comes = join.comes();
        drop(held);

        if let Some(refused) = lengthen(&join, &wish, &asked.rules).await {
            return Ok(refused.response());
        }
        asked.mirror = Some(join.channel.clone());
        self.relay.subscribe(asked).await
    }

    async fn renew(&self, asked: &mut Asked) -> Result<Response, Refusal> {
        let wish = Subscribe::read(&asked.request.head.fields);
        let wish = wish.map_err(|error| malformed(&error))?;
        let slot = self.joins.slot(&asked.key);
        let join = slot.join.lock().await.clone();
        if let Some(join) = join
            && let Some(refused) = lengthen(&join, &wish, &asked.rules).await
        {
            return Ok(refused.response());
        }
        self.relay.renew(asked)
    }

    /// Subscribes at the next hop, in the name of the first who asks.
    async fn open(&self, first: First, slot: &Arc<Slot>) -> Result<Opened, Refusal> {
        let First {
            head,
            onward,
            opener,
            rules,
        } = first;
        let (answer, content) = onward.send(head.clone(), Incoming::Empty).await?;
        let subscribed = Subscribed::read(&answer.fields).ok().flatten();
        let kind = answer.fields.get(header::CONTENT_TYPE);
        let is_native = kind.is_some_and(|kind| kind.as_bytes() == MEDIA_TYPE.as_bytes());
        let Some(subscribed) = subscribed.filter(|_| is_native && answer.status.is_success())
        else {
            let other = Response::Stream(answer, content);
            return Ok(Opened::Other(Box::new(other)));
        };

        let upstream = Upstream {
            onward,
            head,
            location: upstream::location(&answer),
            heartbeat: Duration::from_secs(subscribed.heartbeat.max(1)),
            opener,
            rules,
        };
        let begin = Begin {
            at: subscribed.at,
            content,
            expires: Instant::now() + Duration::from_secs(subscribed.timeout),
            held: &self.relay.space.held,
        };
        Ok(Opened::Channel(upstream.begin(begin, slot)))
    }
}

/// Has the subscription at the relay last as long as this one asks; the relay's refusal, if it does not want that.
async fn lengthen(join: &Join, wish: &Subscribe, rules: &Rules) -> Option<UpstreamRefusal> {
    let lasts = wish.timeout.map(Duration::from_secs);
    let lasts = lasts.unwrap_or(rules.timeout).min(rules.max_timeout);
    join.lengthen(lasts, wish.timeout.is_some()).await.err()
}

/// The request of a relay for its receivers: in the native form, or in any that the first of them takes where there is no relay.
fn onward_head(head: &RequestHead, wish: &Subscribe) -> RequestHead {
    let mut head = head.clone();
    let accepted = head.fields.values(header::ACCEPT);
    let accepted = accepted.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let accepted: Vec<_> = std::iter::once(MEDIA_TYPE.to_owned())
        .chain(accepted)
        .collect();
    if let Ok(value) = HeaderValue::try_from(accepted.join(", ")) {
        head.fields.insert(header::ACCEPT, value);
    }
    let wish = Subscribe {
        from: None,
        receivers: Some(wish.receivers.unwrap_or(1)),
        // Each receiver has a share of its own here.
        share: None,
        ..*wish
    };
    if let Some(value) = wish.value() {
        head.fields.insert(SUBSCRIBE, value);
    }
    // They are about the stream of one receiver.
    head.fields.remove("last-event-id");
    head.fields.remove("prefer");
    head
}

impl Handler for Aggregate {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let space = self.relay.space.clone();
        let joins = self.joins.clone();
        Some(Settings::new(move |settings: RelaySettings| {
            let aggregate: Arc<dyn Handler> = Arc::new(Self {
                relay: Relay {
                    space: space.clone(),
                    rules: Some(Arc::new(settings.rules()?)),
                },
                joins: joins.clone(),
            });
            Ok(aggregate)
        }))
    }

    fn stands_between(&self) -> bool {
        true
    }

    /// Who knows the URI of a channel may read it.
    fn hides_paths(&self) -> bool {
        true
    }
}
