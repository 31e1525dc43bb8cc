//! Where exchanges come in, and the connection that they came on.

use std::mem::discriminant;
use std::sync::Arc;

use hermes_identity::{AuthContext, Identity};
use hermes_net::clock::unix_seconds;
use hermes_net::{Drain, StreamInfo};
use hermes_plug::door::DoorId;
use hermes_upstream::Pinned;

use crate::admission::Admission;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::worker::Worker;

/// Where exchanges come in: a door, and the rules that were last in force there.
#[derive(Clone)]
pub struct Entrance {
    /// The worker.
    pub worker: Arc<Worker>,
    /// The door.
    pub door: DoorId,
    /// The rules last seen. They stay in force where the listener is gone and its connections go on.
    pub rules: Arc<ListenerRules>,
    /// The place of the connection among those of its source, where there is a bound.
    pub admission: Option<Arc<Admission>>,
    /// Which of several tunnels of a device it is, if it is one.
    pub tunnel: Option<Arc<str>>,
    /// Whose the tunnel of IP packets is that it is made of, if it is. It proves itself by nothing else.
    pub carrier: Option<Arc<AuthContext>>,
    /// The user whom its client has proved to be before any request.
    pub proven: Option<Proven>,
    /// The connection that it came on; none where that is not one of HTTP that a client opened.
    pub connection: Option<Arc<Connection>>,
}

/// The proof of a client's user that came before its requests.
#[derive(Debug, Clone)]
pub enum Proven {
    /// The word of the listener's ingress that it is this user.
    Word(Arc<str>),
    /// A password that was right.
    Identity(Arc<Identity>),
}

/// The state of one connection of a client.
#[derive(Debug, Default)]
pub struct Connection {
    /// Ends it, once its exchanges have ended; for those whose client showed a certificate.
    pub ending: Option<Drain>,
    /// Connections to servers that are its own.
    pub pinned: Pinned,
}

impl Entrance {
    /// A door before anything came through it.
    pub fn of(worker: &Arc<Worker>, door: DoorId, rules: Arc<ListenerRules>) -> Self {
        Self {
            worker: worker.clone(),
            door,
            rules,
            admission: None,
            tunnel: None,
            carrier: None,
            proven: None,
            connection: None,
        }
    }

    /// The same entrance for exchanges of this user, by the word of the listener's ingress.
    #[must_use]
    pub fn of_user(&self, user: &str) -> Self {
        Self {
            proven: Some(Proven::Word(user.into())),
            ..self.clone()
        }
    }

    /// The user whom the word of an ingress names, if it does.
    pub fn proven_user(&self) -> Option<&str> {
        match &self.proven {
            Some(Proven::Word(user)) => Some(user),
            Some(Proven::Identity(_)) | None => None,
        }
    }

    /// Whether clients are asked for a password now: whether they must show it; `None` where they are not asked.
    pub fn requires_password(&self) -> Option<bool> {
        let snapshot = self.worker.snapshot();
        self.rules_in(&snapshot).authenticator.requires_password()
    }

    /// The same entrance for exchanges of one who has this user's password; `None` if it is wrong, or there is no turn to check it.
    pub async fn of_password(
        &self,
        user: &[u8],
        password: &[u8],
        source: &StreamInfo,
    ) -> Option<Self> {
        let rules = self.rules_in(&self.worker.snapshot());
        let checked = rules
            .authenticator
            .authenticate_password(user, password, source, unix_seconds())
            .await;
        match checked {
            Ok(identity) => Some(Self {
                proven: Some(Proven::Identity(Arc::new(identity))),
                ..self.clone()
            }),
            Err(challenge) => {
                rules.telemetry.auth_failure(challenge.scheme);
                tracing::debug!(
                    listener = %rules.name,
                    peer = %source.peer,
                    "a password was refused: {}",
                    challenge.reason
                );
                None
            }
        }
    }

    /// The same entrance for flows of a tunnel of IP packets that came in here.
    pub fn for_flows(&self, carrier: &Arc<AuthContext>) -> Self {
        Self {
            carrier: Some(carrier.clone()),
            // They outlive the connection, as the tunnel may.
            admission: None,
            connection: None,
            ..self.clone()
        }
    }

    /// Whether the certificate that the client showed, if any, is believed now: a resumed session shows one of before.
    pub fn believes(&self, source: &StreamInfo) -> bool {
        let snapshot = self.worker.snapshot();
        self.rules_in(&snapshot)
            .still_believes(source, snapshot.revision, unix_seconds())
            .is_ok()
    }

    /// Takes no more exchanges from the connection, whose client is to come again on another: its certificate is not believed any
    /// more, and perhaps there is a new one.
    pub(crate) fn dismiss(&self) {
        if let Some(ending) = self
            .connection
            .as_ref()
            .and_then(|connection| connection.ending.as_ref())
        {
            ending.start();
        }
    }

    /// The rules in force now for arrivals.
    pub fn renew(&mut self) -> &Arc<ListenerRules> {
        let snapshot = self.worker.snapshot();
        if let Some(rules) = self.found_in(&snapshot) {
            self.rules = rules.clone();
        }
        &self.rules
    }

    /// The same entrance for one of several tunnels of its device.
    pub fn for_tunnel(&self, tunnel: &Arc<str>) -> Self {
        let mut own = Self {
            tunnel: Some(tunnel.clone()),
            ..self.clone()
        };
        own.renew();
        own
    }

    fn found_in<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Arc<ListenerRules>> {
        match &self.tunnel {
            Some(tunnel) => snapshot.behind_tunnel(self.door, tunnel),
            None => snapshot.behind(self.door),
        }
    }

    /// The entrance of a door that was opened at this one's address after this one was closed. Sockets that share a port do not
    /// choose whose datagrams they get.
    pub fn successor(&self) -> Option<Self> {
        let snapshot = self.worker.snapshot();
        let address = &self.rules.config.udp()?.address;
        let found = snapshot.doors.iter().find_map(|(door, name)| {
            let rules = snapshot
                .listeners
                .get(name)
                .filter(|_| *door != self.door)?;
            rules
                .config
                .udp()
                .is_some_and(|other| other.address.overlaps(address))
                .then(|| (*door, rules.clone()))
        });

        let (door, rules) = found?;
        Some(Self::of(&self.worker, door, rules))
    }

    /// The rules of `snapshot` for an exchange of something that was accepted here before. A listener that has become one of
    /// another kind says nothing of it.
    pub fn rules_in(&self, snapshot: &Snapshot) -> Arc<ListenerRules> {
        self.still_in(snapshot).unwrap_or(&self.rules).clone()
    }

    /// As [`Self::rules_in`]; `None` where the listener is gone, or is of another kind.
    pub(crate) fn still_in<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Arc<ListenerRules>> {
        self.found_in(snapshot)
            .filter(|now| discriminant(&now.config.kind) == discriminant(&self.rules.config.kind))
    }
}
