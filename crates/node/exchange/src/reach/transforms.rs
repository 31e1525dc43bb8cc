//! The transforms of a route, as they are asked about a tunnel, and their changes of datagrams.

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::{Kind, RequestHead};
use hermes_net::memory::{Charge, Overdrawn, Purpose};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{AlteringDatagrams, Payload, TunnelSubject};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use tokio::time::timeout;

use crate::beyond::Beyond;
pub(crate) use crate::carried::Changes;

/// When a client left whose tunnel was to begin with transforms.
pub(crate) const BEFORE: &str = "before its transforms had begun";

/// Waits for transforms to begin, no longer than the route waits for connections.
///
/// # Errors
/// One refuses the tunnel, or does not begin.
pub(crate) async fn in_time<T>(
    next: &Next,
    beginning: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let begun = timeout(next.timeouts.connect, beginning).await;
    begun.unwrap_or_else(|_| {
        let details = "a transform has not begun in `timeouts.connect`";
        Err(Refusal::new(ProxyError::ConnectionTimeout, details))
    })
}

/// Has the transforms of a route decide on a request that is no tunnel.
///
/// # Errors
/// One refuses it, or does not decide.
pub(crate) async fn admit(
    routed: &Routed,
    arrival: &mut Arrival,
    next: &Next,
) -> Result<(), Refusal> {
    let head = arrival.head().clone();
    let target = routed.target.canonical();
    let subject = subject(routed, &head, &target, Payload::Message);
    let admitting = in_time(next, async {
        for (_, transform) in &next.through.own {
            transform.admit(&subject).await?;
        }
        Ok(())
    });
    arrival.unless_gone(admitting, BEFORE).await
}

impl Changes {
    /// Begins with the transforms of a route, for a tunnel of datagrams or of packets that arrives.
    ///
    /// # Errors
    /// As for [`Self::begin`], or the client is gone.
    pub(crate) async fn of_arrival(
        routed: &Routed,
        arrival: &mut Arrival,
        next: &Next,
    ) -> Result<Option<Box<Self>>, Refusal> {
        let payload = payload(arrival.kind());
        let beyond = Beyond::of(routed, arrival.head_mut(), next, payload)?;
        let head = arrival.head().clone();
        let beginning = in_time(next, Self::one_by_one(routed, &head, next, beyond));
        arrival.unless_gone(beginning, BEFORE).await
    }

    /// The same for one that was open before. `None` where datagrams stay as they are, as all of IP do.
    ///
    /// # Errors
    /// One refuses the tunnel, does not begin, would change datagrams of many targets, or takes more memory than the user or source may
    /// have.
    pub(crate) async fn begin(
        routed: &Routed,
        head: &RequestHead,
        next: &Next,
    ) -> Result<Option<Box<Self>>, Refusal> {
        // Nodes before this one ask for nothing within a tunnel; this one signs anew for another path.
        let mut asking = head.clone();
        let beyond = Beyond::of(routed, &mut asking, next, payload(head.kind()))?;
        in_time(next, Self::one_by_one(routed, head, next, beyond)).await
    }

    async fn one_by_one(
        routed: &Routed,
        head: &RequestHead,
        next: &Next,
        beyond: Beyond,
    ) -> Result<Option<Box<Self>>, Refusal> {
        let account = routed.account();
        let target = routed.target.canonical();
        let payload = payload(head.kind());
        let subject = subject(routed, head, &target, payload);
        let mut changes = None::<Box<Self>>;

        for (name, transform) in beyond.here().chain(&next.through.own) {
            if payload == Payload::Packets {
                transform.begin(&subject).await?;
                continue;
            }
            let Some(altering) = transform.begin_datagrams(&subject).await? else {
                continue;
            };
            if routed.target.is_any() {
                return Err(of_any(name));
            }
            let charge = account.charge(Purpose::Transforms, transform.memory());
            let charge = charge.map_err(|overdrawn| no_memory(name, &overdrawn))?;
            changes.get_or_insert_default().push(name, altering, charge);
        }

        if !beyond.is_idle() {
            if routed.target.is_any() {
                return Err(of_any("at"));
            }
            changes.get_or_insert_default().beyond = Some(Box::new(beyond));
        }
        Ok(changes)
    }

    fn push(&mut self, name: &str, altering: AlteringDatagrams, charge: Charge) {
        self.to_target.push(name.to_owned(), altering.to_target);
        self.to_client
            .push_front(name.to_owned(), altering.to_client);
        self.charges.push(charge);
    }
}

fn payload(kind: Kind) -> Payload {
    match kind {
        Kind::ConnectIp => Payload::Packets,
        _ => Payload::Datagrams,
    }
}

/// The refusal of a tunnel that is for any target.
fn of_any(name: &str) -> Refusal {
    let details = format!("{name} changes the datagrams of one target, and this tunnel is for any");
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}

/// The refusal of a tunnel without memory for a transform that no other node undoes. It does not pass unchanged: who is to be changed, or
/// dropped, could use memory up for that.
pub(crate) fn no_memory(name: &str, overdrawn: &Overdrawn) -> Refusal {
    let details = format!("no memory left for the transform {name}: {overdrawn}");
    Refusal::new(ProxyError::ConnectionLimitReached, details)
        .status(StatusCode::SERVICE_UNAVAILABLE)
}

/// The tunnel of an exchange; `target` is the exchange's, in its canonical form.
pub(crate) fn subject<'a>(
    routed: &'a Routed,
    head: &'a RequestHead,
    target: &'a Target,
    payload: Payload,
) -> TunnelSubject<'a> {
    TunnelSubject {
        head,
        target,
        user: routed.user.as_deref(),
        source: &routed.source,
        listener: &routed.listener.name,
        payload,
    }
}
