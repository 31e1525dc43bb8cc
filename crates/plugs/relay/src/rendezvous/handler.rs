//! The requests of clients, which are sent to relays, and the heartbeats of these.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_http::ResponseHead;
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Response, Settings};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::relay::fields::{Heartbeat, asked_relay};
use http::{HeaderValue, StatusCode, header};

use super::meeting::Meeting;
use super::settings::{RendezvousRules, RendezvousSettings};
use super::table::Question;
use crate::certified::seconds;
use crate::handler::{jitter, malformed, redirect};
use crate::moves::{GrantKey, is_heartbeat, make_grant};
use crate::query::take_apart;
use crate::space::Space;

/// The longest name of a relay in bytes.
#[doc(alias = "bound")]
const MAX_RELAY: usize = 255;

/// How far the clock of a relay may be from ours, at least.
const VALID: Duration = Duration::from_mins(1);

/// Sends clients to relays.
pub(crate) struct Rendezvous {
    space: Arc<Space>,
    meeting: Arc<Meeting>,
    rules: Option<RendezvousRules>,
}

impl Rendezvous {
    /// A rendezvous whose key is that of this space.
    pub(crate) fn new(space: Arc<Space>, meeting: Arc<Meeting>) -> Self {
        let rules = RendezvousSettings::default().rules();
        Self {
            space,
            meeting,
            rules: rules.ok(),
        }
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let (Some(key), Some(rules)) = (self.space.moves.key(), &self.rules) else {
            let details =
                "a rendezvous needs the key of its relays: `plugs: { relay: { key_file } }`";
            return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
        };
        let fields = &request.head.fields;
        let heartbeat = Heartbeat::read(fields).map_err(|error| malformed(&error))?;
        if let Some(heartbeat) = heartbeat {
            return self.hear(&heartbeat, &key, rules);
        }

        let path = request.head.path.as_ref().map_or("/", |path| path.as_str());
        let channel = take_apart(path).channel;
        let wish = asked_relay(fields).map_err(|error| malformed(&error))?;
        let client = request.source.peer.socket().map(|address| address.ip());
        let near = rules.near(client);
        let owner = Owner::of(request.user.as_deref(), &request.source.peer);
        let question = Question {
            channel: &channel,
            wish: wish.as_deref(),
            near: &near,
            owner: &owner.to_string().into(),
            is_stateless: rules.is_stateless,
            lost_after: rules.lost_after,
        };
        let relay = self.meeting.relay(&question, &key).await;
        let relay = relay.ok_or_else(no_relay)?;
        let grant = make_grant(&key, &relay, &channel, seconds());
        let mark = if channel.contains('?') { '&' } else { '?' };
        Ok(redirect(format!("http://{relay}{channel}{mark}g={grant}")))
    }

    /// Takes the heartbeat of a relay.
    fn hear(
        &self,
        heartbeat: &Heartbeat,
        key: &GrantKey,
        rules: &RendezvousRules,
    ) -> Result<Response, Refusal> {
        let Heartbeat { relay, time, mac } = heartbeat;
        let forged = |details| {
            let refusal = Refusal::new(ProxyError::HttpRequestDenied, details);
            Err(refusal.status(StatusCode::FORBIDDEN))
        };
        if relay.len() > MAX_RELAY || !is_heartbeat(key, mac, relay, *time) {
            return forged("the heartbeat is not of a relay that has the key");
        }
        // By the clock of the relay, within that of ours: a table that was lost must not take old ones for new.
        let now = seconds() * 1000;
        let valid = rules.lost_after.max(VALID);
        if u128::from(time.abs_diff(now)) > valid.as_millis() {
            return forged("the heartbeat is too old, or of the future: is the clock right?");
        }
        if !self.meeting.hear(heartbeat, valid, rules.lost_after) {
            return forged("the heartbeat came already, or there are too many relays");
        }
        let head = ResponseHead::new(StatusCode::NO_CONTENT);
        Ok(Response::Whole(head, Bytes::new()))
    }
}

impl Handler for Rendezvous {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    /// The paths are those of channels, which may be secrets.
    fn hides_paths(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let space = self.space.clone();
        let meeting = self.meeting.clone();
        Some(Settings::new(move |settings: RendezvousSettings| {
            let rendezvous: Arc<dyn Handler> = Arc::new(Self {
                space: space.clone(),
                meeting: meeting.clone(),
                rules: Some(settings.rules()?),
            });
            Ok(rendezvous)
        }))
    }
}

fn no_relay() -> Refusal {
    let mut fields = Fields::new();
    fields.insert(header::RETRY_AFTER, HeaderValue::from(jitter(4)));
    let details = "no relay is there: none has said so within `lost_after`";
    Refusal::new(ProxyError::DestinationUnavailable, details)
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .fields(fields)
}
