//! *Identify* and *tag*: whose an exchange is, which of its fields are believed, and which the listener adds.
//!
//! Credentials are checked once. The consequences of their proof are a function of the snapshot, and are found again for an
//! open tunnel when the snapshot changes.

use std::sync::Arc;

use hermes_config::child;
use hermes_http::{Kind, RequestHead};
use hermes_identity::{AuthContext, Challenge, Identity};
use hermes_net::StreamInfo;
use hermes_net::clock::unix_seconds;
use hermes_plug::forwarded::append_forwarded;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::judge::{Phase, RemovedFields, place_of_source};
use hermes_rules::{BadField, Source, Values};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};

use crate::snapshot::{ListenerRules, Snapshot};

/// Where an exchange enters, and from whom.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// The rules in force.
    pub snapshot: &'a Snapshot,
    /// Those of its listener.
    pub listener: &'a ListenerRules,
    /// The connection that it came on.
    pub source: &'a StreamInfo,
}

impl Entry<'_> {
    /// Whether the certificate with which the connection came, if any, is believed now.
    ///
    /// # Errors
    /// It is not, or none is asked for any more.
    pub(crate) fn verify(&self) -> Result<(), Refusal> {
        let Self {
            snapshot,
            listener,
            source,
        } = *self;
        listener
            .still_believes(source, snapshot.revision, unix_seconds())
            .map_err(|reason| {
                listener.telemetry.auth_failure("mtls");
                Refusal::new(ProxyError::HttpRequestDenied, reason).status(StatusCode::FORBIDDEN)
            })
    }

    /// Checks credentials and takes them out of the fields.
    ///
    /// # Errors
    /// They are missing or wrong.
    pub(crate) async fn identify(&self, head: &mut RequestHead) -> Result<AuthContext, Refusal> {
        let Self {
            listener, source, ..
        } = *self;
        let credentials = self.credentials(&head.fields);
        let gateway = listener.config.is_gateway();
        let identity = listener
            .authenticator
            .authenticate(&mut head.fields, source, gateway, unix_seconds())
            .await;
        let identity = identity.map_err(|challenge| self.challenged(challenge))?;
        Ok(self.known(identity, credentials, head))
    }

    /// The same where the listener's ingress has found out by itself that this is the user.
    ///
    /// # Errors
    /// The listener asks for something else, or there can be no such user.
    pub(crate) fn identify_proven(
        &self,
        user: &str,
        head: &RequestHead,
    ) -> Result<AuthContext, Refusal> {
        let authenticator = &self.listener.authenticator;
        let identity = authenticator.believe_ingress(user, self.source);
        let identity = identity.map_err(|challenge| self.challenged(challenge))?;
        Ok(self.known(identity, Fields::new(), head))
    }

    /// The same where the client has shown a password before its request, which may have been long ago.
    ///
    /// # Errors
    /// The listener would not accept it now.
    pub(crate) fn identify_again(
        &self,
        identity: &Identity,
        head: &RequestHead,
    ) -> Result<AuthContext, Refusal> {
        let authenticator = &self.listener.authenticator;
        let user = identity.user.as_deref();
        authenticator
            .still_accepts(&identity.proof, user, unix_seconds())
            .map_err(|reason| {
                self.listener.telemetry.auth_failure("basic");
                Refusal::new(ProxyError::HttpRequestDenied, reason)
                    .status(StatusCode::FORBIDDEN)
                    .at(Phase::Identify, self.key("auth"))
            })?;
        Ok(self.known(identity.clone(), Fields::new(), head))
    }

    fn challenged(&self, challenge: Challenge) -> Refusal {
        self.listener.telemetry.auth_failure(challenge.scheme);
        Refusal::new(ProxyError::HttpRequestDenied, challenge.reason)
            .status(challenge.status)
            .fields(challenge.fields)
            .at(Phase::Identify, self.key("auth"))
    }

    fn known(&self, identity: Identity, credentials: Fields, head: &RequestHead) -> AuthContext {
        let source = self.snapshot.source_of(self.listener, self.source);
        let peer = !matches!(source, Source::Client);
        let mut auth = AuthContext::new(identity, credentials, peer);
        auth.arrived = may_tunnel(head, self.snapshot).then(|| Arc::new(head.clone()));
        auth
    }

    /// The user whose exchange this is. Afterwards the overlay fields are those that are believed, and those that the listener
    /// adds are there.
    ///
    /// # Errors
    /// It is not believed, or a field cannot be written.
    pub fn believe(
        &self,
        auth: &AuthContext,
        target: &Target,
        head: &mut RequestHead,
    ) -> Result<Option<String>, Refusal> {
        self.believe_noting(auth, target, head, &mut RemovedFields::default())
    }

    /// The same; takes down which fields were removed, also if it is not believed.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn believe_noting(
        &self,
        auth: &AuthContext,
        target: &Target,
        head: &mut RequestHead,
        removed: &mut RemovedFields,
    ) -> Result<Option<String>, Refusal> {
        let user = self.whose(auth, head, removed)?;
        self.tag(head, target, user.as_deref())?;
        Ok(user)
    }

    fn whose(
        &self,
        auth: &AuthContext,
        head: &mut RequestHead,
        removed: &mut RemovedFields,
    ) -> Result<Option<String>, Refusal> {
        let Self {
            snapshot,
            listener,
            source,
        } = *self;
        let from = snapshot.source_of(listener, source);
        let believed = snapshot.rules.identify(
            &listener.entrance(),
            &from,
            auth.authenticated(),
            &mut head.fields,
            removed,
        );

        believed.map_err(|refusal| {
            let place = place_of_source(&from, &listener.entrance());
            let refused = match StatusCode::from_u16(refusal.status) {
                Ok(status) if status.is_client_error() => {
                    Refusal::new(ProxyError::HttpRequestDenied, refusal.reason).status(status)
                }
                _ => Refusal::new(ProxyError::ProxyConfigurationError, refusal.reason),
            };
            refused.at(Phase::Identify, place)
        })
    }

    /// *Tag*: the fields that this listener adds.
    fn tag(
        &self,
        head: &mut RequestHead,
        target: &Target,
        user: Option<&str>,
    ) -> Result<(), Refusal> {
        let Self {
            snapshot,
            listener,
            source,
        } = *self;
        if head.kind() == Kind::Message {
            append_forwarded(head, source.peer.socket(), source.tls.is_some());
        }

        let config = &listener.config;
        if config.set.is_empty() && config.append.is_empty() && config.remove.is_empty() {
            return Ok(());
        }

        let entrance = listener.entrance();
        let rules = &snapshot.rules;
        self.change(head, target, user, |values, fields| {
            rules.tag(&entrance, values, fields, &mut ())
        })
    }

    /// Changes fields of an exchange, with its values of the variables in templates.
    pub fn change(
        &self,
        head: &mut RequestHead,
        target: &Target,
        user: Option<&str>,
        change: impl FnOnce(&Values<'_>, &mut Fields) -> Result<(), BadField>,
    ) -> Result<(), Refusal> {
        let Self {
            snapshot,
            listener,
            source,
        } = *self;

        // Copied, because the values are read while the fields of the same head change.
        let asked = head.path.clone();
        let method = head.method.clone();
        let values = Values {
            path: asked.as_ref().map_or("", PathAndQuery::path),
            query: asked.as_ref().and_then(PathAndQuery::query),
            method: method.as_str(),
            ..values(source, listener, user, target, &snapshot.node.name)
        };

        change(&values, &mut head.fields).map_err(|bad| {
            Refusal::new(
                ProxyError::HttpRequestError,
                format!("field {}: {}", bad.name, bad.reason),
            )
        })
    }

    /// Where a key of the listener is written.
    fn key(&self, key: &str) -> String {
        child(&child("listeners", &self.listener.name), key)
    }

    /// The credentials in `fields` that a filter is to see.
    fn credentials(&self, fields: &Fields) -> Fields {
        let wanted = &self.snapshot.policing.filtered_credentials;
        let lines = wanted
            .iter()
            .flat_map(|name| fields.values(name).map(move |line| (name, line.secret())));
        lines.collect()
    }
}

/// Whether an exchange can become a tunnel: all but messages are, and a POST where a route says so.
fn may_tunnel(head: &RequestHead, snapshot: &Snapshot) -> bool {
    let is_post = snapshot.tunnels_by_post && head.method == Method::POST;
    head.kind() != Kind::Message || is_post
}

/// The values of variables in templates; path and method are the caller's to fill in.
pub(crate) fn values<'a>(
    source: &'a StreamInfo,
    listener: &'a ListenerRules,
    user: Option<&'a str>,
    target: &'a Target,
    node: &'a str,
) -> Values<'a> {
    let certificate = source.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
    Values {
        peer: source.peer.socket(),
        listener: &listener.name,
        user,
        tls_peer: certificate.and_then(|names| names.primary()),
        target_host: target.host(),
        target_port: target.port(),
        node,
        path: "",
        query: None,
        method: "",
    }
}
