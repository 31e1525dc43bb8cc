//! The methods of a listener, and the verification of credentials.

use std::sync::Arc;

use hermes_config::Problem;
use hermes_config::model::{Auth, AuthMethods, AuthMode, Listener};
use hermes_http::fields::Fields;
use hermes_net::{CertificateNames, PeerAddress, StreamInfo};

use crate::basic::BasicAuth;
use crate::bearer::{BearerAuth, Verified};
use crate::challenge::{Challenge, Refusal, Schemes};
use crate::claims::LEEWAY;
use crate::credentials::{self, Credentials};
use crate::proof::Proof;
use crate::user_name::USER_LIMIT;

/// The user of an exchange, and the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The authenticated user; `None` without authentication.
    pub user: Option<String>,
    /// The proof.
    pub proof: Proof,
    /// The verified client certificate's names, for every method.
    pub certificate: Option<CertificateNames>,
    /// Unix time in seconds at which the credential ends, but for the `LEEWAY` that the clocks have.
    pub expires: Option<u64>,
}

/// Authenticates the senders at one listener. Shared by its workers.
#[derive(Debug, Default)]
pub struct Authenticator {
    basic: Option<BasicAuth>,
    bearer: Option<BearerAuth>,
    mtls: bool,
    /// Whether nothing need be shown.
    optional: bool,
    /// The ingress that makes exchanges of the input.
    ingress: Option<Arc<str>>,
}

/// Whose word about users a listener takes: its ingress, or the kernel of this machine about programs that are captured.
fn word_of(listener: &Listener) -> Option<Arc<str>> {
    let ingress = listener.ingress().map(|ingress| ingress.name.as_str());
    let names_logins = listener.capture().is_some_and(|capture| capture.login);
    let kernel = names_logins.then_some("capture");
    ingress.or(kernel).map(Into::into)
}

impl Authenticator {
    /// Reads the files that `listener.auth` names. `path` is the listener's own path, e.g.
    /// `listeners.web`; `previous` is the authenticator before, parts of which are reused.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first: files that cannot be read, bad lines, unusable keys.
    pub fn build(
        listener: &Listener,
        path: &str,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let methods = match listener.auth() {
            None | Some(Auth::Word(AuthMode::None)) => AuthMethods::default(),
            Some(Auth::Word(AuthMode::Mtls)) => AuthMethods {
                mtls: true,
                ..AuthMethods::default()
            },
            Some(Auth::Methods(methods)) => methods.clone(),
        };

        let mut errors = Vec::new();
        let mut built = |error: Vec<Problem>| errors.extend(error);
        let known = previous.and_then(|previous| previous.basic.as_ref());
        let basic = methods
            .basic
            .map(|basic| BasicAuth::build(&basic, &format!("{path}.auth.basic"), known));
        let basic = basic.and_then(|basic| basic.map_err(&mut built).ok());
        let bearer = methods
            .bearer
            .map(|bearer| BearerAuth::build(&bearer, &format!("{path}.auth.bearer")));
        let bearer = bearer.and_then(|bearer| bearer.map_err(&mut built).ok());

        if errors.is_empty() {
            Ok(Self {
                basic,
                bearer,
                mtls: methods.mtls,
                optional: methods.optional,
                ingress: word_of(listener),
            })
        } else {
            Err(errors)
        }
    }

