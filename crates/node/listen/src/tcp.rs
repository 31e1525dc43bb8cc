//! `tcp` and `socks` listeners: an ingress makes an exchange of every connection.

use std::future::Future;
use std::sync::Arc;

use hermes_admit::entrance::Entrance;
use hermes_config::model::HostPort;
use hermes_exchange as pipeline;
use hermes_net::shared_socket::DatagramSocket;
use hermes_net::{Stream, Watch};
use hermes_plug::arrival::Arrival;
use hermes_plug::{CheckingPassword, Gate, Serving, ShownPassword, Takes};

use super::held::Held;

/// Carries one connection, to its end.
pub(super) fn connection(
    entrance: Entrance,
    stream: Stream,
    watch: Watch,
    held: Held,
) -> impl Future<Output = ()> {
    let ingress = entrance.rules.ingress.clone();
    let gate = Gate::new(Arc::new(Inside(entrance)));
    // On the heap, from where it is moved: in the future it would leave its room behind for as long as the connection lasts.
    let stream = Box::new(stream);

    async move {
        tokio::select! {
            () = ingress.connection(*stream, gate) => {}
            () = watch.forced() => {}
        }
        drop(held);
    }
}

/// Serves a socket of datagrams that an ingress makes exchanges of.
pub async fn datagrams(entrance: Entrance, socket: DatagramSocket, watch: &Watch) {
    let ingress = entrance.rules.ingress.clone();
    let gate = Gate::new(Arc::new(Inside(entrance)));
    tokio::select! {
        () = ingress.datagrams(socket, gate, watch.clone()) => {}
        () = watch.forced() => {}
    }
}

/// Where exchanges of one connection come in.
struct Inside(Entrance);

impl Takes for Inside {
    fn target(&self) -> Option<&HostPort> {
        self.0.rules.config.target()
    }

    fn take(&self, arrival: Arrival) -> Serving<'_> {
        Box::pin(pipeline::run(&self.0, arrival))
    }

    fn of_user(&self, user: &str) -> Arc<dyn Takes> {
        Arc::new(Self(self.0.of_user(user)))
    }

    fn requires_password(&self) -> Option<bool> {
        self.0.requires_password()
    }

    fn of_password<'a>(&'a self, shown: ShownPassword<'a>) -> CheckingPassword<'a> {
        Box::pin(async move {
            let ShownPassword {
                user,
                password,
                source,
            } = shown;
            let known = self.0.of_password(user, password, source).await?;
            Some(Arc::new(Self(known)) as Arc<dyn Takes>)
        })
    }
}
