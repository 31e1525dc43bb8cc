//! Encryption between two nodes that share a key, whatever lies between them: `encrypt` at one, `decrypt` at the other.
//!
//! Contents are sealed with AES-256-GCM, under keys of one tunnel, one direction and one target. Bytes that are changed, left out, put in
//! another order or repeated break a tunnel; such datagrams are dropped. Their lengths and times can be seen.

mod bytes;
mod datagrams;
mod seal;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_config::Problem;
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Admitting, Altering, AlteringDatagrams, Beginning, BeginningDatagrams, PIECE, Payload,
    Settings, Transform, TunnelSubject,
};
use hermes_proto::functions_field::is_name;
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::at::keyring::{Keyring, SharedKey};
use bytes::{Hello, HelloOpener, HelloSealer, ReplyOpener, ReplySealer};
use datagrams::{OpenedDatagrams, SealedDatagrams};
use seal::TunnelKeys;

/// The settings of `encrypt` and of `decrypt`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CryptSettings {
    /// The node at the other end, with which this one shares a key (`plugs: { functions: { keys: .. } }`).
    with: String,
}

/// The end of the encrypted part of a tunnel that a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CryptEnd {
    /// Near the client: it seals for the target, and opens what comes back.
    Encrypt,
    /// Near the target: the reverse.
    Decrypt,
}

/// Encrypts, or decrypts. Named alone, without the other node, it lets nothing through.
pub struct Crypt {
    end: CryptEnd,
    with: Option<String>,
    keyring: Arc<Keyring>,
}

impl Crypt {
    /// The end near the client, with these keys.
    pub(crate) fn encrypt(keyring: Arc<Keyring>) -> Self {
        Self::new(CryptEnd::Encrypt, keyring)
    }

    /// The end near the target.
    pub(crate) fn decrypt(keyring: Arc<Keyring>) -> Self {
        Self::new(CryptEnd::Decrypt, keyring)
    }

    fn new(end: CryptEnd, keyring: Arc<Keyring>) -> Self {
        Self {
            end,
            with: None,
            keyring,
        }
    }

    /// The keys of a tunnel.
    fn keys(&self, tunnel: &TunnelSubject<'_>) -> Result<TunnelKeys, Refusal> {
        let Some(with) = &self.with else {
            return Err(refused("no node to encrypt for: write `{ with: NODE }`"));
        };
        let shared = self.keyring.of(with);
        let shared: Arc<SharedKey> =
            shared.ok_or_else(|| refused(format!("no key is shared with the node {with}")))?;
        Ok(TunnelKeys::new(shared, tunnel.target.with_path("")))
    }

    fn altering(&self, keys: TunnelKeys) -> Altering {
        let hello = Arc::new(Hello::default());
        match self.end {
            CryptEnd::Encrypt => Altering {
                to_target: Box::new(HelloSealer::new(keys.clone(), hello.clone())),
                to_client: Box::new(ReplyOpener::new(keys, hello)),
            },
            CryptEnd::Decrypt => Altering {
                to_target: Box::new(HelloOpener::new(keys.clone(), hello.clone())),
                to_client: Box::new(ReplySealer::new(keys, hello)),
            },
        }
    }

    fn altering_datagrams(&self, keys: TunnelKeys) -> AlteringDatagrams {
        match self.end {
            CryptEnd::Encrypt => AlteringDatagrams {
                to_target: Box::new(SealedDatagrams::new(keys.clone(), "up")),
                to_client: Box::new(OpenedDatagrams::new(keys, "down")),
            },
            CryptEnd::Decrypt => AlteringDatagrams {
                to_target: Box::new(OpenedDatagrams::new(keys.clone(), "up")),
                to_client: Box::new(SealedDatagrams::new(keys, "down")),
            },
        }
    }
}

impl Transform for Crypt {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let begun = match tunnel.payload {
            Payload::Bytes => self.keys(tunnel).map(|keys| Some(self.altering(keys))),
            Payload::Datagrams | Payload::Packets | Payload::Message => Err(refused(
                "tunnels of IP packets are not encrypted by functions",
            )),
        };
        Box::pin(std::future::ready(begun))
    }

    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let keys = self.keys(tunnel);
        let begun = keys.map(|keys| Some(self.altering_datagrams(keys)));
        Box::pin(std::future::ready(begun))
    }

    // A content that went on in the clear would betray who relies on this.
    fn admit<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Admitting<'a> {
        let details = "only tunnels are encrypted by functions";
        Box::pin(std::future::ready(Err(refused(details))))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        let keyring = self.keyring.clone();
        let end = self.end;
        Some(Settings::<dyn Transform>::new(
            move |settings: CryptSettings| {
                if !is_name(&settings.with) {
                    let problem = Problem::new("with", "this can be no name of a node");
                    return Err(vec![
                        problem.remedy("write the `node` of the document there"),
                    ]);
                }
                let made: Arc<dyn Transform> = Arc::new(Self {
                    end,
                    with: Some(settings.with),
                    keyring: keyring.clone(),
                });
                Ok(made)
            },
        ))
    }

    fn memory(&self) -> usize {
        4 * PIECE
    }
}

fn refused(details: impl Into<String>) -> Refusal {
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
