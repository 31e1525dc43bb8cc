//! Echo requests in a tunnel whose packets end in this process: the host is asked by a socket of ICMP, which needs no right, and what it
//! answers goes back. They are no exchanges, as nothing is opened; `policy.packets` and `egress` say who may be asked.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_admit::routed::Routed;
use hermes_net::os::EchoError;
use hermes_net::{EchoAnswer, EchoReply, EchoSocket};
use hermes_packet::tun::{AskedEcho, FlowStack};
use hermes_proto::ip::IcmpError;
use hermes_stack::FailedEcho;
use hermes_upstream::Directory;

/// The sockets of one tunnel.
struct Echoes<'a> {
    stack: &'a Arc<FlowStack>,
    routed: &'a Routed,
    v4: EchoFamily,
    v6: EchoFamily,
}

/// The socket of one family.
enum EchoFamily {
    /// None was needed yet.
    Unopened,
    /// It is open.
    Open(EchoSocket),
    /// This machine gives none. It is not asked again.
    Refused,
    /// There is no such address or interface to leave from. It may come.
    Homeless,
}

/// Forwards the echoes of a tunnel, for as long as it is awaited.
pub(crate) async fn forward(stack: &Arc<FlowStack>, routed: &Routed) -> Infallible {
    if !stack.asks_echo() {
        pending::<()>().await;
    }
    let mut echoes = Echoes {
        stack,
        routed,
        v4: EchoFamily::Unopened,
        v6: EchoFamily::Unopened,
    };
    loop {
        tokio::select! {
            asked = stack.next_echo() => echoes.ask(&asked),
            answer = echoes.v4.answer() => answered(stack, answer),
            answer = echoes.v6.answer() => answered(stack, answer),
        }
    }
}

impl Echoes<'_> {
    fn ask(&mut self, asked: &AskedEcho) {
        let AskedEcho {
            echo,
            target,
            content,
        } = asked;
        let is_ipv4 = target.is_ipv4();
        let family = if is_ipv4 { &mut self.v4 } else { &mut self.v6 };
        let Some(socket) =
            may_ask(self.routed, *target).and_then(|()| family.open(is_ipv4, self.routed))
        else {
            self.stack.refuse_echo(asked);
            return;
        };

        let mut sent = socket.ask(*target, echo.number(), content);
        if sent.is_err() {
            // The error of an earlier echo comes first on a socket.
            sent = socket.ask(*target, echo.number(), content);
        }
        let Err(error) = sent else {
            return;
        };
        tracing::debug!(%target, %error, "an echo was not sent");
        if let Some(error) = said(error.kind()) {
            self.stack.fail_echo(FailedEcho {
                number: echo.number(),
                target: *target,
                error,
                from: *target,
            });
        }
    }
}

/// The ICMP error for a host to which this machine cannot send; `None` where it might at another time.
fn said(kind: io::ErrorKind) -> Option<IcmpError> {
    match kind {
        io::ErrorKind::NetworkUnreachable => Some(IcmpError::NoRoute),
        io::ErrorKind::HostUnreachable => Some(IcmpError::HostUnreachable),
        io::ErrorKind::PermissionDenied => Some(IcmpError::Prohibited),
        _ => None,
    }
}

impl EchoFamily {
    fn open(&mut self, is_ipv4: bool, routed: &Routed) -> Option<&EchoSocket> {
        if matches!(self, Self::Unopened | Self::Homeless) {
            let from = routed.worker.shared.snapshot.target_local_end();
            *self = match EchoSocket::open(is_ipv4, &from) {
                Ok(socket) => Self::Open(socket),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    if matches!(self, Self::Unopened) {
                        tracing::warn!(%error, "pings are refused: they cannot leave from where `egress` says");
                    }
                    Self::Homeless
                }
                Err(error) => {
                    tracing::error!(
                        %error,
                        "pings are refused: no ICMP socket; `hermes netcheck --require echo` names the remedy"
                    );
                    Self::Refused
                }
            };
        }
        match self {
            Self::Open(socket) => Some(socket),
            Self::Unopened | Self::Refused | Self::Homeless => None,
        }
    }

    async fn answer(&mut self) -> io::Result<EchoAnswer<'_>> {
        match self {
            Self::Open(socket) => socket.answer().await,
            Self::Unopened | Self::Refused | Self::Homeless => pending().await,
        }
    }
}

fn answered(stack: &Arc<FlowStack>, answer: io::Result<EchoAnswer<'_>>) {
    match answer {
        Ok(EchoAnswer::Reply(EchoReply {
            from,
            number,
            content,
        })) => stack.answer_echo(number, from, content),
        Ok(EchoAnswer::Lost(told)) => {
            if let Some(failed) = failed(&told) {
                stack.fail_echo(failed);
            }
        }
        // The queue of errors says more of the same.
        Err(error) => tracing::debug!(%error, "an echo is not answered"),
    }
}

/// The ICMP error for an echo, if there is one.
fn failed(told: &EchoError) -> Option<FailedEcho> {
    let is_ipv4 = told.target.is_ipv4();
    Some(FailedEcho {
        number: told.number,
        target: told.target,
        error: IcmpError::of_code(is_ipv4, told.kind_and_code, told.info)?,
        from: told.from.unwrap_or(told.target),
    })
}

/// Whether the rules in force let a client choose this host. An echo has no port.
fn may_ask(routed: &Routed, host: IpAddr) -> Option<()> {
    let snapshot = routed.worker.snapshot();
    snapshot.may_choose(SocketAddr::new(host, 0)).ok()
}
