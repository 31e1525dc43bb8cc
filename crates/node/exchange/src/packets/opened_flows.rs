//! Where the packets of CONNECT-IP end in this process: each connection of TCP and each pair of UDP ports is an exchange of the tunnel's
//! user, for where its packets go, and takes a route of its own.
//!
//! An exchange has the fields of the tunnel's request as that arrived, so that whose it is follows from the same rules, now and when
//! these change; and the tunnel's authentication counts for it.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_admit::routed::Routed;
use hermes_config::model::HostPort;
use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, RefusalReason, Replying, RequestHead, ResponseHead,
    StreamError, pipe,
};
use hermes_net::{Asker, StreamInfo, Watch};
use hermes_packet::tun::{AskedFlow, DEVICE_FIELD, FlowCarrier, FlowStack, TcpFlow};
use hermes_packet::{Asked, PacketEnd, Session};
use hermes_plug::arrival::{Arrival, PacketArrival};
use hermes_plug::opening_head::{connect, connect_udp};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use tokio::sync::oneshot;

use super::echoes;
use crate::carried::Carry;

/// How long the datagrams of a flow are ignored whose exchange was refused: it bounds the exchanges that a client can make us open.
#[doc(alias = "bound")]
const DEAF_AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Takes an exchange from its arrival to its end, from above this module.
pub(crate) type Start = for<'a> fn(&'a Entrance, Arrival) -> StartedExchange<'a>;

/// An exchange that was started.
pub(crate) type StartedExchange<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Flows of packets that end in this process: by which entrance each comes in as an exchange, and with which fields.
pub struct Flows {
    entrance: Entrance,
    fields: Fields,
    start: Start,
}

/// A flow that is to become an exchange.
pub struct BegunFlow {
    /// Its target.
    pub target: HostPort,
    /// Where it comes from.
    pub source: Arc<StreamInfo>,
    /// Carries it.
    pub carrier: FlowCarrier,
}

/// Carries a tunnel to its end, and has its flows take their routes meanwhile. Those that were begun go on while the tunnel is there,
/// on whatever path. Returns the reason for which it ended. Boxed as `dyn`: few tunnels have flows, and crates that await it do not compile it again.
#[inline(never)]
pub(crate) fn beside(
    stack: Arc<FlowStack>,
    tunnel: Box<dyn Carry>,
    routed: &Routed,
    start: Start,
) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
    Box::pin(carry_both(stack, tunnel, routed, start))
}

async fn carry_both(
    stack: Arc<FlowStack>,
    tunnel: Box<dyn Carry>,
    routed: &Routed,
    start: Start,
) -> String {
    let entrance = routed.entrance.for_flows(&routed.auth);
    let flows = Arc::new(Flows::new(entrance, fields(routed), start));
    let turns = &routed.worker.shared.shares.users.flows;
    let asker = Asker::user_or_source(routed.user.as_deref(), &routed.source.peer);
    let begin = async {
        loop {
            let AskedFlow {
                target, carrier, ..
            } = stack.next_flow().await;
            // Where so many tunnels wait that this one may not, flows begin without one: they are bounded otherwise.
            let turn = turns.take(asker, None).await;
            let flow = BegunFlow {
                target: host_port(target),
                source: routed.source.clone(),
                carrier,
            };
            flows.clone().begin(&routed.worker.shared.drain, flow);

            // One of each tunnel in turn, however many its client asks for at once. The turn is over when the flow waits for others.
            tokio::task::yield_now().await;
            drop(turn);
        }
    };
    tokio::select! {
        reason = tunnel.carry(routed) => reason,
        reason = begin => reason,
        never = stack.keep_time() => match never {},
        never = echoes::forward(&stack, routed) => match never {},
    }
}

/// The fields of the tunnel's request as it arrived, without those that are about the tunnel itself.
fn fields(routed: &Routed) -> Fields {
    let arrived = routed.auth.arrived.as_ref();
    let mut fields = arrived.map_or_else(Fields::new, |arrived| arrived.fields.clone());
    Asked::take(&mut fields);
    fields.remove(CAPSULE_PROTOCOL);
    fields.remove(datagram_limit::FIELD);
    fields.remove(DEVICE_FIELD);
    fields
}

