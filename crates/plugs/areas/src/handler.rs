//! The handler of the API, and the changes that it makes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_http::Frame;
use hermes_plan::Plan;
use hermes_plan::documents::path_name;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Opener, RequestContent, Response};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::answer::{No, answer, not_allowed, shown};
use crate::api::{Call, NoCall};
use crate::domain::Domain;
use crate::ledger::Ledger;
use crate::partners::{PartnerCall, ask};
use crate::reload::Reload;

/// Bytes of the content of a request: a plan of some hundred places.
#[doc(alias = "bound")]
const CONTENT: usize = 64 * 1024;

/// Time in which a client sends it.
#[doc(alias = "bound")]
const CONTENT_TIME: Duration = Duration::from_secs(10);

/// Bytes of a name of an area: that of the file of areas. A longer one is neither looked up nor told again.
#[doc(alias = "bound")]
const AREA: usize = 64;

/// Requests that change paths, under way or waiting for their turn, of all users.
#[doc(alias = "bound")]
const CHANGES: usize = 64;

/// Those of one user.
#[doc(alias = "bound")]
const CHANGES_OF_USER: usize = 8;

/// Provisioner and authoriser of a place.
#[derive(Default)]
pub(crate) struct Provisioner {
    domain: Mutex<Option<Arc<Domain>>>,
    ledger: Mutex<Arc<Ledger>>,
    reload: Mutex<Option<Arc<dyn Reload>>>,
    /// One change of routes at a time. It is held while files are written and read again, never while another place is asked: two that
    /// ask each other would wait for each other.
    turn: tokio::sync::Mutex<()>,
    /// Changes under way by user.
    under_way: Mutex<HashMap<String, usize>>,
    /// The settings have changed: paths may have lost their consent.
    changed: Notify,
}

/// The content of a request for a path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathRequest {
    from: String,
    to: String,
}

/// A request and who asks it.
struct Asked {
    domain: Arc<Domain>,
    user: String,
    opener: Opener,
}

/// The handler of a node's routes.
pub(crate) struct AreasHandler(Arc<Provisioner>);

impl Handler for AreasHandler {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.0.clone().answer(request))
    }
}

/// A place among the changes under way; given back when it is dropped.
struct UnderWay {
    provisioner: Arc<Provisioner>,
    user: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.provisioner.under_way.lock();
        if let Some(count) = under_way.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.user);
            }
        }
    }
}

impl Provisioner {
    pub(crate) fn handler(self: &Arc<Self>) -> AreasHandler {
        AreasHandler(self.clone())
    }

    pub(crate) fn reload_by(&self, reload: Arc<dyn Reload>) {
        *self.reload.lock() = Some(reload);
        self.changed.notify_one();
    }

    /// Takes up the paths that were kept, unless there are some already.
    pub(crate) fn take_up(&self, kept: Ledger) {
        let mut ledger = self.ledger.lock();
        if ledger.len() == 0 {
            *ledger = Arc::new(kept);
        }
    }

    pub(crate) fn follow(&self, domain: Option<Domain>) {
        *self.domain.lock() = domain.map(Arc::new);
        self.changed.notify_one();
    }

    pub(crate) fn count(&self) -> usize {
        self.ledger().len()
    }

    pub(crate) fn status(&self) -> Value {
        let Some(domain) = self.domain() else {
            return Value::Null;
        };
        let ledger = self.ledger();
        let paths = ledger.paths().map(|(name, path)| {
            json!({ "name": name, "users": path.users, "cost": path.plan.cost, "ending": path.ending })
        });
        json!({ "place": domain.place, "paths": paths.collect::<Vec<_>>() })
    }

