//! One attempt to obtain a certificate (RFC 8555 section 7.4).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_config::model::AcmeChallenge;
use hermes_net::Resolver;
use hermes_net::clock::unix_seconds;
use hermes_net::tls::{self, ClientOptions, TlsSource};
use http::Uri;
use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, ChallengeHandle, ChallengeType,
    ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::task::spawn_blocking;

use crate::client::BoundedClient;
use crate::failure::{Failure, bounded};
use crate::managed::{Managed, ShownChallenge};
use crate::tokens::{OpenToken, Tokens, is_token};

/// How long an authority may take to look for its challenges, and to issue.
#[doc(alias = "bound")]
const POLL: Duration = Duration::from_secs(180);

/// Seconds for which a certificate may begin later than now: clocks differ.
#[doc(alias = "bound")]
const AHEAD: u64 = 10 * 60;

/// Certificates of a chain.
#[doc(alias = "bound")]
const CHAIN: usize = 16;

/// One attempt for one certificate.
pub(crate) struct Attempt<'a> {
    pub(crate) managed: &'a Arc<Managed>,
    pub(crate) tokens: &'a Arc<Tokens>,
    pub(crate) resolver: &'a Arc<Resolver>,
}

/// Answers a challenge while it is open.
#[expect(dead_code, reason = "they are guards")]
enum Answering {
    Token(OpenToken),
    Handshake(ShownChallenge),
}