impl Flows {
    /// Those that come in by this entrance.
    pub(crate) fn new(entrance: Entrance, fields: Fields, start: Start) -> Self {
        Self {
            entrance,
            fields,
            start,
        }
    }

    /// Begins one, in a task of its own.
    pub fn begin(self: Arc<Self>, watch: &Watch, flow: BegunFlow) {
        // A drain waits for flows, as for any exchange; only its end cuts them.
        let forced = watch.clone();
        watch.spawn(async move {
            let BegunFlow {
                target,
                source,
                carrier,
            } = flow;
            let carried = async {
                match carrier {
                    FlowCarrier::Tcp(flow) => self.connection(&target, source, flow).await,
                    FlowCarrier::Udp(session) => self.datagrams(&target, source, session).await,
                }
            };
            tokio::select! {
                () = carried => {}
                () = forced.forced() => {}
            }
        });
    }

    /// The entrance as it is now.
    fn entrance(&self) -> Entrance {
        let mut entrance = self.entrance.clone();
        entrance.renew();
        entrance
    }

    /// A connection, from its first segment to its end.
    async fn connection(&self, target: &HostPort, source: Arc<StreamInfo>, flow: TcpFlow) {
        let (accepted, answer) = oneshot::channel();
        let mut head = connect(target);
        head.fields = self.fields.clone();
        let held = HeldFlow { flow, accepted };
        let offered = Offered::held(head, source, Incoming::Empty, Box::new(held));

        let entrance = self.entrance();
        let exchange = (self.start)(&entrance, Arrival::Offered(offered));
        let carried = async {
            // One that is refused has dropped the other end, and its connection with it.
            if let Ok(AcceptedFlow {
                flow,
                incoming,
                outgoing,
            }) = answer.await
            {
                flow.carry(incoming, outgoing).await;
            }
        };
        tokio::join!(exchange, carried);
    }

    /// A pair of ports, until it is silent for long enough.
    async fn datagrams(&self, target: &HostPort, source: Arc<StreamInfo>, session: Arc<Session>) {
        let Some(head) = self.datagram_head(target) else {
            return;
        };
        let arrival = Arrival::from(PacketArrival {
            head,
            source,
            end: PacketEnd::Session(session.clone()),
        });
        let entrance = self.entrance();
        // One whose tunnel has ended before its turn came does not begin.
        tokio::select! {
            biased;
            () = session.evicted() => {}
            () = (self.start)(&entrance, arrival) => {}
        }
        if session.is_refused() {
            tokio::time::sleep(DEAF_AFTER_REFUSAL).await;
        }
    }

    fn datagram_head(&self, target: &HostPort) -> Option<RequestHead> {
        let mut head = connect_udp(target)?;
        for (name, value) in self.fields.iter() {
            head.fields.append(name, value);
        }
        Some(head)
    }
}

fn host_port(target: SocketAddr) -> HostPort {
    HostPort {
        host: target.ip().to_string(),
        port: target.port(),
    }
}

/// A connection whose target has answered.
struct AcceptedFlow {
    flow: TcpFlow,
    incoming: Incoming,
    outgoing: Outgoing,
}

/// A client whose first segment waits for an answer.
struct HeldFlow {
    flow: TcpFlow,
    accepted: oneshot::Sender<AcceptedFlow>,
}

impl fmt::Debug for HeldFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldFlow")
    }
}

impl HeldClient for HeldFlow {
    fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        let Self { flow, accepted } = *self;
        let (outgoing, far_incoming) = pipe(None);
        let (far_outgoing, incoming) = pipe(None);
        flow.accept();
        // A task that is gone has dropped its ends of the pipes.
        let _ = accepted.send(AcceptedFlow {
            flow,
            incoming,
            outgoing,
        });
        Box::pin(async { Ok((far_incoming, far_outgoing)) })
    }

    fn respond(self: Box<Self>, head: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
        self.flow.refuse_status(head.status);
        Box::pin(async { Ok::<_, StreamError>(Outgoing::Ended) })
    }

    fn refuse(
        self: Box<Self>,
        reason: RefusalReason,
        _: ResponseHead,
        _: Option<u64>,
    ) -> Replying<Outgoing> {
        self.flow.refuse(&reason);
        Box::pin(async { Ok::<_, StreamError>(Outgoing::Ended) })
    }

    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.flow.broken())
    }
}