    /// Ends paths that have lost their consent, each time the settings have changed.
    pub(crate) async fn upkeep(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            let Some(domain) = self.domain() else {
                continue;
            };
            let _turn = self.turn.lock().await;
            let before = self.ledger();
            let kept = before.kept(|plan, user| domain.keeps(plan, user));
            if kept == *before {
                continue;
            }
            let ended = before.len() - kept.len();
            match self.put(&domain, kept).await {
                Ok(()) => tracing::info!("areas: {ended} paths ended: their consent was withdrawn"),
                Err(no) => tracing::error!("areas: paths without consent go on: {}", no.reason),
            }
        }
    }

    async fn answer(self: Arc<Self>, request: HandlerRequest) -> Result<Response, Refusal> {
        let HandlerRequest {
            head,
            content,
            user,
            opener,
            ..
        } = request;
        let call = match Call::of(&head.method, head.path()) {
            Ok(call) => call,
            Err(NoCall::NotAllowed(methods)) => return Ok(not_allowed(methods)),
            Err(NoCall::NotFound) => {
                let no = No::new(
                    StatusCode::NOT_FOUND,
                    "this is no request of the API",
                    "docs/areas.md has them",
                );
                return Ok(no.response());
            }
        };
        let asked = match self.asked(user, opener) {
            Ok(asked) => asked,
            Err(no) => return Ok(no.response()),
        };
        let done = match call {
            Call::List => Ok(self.list(&asked)),
            Call::Show(name) => self.show(&asked, &name),
            call => self.change(&asked, call, content).await,
        };
        Ok(done.unwrap_or_else(|no| no.response()))
    }

    fn asked(&self, user: Option<String>, opener: Opener) -> Result<Asked, No> {
        let domain = self.domain().ok_or_else(|| {
            let remedy = "set `plugs: { areas: {..} }` in its file";
            No::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "this node has no areas",
                remedy,
            )
        })?;
        let user = user.ok_or_else(|| {
            let remedy = "have the listener authenticate its clients";
            No::new(
                StatusCode::FORBIDDEN,
                "a path belongs to a user, and you are none",
                remedy,
            )
        })?;
        Ok(Asked {
            domain,
            user,
            opener,
        })
    }

    fn list(&self, asked: &Asked) -> Response {
        let ledger = self.ledger();
        let paths = ledger.paths();
        let own = paths.filter(|(_, path)| path.users.contains(&asked.user));
        let own: Vec<Value> = own.map(|(name, path)| shown(name, path)).collect();
        answer(StatusCode::OK, &json!({ "paths": own }))
    }

    fn show(&self, asked: &Asked, name: &str) -> Result<Response, No> {
        let ledger = self.ledger();
        let path = ledger.path_of(name, &asked.user);
        let path = path.ok_or_else(|| No::unknown(name))?;
        Ok(answer(StatusCode::OK, &shown(name, path)))
    }

    async fn change(
        self: &Arc<Self>,
        asked: &Asked,
        call: Call,
        content: RequestContent,
    ) -> Result<Response, No> {
        // Before a content is awaited: who may have no path takes no turn of those who may.
        if matches!(call, Call::Ask | Call::Provision(_))
            && !asked.domain.authoriser.knows(&asked.user)
        {
            return Err(unallowed(asked, "any path"));
        }
        let _under_way = self.under_way(&asked.user)?;
        match call {
            Call::Ask => {
                let wanted: PathRequest = parsed(&whole(content).await?)?;
                self.ask(asked, &wanted).await
            }
            Call::Provision(name) => {
                let plan: Plan = parsed(&whole(content).await?)?;
                self.provision(asked, &name, plan).await
            }
            Call::Withdraw(name) => self.withdraw(asked, &name).await,
            Call::Dismantle(name) => self.dismantle(asked, &name).await,
            // Answered before.
            Call::List | Call::Show(_) => Ok(self.list(asked)),
        }
    }

    /// A path for an orchestrator: planned, authorised, then provisioned from its end to its beginning.
    async fn ask(self: &Arc<Self>, asked: &Asked, wanted: &PathRequest) -> Result<Response, No> {
        authorise(asked, &wanted.from, &wanted.to)?;
        let plan = self.plan(asked, &wanted.from, &wanted.to).await?;
        let name = path_name(&plan);
        let begins = plan.stops.first().map(|stop| stop.place.as_str());
        if begins != Some(&asked.domain.place) {
            let reason = format!("area `{}` is not at this place", plan.from);
            return Err(No::new(
                StatusCode::CONFLICT,
                reason,
                "ask the node of the organisation where the path begins",
            ));
        }
        if let Some(path) = self
            .ledger()
            .path_of(&name, &asked.user)
            .filter(|path| !path.ending)
        {
            return Ok(answer(StatusCode::OK, &shown(&name, path)));
        }

        let mut told = Vec::new();
        let content = serde_json::to_vec(&plan)
            .map(Bytes::from)
            .unwrap_or_default();
        for place in asked.domain.others(&plan) {
            let part = self.tell(asked, &place, Method::PUT, &name, content.clone());
            if let Err(no) = part.await {
                self.take_back(asked, &told, &name).await;
                return Err(no);
            }
            told.push(place);
        }
        match self.join(asked, &name, &plan).await {
            Ok(()) => {
                let ledger = self.ledger();
                let path = ledger.path_of(&name, &asked.user);
                let path = path.ok_or_else(|| No::unknown(&name))?;
                Ok(answer(StatusCode::CREATED, &shown(&name, path)))
            }
            Err(no) => {
                self.take_back(asked, &told, &name).await;
                Err(no)
            }
        }
    }

    /// The part of a path at this place, for the node where it begins: only of the plan that this place makes itself.
    async fn provision(
        self: &Arc<Self>,
        asked: &Asked,
        name: &str,
        plan: Plan,
    ) -> Result<Response, No> {
        authorise(asked, &plan.from, &plan.to)?;
        let kept = self
            .ledger()
            .path(name)
            .filter(|path| !path.ending)
            .map(|path| path.plan.clone());
        let own = match kept {
            Some(plan) => plan,
            None => self.plan(asked, &plan.from, &plan.to).await?,
        };
        if path_name(&own) != name || own != plan {
            let reason = "this place plans another way";
            let remedy = "give both nodes the same file of areas; a function may be full here";
            return Err(No::new(StatusCode::CONFLICT, reason, remedy));
        }
        self.join(asked, name, &plan).await?;
        Ok(answer(
            StatusCode::OK,
            &json!({ "name": name, "state": "ready", "place": asked.domain.place }),
        ))
    }

    async fn withdraw(self: &Arc<Self>, asked: &Asked, name: &str) -> Result<Response, No> {
        let path = self.ledger().path_of(name, &asked.user).cloned();
        let path = path.ok_or_else(|| No::unknown(name))?;
        // Here first: nothing enters any more, and tunnels end.
        self.leave(asked, name).await?;
        let mut failed = None;
        for place in asked.domain.others(&path.plan) {
            let told = self.tell(asked, &place, Method::DELETE, name, Bytes::new());
            failed = failed.or(told.await.err());
        }
        if let Some(no) = failed {
            return Err(no);
        }
        self.forget(asked, name).await?;
        Ok(answer(
            StatusCode::OK,
            &json!({ "name": name, "state": "withdrawn", "place": asked.domain.place }),
        ))
    }

    async fn dismantle(self: &Arc<Self>, asked: &Asked, name: &str) -> Result<Response, No> {
        // One that is not there is as it should be: the request may be a repetition.
        if self.ledger().path_of(name, &asked.user).is_some() {
            self.leave(asked, name).await?;
            self.forget(asked, name).await?;
        }
        Ok(answer(
            StatusCode::OK,
            &json!({ "name": name, "state": "withdrawn", "place": asked.domain.place }),
        ))
    }

    async fn tell(
        &self,
        asked: &Asked,
        place: &str,
        method: Method,
        name: &str,
        content: Bytes,
    ) -> Result<(), No> {
        let authority = asked.domain.partner(place).ok_or_else(|| {
            let reason = format!("this node does not know how to ask the one at `{place}`");
            No::new(StatusCode::BAD_GATEWAY, reason, "name it under `partners`")
        })?;
        let call = PartnerCall {
            method,
            authority: authority.clone(),
            name: name.to_owned(),
            content,
            user: asked.user.clone(),
        };
        ask(&asked.opener, place, call).await
    }

    /// Withdraws the parts of a path that did not come about. One that cannot be told keeps routes that nothing reaches.
    async fn take_back(&self, asked: &Asked, told: &[String], name: &str) {
        for place in told {
            let told = self.tell(asked, place, Method::DELETE, name, Bytes::new());
            if let Err(no) = told.await {
                tracing::warn!("areas: {name:?} is not withdrawn: {}", no.reason);
            }
        }
    }

    async fn plan(&self, asked: &Asked, from: &str, to: &str) -> Result<Plan, No> {
        let domain = asked.domain.clone();
        let ledger = self.ledger();
        let names = (from.to_owned(), to.to_owned());
        // A search takes milliseconds, in which a worker would carry nothing.
        let planned = tokio::task::spawn_blocking(move || domain.plan(&ledger, &names.0, &names.1));
        let planned = planned.await.ok().flatten();
        let planned = planned.ok_or_else(|| {
            let reason = format!("there are no areas {from:?} and {to:?}");
            No::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                reason,
                "`areas` of the file names them",
            )
        })?;
        planned.map_err(|unplanned| {
            let remedy = "`hermes plan areas FILE --explain` shows what is missing";
            No::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                unplanned.to_string(),
                remedy,
            )
        })
    }

    /// Puts a path of a user in force here, if this place still plans it so.
    async fn join(&self, asked: &Asked, name: &str, plan: &Plan) -> Result<(), No> {
        let _turn = self.turn.lock().await;
        let before = self.ledger();
        let next = before.joined(name, plan, &asked.user)?;
        if next == *before {
            return Ok(());
        }
        // Another path may have taken the last share of a function meanwhile.
        let is_new = before.path(name).is_none_or(|path| path.ending);
        if is_new && self.plan(asked, &plan.from, &plan.to).await? != *plan {
            let reason = "a function on the way has become full";
            return Err(No::new(StatusCode::CONFLICT, reason, "ask again"));
        }
        self.put(&asked.domain, next).await?;
        tracing::info!(user = ?asked.user, "areas: path {name} is ready");
        Ok(())
    }

    async fn leave(&self, asked: &Asked, name: &str) -> Result<(), No> {
        let _turn = self.turn.lock().await;
        let next = self.ledger().left(name, &asked.user);
        self.put(&asked.domain, next).await?;
        tracing::info!(user = ?asked.user, "areas: path {name} is withdrawn");
        Ok(())
    }

    /// Forgets a path that has ended everywhere.
    async fn forget(&self, asked: &Asked, name: &str) -> Result<(), No> {
        let _turn = self.turn.lock().await;
        let ledger = self.ledger();
        match ledger.path(name) {
            Some(path) if path.ending => self.put(&asked.domain, ledger.without(name)).await,
            _ => Ok(()),
        }
    }

    /// Writes the files, has the node follow them, and then counts the paths. The caller has the turn.
    async fn put(&self, domain: &Arc<Domain>, next: Ledger) -> Result<(), No> {
        let failed = |reason: String| {
            let remedy = "the operator of this node finds the reason in its log";
            No::new(StatusCode::INTERNAL_SERVER_ERROR, reason, remedy)
        };
        let reload = self.reload.lock().clone();
        let reload = reload.ok_or_else(|| failed("the node is only starting".to_owned()))?;
        let domain = domain.clone();
        let next = Arc::new(next);
        let written = next.clone();
        // Files and the node's own change may block.
        let done = tokio::task::spawn_blocking(move || {
            let reload = || reload.reload();
            domain
                .shelf
                .put(&domain.areas, &domain.place, &written, &reload)
        });
        let done = done.await.unwrap_or_else(|error| Err(error.to_string()));
        if let Err(reason) = done {
            tracing::error!("areas: {reason}");
            return Err(failed(
                "the routes of this path cannot be put in force".to_owned(),
            ));
        }
        *self.ledger.lock() = next;
        Ok(())
    }

    fn under_way(self: &Arc<Self>, user: &str) -> Result<UnderWay, No> {
        let busy = |reason: &str| {
            No::new(
                StatusCode::TOO_MANY_REQUESTS,
                reason,
                "wait for their answers",
            )
        };
        let mut under_way = self.under_way.lock();
        if under_way.values().sum::<usize>() >= CHANGES {
            return Err(busy("too many changes are under way"));
        }
        let count = under_way.entry(user.to_owned()).or_default();
        if *count >= CHANGES_OF_USER {
            return Err(busy("too many changes of yours are under way"));
        }
        *count += 1;
        Ok(UnderWay {
            provisioner: self.clone(),
            user: user.to_owned(),
        })
    }

    fn domain(&self) -> Option<Arc<Domain>> {
        self.domain.lock().clone()
    }

    fn ledger(&self) -> Arc<Ledger> {
        self.ledger.lock().clone()
    }
}

