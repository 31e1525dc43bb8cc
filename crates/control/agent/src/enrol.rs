//! Becoming a member of an overlay, and staying one.

use std::net::SocketAddr;

use hermes_api::{Hash, JoinAnswer, JoinRequest, Name, RenewRequest, Token, VerifyingKey, methods};
use http::uri::PathAndQuery;
use rcgen::{CertificateParams, KeyPair};
use tonic_prost::ProstCodec;

use crate::blocking::blocking;
use crate::connection::{Connection, Identity, MemberTls, Trusted};
use crate::{ControllerUrl, Membership, NotConnected, State};

/// Why a node is no member, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum NotJoined {
    /// The controller cannot be reached.
    #[error(transparent)]
    Unreachable(#[from] NotConnected),
    /// The controller refuses.
    #[error("the controller refuses: {0}")]
    Refused(String),
    /// The connection ended before the answer. A join may be repeated.
    #[error("the connection ended: {0}")]
    Lost(String),
    /// The folder of the node.
    #[error("{0}")]
    State(#[from] std::io::Error),
    /// The answer makes no sense.
    #[error("the controller's answer: {0}")]
    Answer(String),
}

/// How a node joins.
#[derive(Debug, Clone, Copy)]
pub struct JoinOptions<'a> {
    /// The name that it would have; the controller may choose another one.
    pub name: Option<&'a Name>,
    /// SHA-256 of its program.
    pub binary: Hash,
    /// Where programs of this machine speak to it, if not where all devices of the overlay listen.
    pub web: Option<SocketAddr>,
    /// The operator's key, without whose signature no document is followed.
    pub operator_key: Option<&'a VerifyingKey>,
}

/// Joins the overlay of a token. With the same folder it may be repeated.
///
/// # Errors
/// The controller cannot be reached or refuses, or the folder cannot be written.
pub async fn join(
    state: &State,
    url: &ControllerUrl,
    token: &Token,
    options: JoinOptions<'_>,
) -> Result<Membership, NotJoined> {
    let request = JoinRequest {
        token_id: token.id.clone(),
        token_secret: token.secret.clone(),
        name: options.name.map(Name::to_string).unwrap_or_default(),
        request: certificate_request(&state.key()?)?,
        binary: options.binary.as_bytes().to_vec(),
    };
    // There is no certificate to show yet: the token's secret goes to the pinned authority alone.
    let trusted = Trusted::Pin(token.authority);
    let connection = Connection::open(url, &trusted).await?;
    let answer: JoinAnswer = ask(connection, methods::JOIN, request).await?;

    let membership = Membership {
        web: options.web,
        operator_key: options.operator_key.map(VerifyingKey::to_text),
        ..Membership::of(&answer, url.to_string()).map_err(NotJoined::Answer)?
    };
    // Before the membership: without authorities no controller is believed at the next start.
    state.keep_authorities(&answer.authorities)?;
    state.keep_membership(&membership, &answer.certificates)?;
    Ok(membership)
}

/// Renews the node's certificate, for the same key.
///
/// # Errors
/// As for [`join`].
pub async fn renew(state: &State, membership: &Membership) -> Result<(), NotJoined> {
    let connection = as_member(state, membership, &mut MemberTls::default()).await?;
    let request = RenewRequest {
        request: certificate_request(&state.key()?)?,
    };
    let answer: JoinAnswer = ask(connection, methods::RENEW, request).await?;
    let renewed = Membership {
        web: membership.web,
        // Told by the operator: no controller changes it.
        operator_key: membership.operator_key.clone(),
        ..Membership::of(&answer, membership.controller.clone()).map_err(NotJoined::Answer)?
    };
    // A controller that mixes up its members must not change who this node is.
    if renewed.node != membership.node || renewed.overlay != membership.overlay {
        return Err(NotJoined::Answer("it is for another node".to_owned()));
    }
    state.keep_authorities(&answer.authorities)?;
    state.keep_membership(&renewed, &answer.certificates)?;
    Ok(())
}

/// A connection on which this node shows its certificate, or goes on with the session of an earlier one.
pub(crate) async fn as_member(
    state: &State,
    membership: &Membership,
    tls: &mut MemberTls,
) -> Result<Connection, NotJoined> {
    let url: ControllerUrl = membership.controller.parse().map_err(NotJoined::Answer)?;
    let state = state.clone();
    let (identity, trusted) = blocking(move || {
        let identity = Identity {
            certificates: state.certificates()?,
            key: state.key()?,
        };
        Ok((identity, Trusted::Authorities(state.authorities()?)))
    })
    .await?;
    Ok(Connection::open_as(&url, trusted, identity, tls).await?)
}

/// A request for a certificate of this key. It names no one: the controller says who the node is.
fn certificate_request(key: &str) -> Result<Vec<u8>, NotJoined> {
    let unusable = |error: rcgen::Error| NotJoined::State(std::io::Error::other(error));
    let key = KeyPair::from_pem(key).map_err(unusable)?;
    let request = CertificateParams::default().serialize_request(&key);
    Ok(request.map_err(unusable)?.der().to_vec())
}

async fn ask<Q, A>(connection: Connection, method: &'static str, request: Q) -> Result<A, NotJoined>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut grpc = connection.grpc();
    let lost = |error: &dyn std::fmt::Display| NotJoined::Lost(error.to_string());
    grpc.ready().await.map_err(|error| lost(&error))?;
    let codec = ProstCodec::<Q, A>::default();
    let answered = grpc
        .unary(
            tonic::Request::new(request),
            PathAndQuery::from_static(method),
            codec,
        )
        .await;
    answered
        .map(tonic::Response::into_inner)
        .map_err(|status| match status.code() {
            // A controller that refuses says why; all else is the connection.
            tonic::Code::PermissionDenied
            | tonic::Code::InvalidArgument
            | tonic::Code::Unauthenticated => NotJoined::Refused(status.message().to_owned()),
            _ => lost(&status.message()),
        })
}
