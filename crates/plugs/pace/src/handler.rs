//! A request on its way to an origin that bounds its rate: it waits for its turn, is sent, and comes again where the origin refuses it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hermes_config::Problem;
use hermes_http::{Incoming, RequestHead, ResponseHead, StreamError};
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Response, Settings, Waits};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use sfv::{BareItem, Dictionary, ListEntry, Parser};
use tokio::time::timeout;

use crate::keeper::{Borrowed, Borrower, Keeper, Turn};
use crate::kept::{Content, KeptContent};
use crate::origin::{NotSent, Origin};
use crate::settings::{Mode, PaceSettings, Rules, SharedBy};
use crate::shared::Shared;
use crate::words::Told;

/// Bytes of a refusal that are kept, for a client whose request is not sent again.
#[doc(alias = "bound")]
const REFUSAL: usize = 4096;

/// Time for these.
const TAKING: Duration = Duration::from_secs(1);

/// Holds requests until their origin has room.
pub(crate) struct Pace {
    shared: Arc<Shared>,
    rules: Rules,
}

/// A request that is paced.
struct Paced {
    shared: Arc<Shared>,
    borrower: Option<Borrower>,
    origin: Arc<Origin>,
    head: RequestHead,
    who: Owner,
    onward: Onward,
    waits: Waits,
    deadline: Instant,
}

impl Pace {
    /// With every default.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let rules = PaceSettings::default().rules();
        Self {
            shared,
            rules: rules.expect("the defaults are right"),
        }
    }

    fn make(
        shared: Arc<Shared>,
        settings: &PaceSettings,
    ) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let rules = settings.rules()?;
        Ok(Arc::new(Self { shared, rules }))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let HandlerRequest {
            head,
            content,
            target,
            user,
            source,
            onward,
            opener,
            waits,
            ..
        } = request;
        let who = Owner::of(user.as_deref(), &source.peer);
        let Some(onward) = onward else {
            return Keeper(&self.shared)
                .answer(&head.method, content.into_incoming(), &who)
                .await;
        };

        let now = Instant::now();
        let name = self.origin_name(&onward, &head, &target, &who);
        let origin = self.shared.origins.of(self.rules.mode, name, now);
        let origin = origin.ok_or_else(|| {
            let details = "too many origins are paced at once";
            Refusal::new(ProxyError::ConnectionLimitReached, details)
        })?;
        let share = self.shared.shares.take(&who);
        let _share = share.ok_or_else(|| NotSent::NoRoomOfUser.refusal(&origin.name))?;
        let wait =
            wished_wait(&head.fields).map_or(self.rules.wait, |wish| wish.min(self.rules.wait));
        let keeping = Content::keep(content.into_incoming(), &who, self.rules.kept);
        let content = within(wait, keeping).await?;
        let borrower = self.rules.keeper.clone();
        let borrower = borrower.map(|keeper| Borrower { opener, keeper });
        let paced = Paced {
            shared: self.shared.clone(),
            borrower,
            origin,
            head,
            who,
            onward,
            waits,
            deadline: now + wait,
        };
        let (head, content) = paced.send(content).await?;
        Ok(Response::Stream(head, content))
    }

    fn origin_name(
        &self,
        onward: &Onward,
        head: &RequestHead,
        target: &Target,
        who: &Owner,
    ) -> String {
        let scheme = head
            .scheme
            .as_ref()
            .map_or("http", |scheme| scheme.as_str());
        let mut origin = format!("{scheme}://{}", target.canonical());
        // Nodes that share a keeper may have other names for one way.
        if self.rules.keeper.is_none() {
            origin = format!("{origin} by {}", onward.upstream());
        }
        match self.rules.share {
            SharedBy::Origin => origin,
            SharedBy::User => format!("{origin} of {who}"),
        }
    }
}