impl Attempt<'_> {
    /// Obtains a certificate and puts it in force.
    pub(crate) async fn obtain(&self) -> Result<(), Failure> {
        let account = self.account().await?;
        let domains = &self.managed.settings.domains;
        let names: Vec<Identifier> = domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account
            .new_order(&NewOrder::new(&names))
            .await
            .map_err(|error| self.failed("the order", &error))?;

        // Guards: the answers stay until the order is ready, and end with any error on the way.
        let answering = self.answer_challenges(&mut order).await?;
        self.wait(&mut order).await?;
        drop(answering);

        let (key, chain) = self.issued(&mut order).await?;
        self.keep(key, chain).await
    }

    /// The account at the authority; a new one if the folder has none.
    pub(crate) async fn account(&self) -> Result<Account, Failure> {
        let managed = self.managed.clone();
        let kept = blocking(move || {
            managed.folder.ready()?;
            managed.folder.account()
        });
        let kept = kept.await??;
        let builder = Account::builder_with_http(Box::new(self.client().await?));

        let Some(kept) = kept else {
            return self.register(builder).await;
        };
        let credentials = serde_json::from_str(&kept).map_err(|_| {
            let reason = "the folder's account cannot be read";
            Failure::new(reason, "remove the account's file: another account is made")
        })?;
        let restored = builder.from_credentials(credentials).await;
        restored.map_err(|error| self.failed("the directory", &error))
    }

    async fn register(&self, builder: instant_acme::AccountBuilder) -> Result<Account, Failure> {
        let settings = &self.managed.settings;
        let contact = settings
            .email
            .as_ref()
            .map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let wanted = NewAccount {
            contact: &contact,
            terms_of_service_agreed: settings.terms_agreed,
            only_return_existing: false,
        };

        let bound = self.external_account().await?;
        let made = builder
            .create(&wanted, settings.directory().to_owned(), bound.as_ref())
            .await;
        let (account, credentials) = made.map_err(|error| self.failed("the account", &error))?;
        let text = serde_json::to_string(&credentials)
            .map_err(|error| Failure::of_authority(format!("the account: {error}")))?;
        let managed = self.managed.clone();
        // Kept before it is used: each account whose key is lost counts against the authority's limits.
        blocking(move || managed.folder.keep_account(&text)).await??;
        Ok(account)
    }

    /// The account that the operator has at the authority, which a new one is bound to (RFC 8555 section 7.3.4).
    async fn external_account(&self) -> Result<Option<ExternalAccountKey>, Failure> {
        let Some(external) = self.managed.settings.external_account.clone() else {
            return Ok(None);
        };
        let key = external.key_file.clone();
        let read = blocking(move || key.secret()).await?;
        let failed = |reason: &str| {
            Failure::new(
                format!("external_account.key_file: {reason}"),
                "write the key there as the authority shows it, on one line, for this node's user alone (mode 0600)",
            )
        };
        let text = read.map_err(|reason| failed(&reason))?;
        // Authorities write it with and without padding.
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim().trim_end_matches('='))
            .map_err(|_| failed("it is not base64url"))?;
        Ok(Some(ExternalAccountKey::new(external.id, &bytes)))
    }

    async fn client(&self) -> Result<BoundedClient, Failure> {
        let settings = self.managed.settings.clone();
        let config = blocking(move || {
            let authorities = settings.ca_file.as_ref();
            tls::client(ClientOptions {
                authorities: authorities.map(|one| one.either(TlsSource::File, TlsSource::Inline)),
                ..ClientOptions::default()
            })
        });
        let config = config.await?.map_err(|error| {
            let remedy = error
                .remedy
                .clone()
                .unwrap_or_else(|| "mend `ca_file`".to_owned());
            Failure::new(format!("{}: {}", error.name, error.reason), remedy)
        })?;

        let directory = self.managed.settings.directory();
        let uri: Option<Uri> = directory.parse().ok();
        uri.and_then(|uri| BoundedClient::new(&uri, config.into(), self.resolver.clone()))
            .ok_or_else(|| Failure::new(format!("`{directory}` is not a URL"), "mend `directory`"))
    }

    /// Answers the open challenges of all names, for as long as the guards live.
    async fn answer_challenges(&self, order: &mut Order) -> Result<Vec<Answering>, Failure> {
        let names = self.managed.settings.domains.len();
        let mut answering = Vec::new();
        let mut seen = 0;
        let mut authorizations = order.authorizations();

        while let Some(next) = authorizations.next().await {
            seen += 1;
            if seen > names {
                let reason = "the authority wants more names proved than were ordered";
                return Err(Failure::of_authority(reason));
            }
            let mut authorization =
                next.map_err(|error| self.failed("the authorization", &error))?;
            match authorization.status {
                AuthorizationStatus::Valid => {}
                AuthorizationStatus::Pending => {
                    answering.push(self.answer(&mut authorization).await?);
                }
                other => {
                    let reason = format!("the authority has an authorization that is {other:?}");
                    return Err(Failure::new(reason, "nothing: another is ordered"));
                }
            }
        }
        Ok(answering)
    }

    async fn answer<'b>(
        &self,
        authorization: &'b mut AuthorizationHandle<'b>,
    ) -> Result<Answering, Failure> {
        let domain = self.ordered(authorization.identifier().identifier)?;
        let wanted = self.managed.settings.challenge;
        let (kind, name) = match wanted {
            AcmeChallenge::Http01 => (ChallengeType::Http01, "http-01"),
            AcmeChallenge::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
        };
        let Some(mut challenge) = authorization.challenge(kind) else {
            let reason = format!("the authority offers no {name} for {domain}");
            return Err(Failure::new(reason, "choose another `challenge`"));
        };
        // RFC 8555, 8.3: base64url, and nothing else. The token becomes part of a path that strangers ask for.
        if !is_token(&challenge.token) {
            return Err(Failure::of_authority("the authority's token is invalid"));
        }

        let answering = match wanted {
            AcmeChallenge::Http01 => {
                let authorized = challenge.key_authorization();
                let open = self.tokens.open(&challenge.token, authorized.as_str());
                Answering::Token(open)
            }
            AcmeChallenge::TlsAlpn01 => {
                let certified = challenge_certificate(&domain, &challenge)?;
                Answering::Handshake(self.managed.show(&domain, certified))
            }
        };
        // The answer is in place first: the authority may look at once.
        let ready = challenge.set_ready().await;
        ready.map_err(|error| self.failed(&format!("the challenge of {domain}"), &error))?;
        Ok(answering)
    }

    /// The name, if it was ordered: no challenge of another one is answered.
    fn ordered(&self, identifier: &Identifier) -> Result<String, Failure> {
        let asked = match identifier {
            Identifier::Dns(domain) => domain.clone(),
            other => format!("{other:?}"),
        };
        let mut domains = self.managed.settings.domains.iter();
        match domains.find(|domain| domain.eq_ignore_ascii_case(&asked)) {
            Some(domain) => Ok(domain.clone()),
            None => Err(Failure::of_authority(format!(
                "the authority asks for a name that was not ordered: {}",
                bounded(&asked)
            ))),
        }
    }

    /// Waits until the authority has found its challenges.
    async fn wait(&self, order: &mut Order) -> Result<(), Failure> {
        let retries = RetryPolicy::new().backoff(1.5).timeout(POLL);
        let polled = order.poll_ready(&retries).await;
        if let Ok(OrderStatus::Ready) = polled {
            return Ok(());
        }

        // The order says at most that it is invalid; its authorizations say why.
        if let Some(failure) = self.refused_challenge(order).await {
            return Err(failure);
        }
        Err(match polled {
            Ok(_) => Failure::new("the order became invalid", "nothing: it is tried again"),
            Err(error) => self.failed("the challenges", &error),
        })
    }

    async fn refused_challenge(&self, order: &mut Order) -> Option<Failure> {
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            let state = authorization.refresh().await.ok()?;
            let step = match state.identifier().identifier {
                Identifier::Dns(domain) => format!("the challenge of {}", bounded(domain)),
                _ => "the challenge".to_owned(),
            };
            let problem = state.challenges.iter().find_map(|one| one.error.as_ref());
            if let Some(problem) = problem {
                return Some(Failure::of_problem(&step, problem, &self.managed.settings));
            }
        }
        None
    }

    /// Has the certificate issued, for a new key.
    async fn issued(&self, order: &mut Order) -> Result<(KeyPair, String), Failure> {
        // Each certificate has a new key: one that leaked is of no use after a renewal.
        let key = KeyPair::generate().map_err(|error| own(&error))?;
        let request = || {
            let mut params = CertificateParams::new(self.managed.settings.domains.clone())?;
            params.distinguished_name = DistinguishedName::new();
            params.serialize_request(&key)
        };
        let request = request().map_err(|error| own(&error))?;

        let finalized = order.finalize_csr(request.der()).await;
        finalized.map_err(|error| self.failed("the request", &error))?;
        let retries = RetryPolicy::new().backoff(1.5).timeout(POLL);
        let chain = order.poll_certificate(&retries).await;
        let chain = chain.map_err(|error| self.failed("the certificate", &error))?;
        Ok((key, chain))
    }

    /// Keeps the issued certificate, if it matches the order, and puts it in force.
    async fn keep(&self, key: KeyPair, chain: String) -> Result<(), Failure> {
        let managed = self.managed.clone();
        let kept = blocking(move || {
            let blocks = certificates(&chain)?;
            let private =
                PrivateKeyDer::try_from(key.serialize_der()).map_err(Failure::of_authority)?;
            let certified = tls::certified(blocks.clone(), private).map_err(|error| {
                Failure::of_authority(format!("the certificate cannot be used: {error}"))
            })?;
            // An authority is trusted to vouch for names, not to choose them: clients would refuse one for others.
            if !managed.covers(&certified) {
                return Err(Failure::of_authority(
                    "the certificate is not for the names that were ordered",
                ));
            }

            in_time(&blocks[0], unix_seconds())?;

            managed
                .folder
                .keep_certificate(&key.serialize_pem(), &chain)?;
            // From the folder, as at a start: what is in force is what a restart would find.
            managed.load()?;
            Ok(())
        });
        kept.await?
    }

    fn failed(&self, step: &str, error: &instant_acme::Error) -> Failure {
        Failure::of_step(step, error, &self.managed.settings)
    }
}