    /// Whether clients are authenticated.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.asks_field() || self.mtls
    }

    /// Authenticates a request, at Unix time `now` in seconds, and takes the credentials out of
    /// `fields`.
    ///
    /// `Proxy-Authorization` is always removed. On a gateway's listener the credentials are in `Authorization`, which
    /// is removed only if this listener reads it: otherwise it is for the origin.
    ///
    /// # Errors
    /// The response to send: 407 (gateway: 401) with a challenge for each scheme, 403 where no challenge could be
    /// met (a certificate is missing), 503 when too many passwords of this source or user are waiting to be checked.
    pub async fn authenticate(
        &self,
        fields: &mut Fields,
        source: &StreamInfo,
        gateway: bool,
        now: u64,
    ) -> Result<Identity, Challenge> {
        let shown = credentials::take(fields, gateway, self.asks_field());
        let certificate = source.tls.as_ref().and_then(|tls| tls.certificate.clone());
        let found = match shown {
            Ok(shown) => self.check(shown, certificate, source.peer, now).await,
            Err(reason) => Err(Refusal::Malformed(reason)),
        };
        found.map_err(|refusal| Challenge::new(refusal, &self.schemes(), gateway))
    }

    /// Checks a user and a password that came by no field, as of SOCKS, at Unix time `now` in seconds. They are judged as those of Basic are:
    /// with the same turns and pauses.
    ///
    /// # Errors
    /// The response to send to a client of HTTP.
    pub async fn authenticate_password(
        &self,
        user: &[u8],
        password: &[u8],
        source: &StreamInfo,
        now: u64,
    ) -> Result<Identity, Challenge> {
        let refused = |refusal| Challenge::new(refusal, &self.schemes(), false);
        let shown = Credentials::of_password(user, password).ok_or_else(|| refused(Refusal::Basic));
        let certificate = source.tls.as_ref().and_then(|tls| tls.certificate.clone());
        self.check(Some(shown?), certificate, source.peer, now)
            .await
            .map_err(refused)
    }

    /// Whether clients are asked for a password: whether they must show it; `None` where they are not asked.
    #[must_use]
    pub fn requires_password(&self) -> Option<bool> {
        self.basic.as_ref().map(|_| !self.optional)
    }

    /// Takes the word of the listener's ingress that this is the user, where nothing else has to be shown.
    ///
    /// # Errors
    /// The response to send to a client of HTTP, as for credentials that are wrong.
    pub fn believe_ingress(&self, user: &str, source: &StreamInfo) -> Result<Identity, Challenge> {
        let refused = |refusal| Challenge::new(refusal, &self.schemes(), false);
        let Some(ingress) = self.ingress.clone().filter(|_| !self.requires()) else {
            return Err(refused(Refusal::Unasked("ingress")));
        };
        if !is_user(user) {
            let reason = "the ingress has found out a name that cannot be a user";
            return Err(refused(Refusal::Ingress(reason)));
        }
        Ok(Identity {
            user: Some(user.to_owned()),
            proof: Proof::Ingress(ingress),
            certificate: source.tls.as_ref().and_then(|tls| tls.certificate.clone()),
            expires: None,
        })
    }

    /// The answer to a client without credentials, if these were optional and the policy denies;
    /// `None` if it is always asked, or only for a certificate.
    #[must_use]
    pub fn asks_again(&self, gateway: bool) -> Option<Challenge> {
        let asks = self.optional && self.asks_field();
        asks.then(|| Challenge::new(Refusal::Missing, &self.schemes(), gateway))
    }

    /// Whether an earlier proof of `user` would be accepted at `now`, Unix time in seconds. The
    /// authorities of certificates are not checked here.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn still_accepts(&self, proof: &Proof, user: Option<&str>, now: u64) -> Result<(), String> {
        let refused = match (proof, &self.basic, &self.bearer) {
            (Proof::Password(password), Some(basic), _) => {
                match user.and_then(|user| basic.proof(user)) {
                    Some(now) if now == *password => None,
                    Some(_) => Some("the user's password has changed"),
                    None => Some("the user is not known any more"),
                }
            }
            (Proof::Token(token), _, Some(bearer)) => match bearer.again(token, now) {
                Ok(named) if Some(named.as_str()) == user => None,
                Ok(_) => Some("the token names another user now"),
                Err(reason) => Some(reason),
            },
            (Proof::Certificate, ..) if self.mtls => None,
            (Proof::Nothing, ..) if !self.requires() => None,
            (Proof::Ingress(name), ..) if self.ingress.as_ref() == Some(name) => {
                let reason = "the listener asks its clients now for credentials";
                self.requires().then_some(reason)
            }
            (Proof::Nothing, ..) => Some("the listener asks now who its clients are"),
            _ => {
                let scheme = proof.scheme();
                return Err(format!(
                    "its method of authentication ({scheme}) is not accepted any more"
                ));
            }
        };
        refused.map_or(Ok(()), |reason| Err(reason.to_owned()))
    }

    async fn check(
        &self,
        shown: Option<Credentials>,
        certificate: Option<CertificateNames>,
        source: PeerAddress,
        now: u64,
    ) -> Result<Identity, Refusal> {
        let identity = |user, proof, expires| Identity {
            user,
            proof,
            certificate: certificate.clone(),
            expires,
        };
        match (shown, &self.basic, &self.bearer) {
            (Some(Credentials::Basic { user, password }), Some(basic), _) => {
                // Boxed, as it is the only thing here that waits.
                Box::pin(basic.verify(&user, password, source, now)).await?;
                let proof = basic.proof(&user).ok_or(Refusal::Basic)?;
                Ok(identity(Some(user), Proof::Password(proof), None))
            }
            (Some(Credentials::Bearer(token)), _, Some(bearer)) => {
                let Verified {
                    user,
                    expires,
                    proof,
                } = bearer.verify(&token, now).map_err(Refusal::Bearer)?;
                Ok(identity(Some(user), Proof::Token(proof), Some(expires)))
            }
            // Credentials of a scheme that is not asked for are refused, not overlooked.
            (Some(other), _, _) if self.asks_field() => Err(Refusal::Unasked(other.scheme())),
            // No credentials: wrong ones have been refused.
            _ if self.optional && (certificate.is_none() || !self.mtls) => {
                Ok(identity(None, Proof::Nothing, None))
            }
            _ if self.mtls => {
                let user = certificate_user(certificate.as_ref())?;
                // TLS allows certificates nothing for the clock; see [`Identity::expires`].
                let not_after = certificate
                    .as_ref()
                    .and_then(|certificate| certificate.not_after);
                let expires = not_after.map(|end| end.saturating_sub(LEEWAY));
                Ok(identity(Some(user), Proof::Certificate, expires))
            }
            _ if self.asks_field() => Err(Refusal::Missing),
            _ => Ok(identity(None, Proof::Nothing, None)),
        }
    }

    /// Whether each client has to show credentials or a certificate.
    fn requires(&self) -> bool {
        self.asks() && !self.optional
    }

    /// Whether credentials are expected in a field.
    fn asks_field(&self) -> bool {
        self.basic.is_some() || self.bearer.is_some()
    }

    fn schemes(&self) -> Schemes<'_> {
        Schemes {
            basic: self.basic.as_ref().map(BasicAuth::realm),
            bearer: self.bearer.is_some(),
        }
    }
}

/// The user that a certificate names. Unlike the other schemes' users it may hold spaces, as common names do.
fn certificate_user(certificate: Option<&CertificateNames>) -> Result<String, Refusal> {
    let names = certificate.ok_or(Refusal::Missing)?;
    let user = names
        .primary()
        .ok_or(Refusal::Certificate("the certificate holds no name"))?;
    if !is_user(user) {
        return Err(Refusal::Certificate(
            "the certificate's name cannot be a user",
        ));
    }

    Ok(user.to_owned())
}

/// Whether a name can be a user: it may hold spaces within, and no more than a field can.
fn is_user(name: &str) -> bool {
    let printable = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let trimmed = name.trim();
    printable && !trimmed.is_empty() && trimmed == name && name.len() <= USER_LIMIT
}