impl Paced {
    /// Sends the request, as often as there is time for it.
    async fn send(self, mut content: Content) -> Result<(ResponseHead, Incoming), Refusal> {
        let mut refused: Option<(ResponseHead, KeptContent)> = None;
        let mut is_again = false;
        loop {
            self.waits.say(format!("a turn at {}", self.origin.name));
            let turn = match (self.turn(is_again).await, refused.take()) {
                (Ok(turn), _) => turn,
                // The origin's own words say more than ours.
                (Err(_), Some((head, content))) => return Ok((head, content.incoming())),
                (Err(reason), None) => return Err(reason.refusal(&self.origin.name)),
            };
            self.waits.over();

            let (incoming, kept) = content.send();
            let (answer, incoming) = self.onward.send(self.head.clone(), incoming).await?;
            let told = Told::of(&answer.fields, SystemTime::now());
            let is_refused = is_refused(self.origin.mode, answer.status, &told);
            turn.answered(is_refused, told);
            match kept {
                Some(kept) if is_refused && self.may_come_again(answer.status) => {
                    content = Content::Kept(kept);
                    is_again = true;
                    // It is taken at once: one that is left where it is would hold a connection to the origin.
                    let taking = Content::keep(incoming, &self.who, REFUSAL);
                    if let Ok(Content::Kept(said)) = within(TAKING, taking).await {
                        refused = Some((answer, said));
                    }
                }
                _ => return Ok((answer, incoming)),
            }
        }
    }

    /// Waits for the turn of the request: at the keeper, and here where that fails.
    async fn turn(&self, is_again: bool) -> Result<Turn, NotSent> {
        if let Some(borrower) = &self.borrower {
            let wait = self.deadline.saturating_duration_since(Instant::now());
            let origin = &self.origin;
            match borrower
                .borrow(&origin.name, origin.mode, wait, is_again)
                .await
            {
                Borrowed::Turn(turn) => return Ok(turn),
                Borrowed::Refused(reason) => return Err(reason),
                Borrowed::Fails => self.shared.alone(),
            }
        }
        let turn = self.origin.turn(&self.who, self.deadline, is_again);
        turn.await.map(Turn::Own)
    }

    /// Whether the origin has done nothing, or doing it twice does no harm (RFC 9110, section 9.2.2).
    fn may_come_again(&self, status: StatusCode) -> bool {
        status == StatusCode::TOO_MANY_REQUESTS || self.head.method.is_idempotent()
    }
}

/// A content that is kept within a time.
///
/// # Errors
/// It does not come in this time, or breaks off.
async fn within(
    time: Duration,
    keeping: impl Future<Output = Result<Content, StreamError>>,
) -> Result<Content, Refusal> {
    match timeout(time, keeping).await {
        Ok(Ok(content)) => Ok(content),
        Ok(Err(_)) => Err(Refusal::client_gone("its content has broken off")),
        Err(_) => {
            let details = "pace: its content has not come in the time that it may wait";
            let refusal = Refusal::new(ProxyError::HttpRequestError, details);
            Err(refusal.status(StatusCode::REQUEST_TIMEOUT))
        }
    }
}

/// Whether an origin refuses a request for want of room.
fn is_refused(mode: Mode, status: StatusCode, told: &Told) -> bool {
    match mode {
        Mode::Learned => {
            status == StatusCode::TOO_MANY_REQUESTS
                || status == StatusCode::SERVICE_UNAVAILABLE && told.retry_after.is_some()
        }
        // Those of the paper.
        Mode::Atb | Mode::Aatb => {
            matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
        }
    }
}

/// The longest time that a client says it waits: `Prefer: wait=10` (RFC 7240, section 4.3).
fn wished_wait(fields: &Fields) -> Option<Duration> {
    let text = fields.get("prefer")?;
    let wishes = Parser::new(text.as_bytes()).parse::<Dictionary>().ok()?;
    match wishes.get("wait")? {
        ListEntry::Item(item) => match item.bare_item {
            BareItem::Integer(seconds) => {
                Some(Duration::from_secs(u64::try_from(i64::from(seconds)).ok()?))
            }
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    }
}

impl Handler for Pace {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let shared = self.shared.clone();
        Some(Settings::<dyn Handler>::new(
            move |settings: PaceSettings| Self::make(shared.clone(), &settings),
        ))
    }
}