/// Refuses a certificate that is not valid now: it would stand in the place of one that may be, and be ordered again at once.
fn in_time(own: &[u8], now: u64) -> Result<(), Failure> {
    let span = tls::of_certificate(own)
        .ok_or_else(|| Failure::of_authority("the certificate cannot be read"))?;
    let fault = if span.until.unwrap_or(0) <= now {
        "has ended already"
    } else if span.from > now + AHEAD {
        "is not valid yet"
    } else {
        return Ok(());
    };
    let remedy = "set this machine's clock; if that is right, tell the authority";
    Err(Failure::new(
        format!("the certificate that was issued {fault}"),
        remedy,
    ))
}

/// The certificates of a chain, and nothing else: the authority's text is written to a file with a
/// key.
fn certificates(chain: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let blocks: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let blocks = blocks.map_err(|_| Failure::of_authority("the certificate is not PEM"))?;
    if blocks.is_empty() || blocks.len() > CHAIN || chain.contains("PRIVATE KEY") {
        return Err(Failure::of_authority(
            "the issued text is not a chain of certificates",
        ));
    }
    Ok(blocks)
}

/// The certificate that answers a handshake of the authority (RFC 8737 section 3).
fn challenge_certificate(
    domain: &str,
    challenge: &ChallengeHandle<'_>,
) -> Result<CertifiedKey, Failure> {
    let digest = challenge.key_authorization().digest();
    let made = || {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![domain.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = made().map_err(|error: rcgen::Error| own(&error))?;
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(Failure::of_authority)?;

    tls::certified_as_is(certificate.der().clone(), private)
        .map_err(|error| Failure::of_authority(format!("the challenge of {domain}: {error}")))
}

/// A failure here, not at the authority.
fn own(error: &rcgen::Error) -> Failure {
    Failure::new(
        format!("no request for a certificate can be made: {error}"),
        "mend `domains`",
    )
}

/// Runs a function that may wait for a disk on a thread where it holds up no one.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Failure::new(error.to_string(), "nothing: it is tried again"))
}
