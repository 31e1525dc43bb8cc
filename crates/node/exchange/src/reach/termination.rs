//! The means that open the far ends of tunnels which end here.

use hermes_admit::next::{Handled, NamedConnector, Next, To};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Incoming, Kind, Outgoing, h1};
use hermes_net::Stream;
use hermes_plug::TunnelRequest;
use hermes_plug::arrival::End;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::Active;
use http::StatusCode;
use tokio::time::timeout;

use super::byte_end::ByteEnd;
use super::datagram_path::{Ends, Path};
use super::retry::Tries;
use super::session_token::Resumption;
use super::{dial, from_stack, silence};

/// The means that open the far ends of tunnels which end here.
#[derive(Clone, Copy)]
pub(crate) enum Termination<'a> {
    /// This node, with sockets.
    Socket,
    /// The stack of a listener, with flows in its tunnel of IP packets.
    Stack,
    /// A connector.
    Connector(&'a NamedConnector),
    /// A handler.
    Handler(&'a Handled),
}

impl<'a> Termination<'a> {
    /// Of an exchange whose route ends the overlay here.
    pub(crate) fn of(routed: &Routed, next: &'a Next) -> Self {
        match &next.to {
            To::Connector(named) => Self::Connector(named),
            To::Handler(handled) => Self::Handler(handled),
            To::Target if from_stack::listener(routed).is_some() => Self::Stack,
            To::Target | To::Upstream { .. } => Self::Socket,
        }
    }

    /// Whether it is code that the node does not know.
    pub(crate) fn is_plug(self) -> bool {
        matches!(self, Self::Connector(_) | Self::Handler(_))
    }

    /// Whether it takes exchanges of this kind.
    ///
    /// # Errors
    /// It takes none of this kind.
    pub(crate) fn check(self, kind: Kind, target: &Target) -> Result<(), Refusal> {
        let is_taken = match self {
            Self::Socket => return Ok(()),
            Self::Stack => matches!(kind, Kind::Connect | Kind::ConnectTcp | Kind::ConnectUdp),
            Self::Connector(named) => kind != Kind::Message && named.connector.takes(kind),
            Self::Handler(handled) => kind != Kind::Message && handled.handler.takes(kind),
        };
        // Sockets for any peer are this node's own.
        if is_taken && !target.is_any() {
            return Ok(());
        }

        let details = match self {
            Self::Handler(_) => "the handler of this route takes no exchanges of this kind",
            _ => "this route takes connections and datagrams, and no exchanges of this kind",
        };
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, details);
        Err(refusal.status(StatusCode::NOT_IMPLEMENTED))
    }

    /// Opens the far end of a tunnel of bytes; a plug gets this request.
    pub(crate) async fn bytes(
        self,
        tries: &Tries<'_>,
        target: &Target,
        request: impl FnOnce() -> TunnelRequest,
    ) -> Result<ByteEnd, Refusal> {
        match self {
            Self::Socket => {
                let dialled = dial(tries, target).await?;
                let is_asked = tries.is_multipath();
                Ok(ByteEnd {
                    is_multipath: is_asked.then(|| dialled.stream.is_multipath()),
                    streams: halves(dialled.stream),
                    endpoint: dialled.endpoint,
                    address: dialled.address,
                    active: dialled.active,
                })
            }
            Self::Stack => from_stack::connection(tries, target).await,
            // Boxed: most tunnels end at sockets.
            Self::Connector(_) | Self::Handler(_) => {
                match Box::pin(self.plugged(tries, request())).await? {
                    End::Stream(incoming, outgoing) => Ok(ByteEnd {
                        streams: Duplex { incoming, outgoing },
                        endpoint: target.to_string().into(),
                        address: None,
                        is_multipath: None,
                        active: Active::default(),
                    }),
                    End::Packets(_) => Err(self.unfit()),
                }
            }
        }
    }

    /// Opens the far end of a tunnel of datagrams, where that is no socket; a plug gets this request.
    pub(crate) async fn datagrams(
        self,
        tries: &Tries<'_>,
        target: &Target,
        request: impl FnOnce() -> TunnelRequest,
    ) -> Result<Path, Refusal> {
        let ends = match self {
            Self::Socket | Self::Stack => return from_stack::datagrams(tries, target).await,
            Self::Connector(_) | Self::Handler(_) => {
                let request = request();
                let kind = request.head.kind();
                match Box::pin(self.plugged(tries, request)).await? {
                    End::Stream(incoming, outgoing) => Ends::of_kind(kind, incoming, outgoing),
                    End::Packets(end) => Ends::end(end),
                }
            }
        };
        Ok(Path {
            ends,
            active: Active::default(),
            silence: silence(&tries.next.timeouts),
            resumption: Resumption::Nothing,
            listens: false,
            changes: None,
        })
    }

    /// Has the plug open it, in the time that the route has for connections.
    async fn plugged(self, tries: &Tries<'_>, request: TunnelRequest) -> Result<End, Refusal> {
        tries.begin();
        let opening = match self {
            Self::Connector(named) => {
                tries.goes_to(&request.target.to_string().into());
                named.connector.connect(request)
            }
            Self::Handler(handled) => handled.handler.tunnel(request),
            Self::Socket | Self::Stack => return Err(self.unfit()),
        };
        let opened = timeout(tries.next.timeouts.connect, opening).await;
        opened.unwrap_or_else(|_| {
            let details = format!("{} has opened nothing in `timeouts.connect`", self.name());
            Err(Refusal::new(ProxyError::ConnectionTimeout, details))
        })
    }

    fn name(self) -> String {
        match self {
            Self::Socket => "a socket".to_owned(),
            Self::Stack => "a stack".to_owned(),
            Self::Connector(named) => format!("connector {}", named.name),
            Self::Handler(handled) => format!("handler {}", handled.name),
        }
    }

    /// The plug gave packets where bytes were asked for.
    fn unfit(self) -> Refusal {
        let details = format!("{} opens no bytes", self.name());
        Refusal::new(ProxyError::ProxyInternalError, details)
    }
}

/// Both directions of a connection.
pub(crate) fn halves(stream: Stream) -> Duplex {
    let (read, write) = stream.split();
    Duplex {
        incoming: Incoming::H1(h1::BodyReceiver::bytes(read)),
        outgoing: Outgoing::H1(h1::BodySender::bytes(write)),
    }
}