/// The authoriser decides before anything is planned: who may not have a path learns nothing of the way.
fn authorise(asked: &Asked, from: &str, to: &str) -> Result<(), No> {
    if from.len() > AREA || to.len() > AREA {
        let reason = format!("no area has a name of more than {AREA} bytes");
        return Err(No::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            reason,
            "`areas` of the file names them",
        ));
    }
    match asked.domain.authoriser.allows(&asked.user, from, to) {
        true => Ok(()),
        false => Err(unallowed(asked, &format!("a path from {from:?} to {to:?}"))),
    }
}

fn unallowed(asked: &Asked, path: &str) -> No {
    let place = &asked.domain.place;
    tracing::info!(user = ?asked.user, "areas: {path} is not allowed");
    No::new(
        StatusCode::FORBIDDEN,
        format!("{place} does not allow you {path}"),
        "ask the operator for `allow`",
    )
}

async fn whole(mut content: RequestContent) -> Result<Bytes, No> {
    let bad = |reason: &str| {
        No::new(
            StatusCode::BAD_REQUEST,
            reason,
            "send it at once, and as a whole",
        )
    };
    let reading = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = content.frame().await {
            if let Frame::Data(data) = frame.map_err(|error| bad(&error.to_string()))? {
                if whole.len() + data.len() > CONTENT {
                    return Err(No::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        format!("more than {CONTENT} bytes"),
                        "name one path in a request",
                    ));
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    };
    let read = tokio::time::timeout(CONTENT_TIME, reading).await;
    read.unwrap_or_else(|_| Err(bad("the content does not come")))
}

fn parsed<T: for<'de> Deserialize<'de>>(content: &[u8]) -> Result<T, No> {
    serde_json::from_slice(content).map_err(|error| {
        let reason = format!("the content is not of the form: {error}");
        No::new(
            StatusCode::BAD_REQUEST,
            reason,
            "such as {\"from\": \"a\", \"to\": \"b\"}",
        )
    })
}
