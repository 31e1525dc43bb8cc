//! Members of the overlay: they join, renew, and are revoked.

use std::collections::BTreeMap;

use hermes_api::{
    BadSealingKey, JoinAnswer, JoinRequest, Name, PublicSealingKey, SealingKey, Token,
};
use hermes_net::clock::unix_seconds;
use rustls::pki_types::CertificateDer;

use super::binaries;
use super::controller::Controller;
use super::outcome::NotChanged;
use super::tls;
use crate::authority::{Member, MemberRecord, Revoked, SealedText, TokenRequest, TokenSummary};
use crate::resources::{Key, Sealer, SecretSpec, Tree, unsealed_for};

impl Controller {
    /// Makes a node a member.
    ///
    /// # Errors
    /// Why not, in words for the one who joins.
    pub(super) fn join(&self, request: &JoinRequest, now: u64) -> Result<JoinAnswer, String> {
        let tree = self.in_force.lock().published.tree.clone();
        // A node may leave its name to the token: then the list of all counts here, and its own when it attends.
        let name = request.name.parse::<Name>().ok();
        let allowed = binaries::allowed(&tree, name.as_ref());
        let joined = self.authority.join(request, allowed, now);
        let joined = joined.map_err(|refused| refused.to_string())?;
        Ok(JoinAnswer {
            controllers: self.controller_urls(),
            ..joined
        })
    }

    /// Gives a member a certificate for a longer time.
    ///
    /// # Errors
    /// Why not, in words for the member.
    pub(super) fn renew(
        &self,
        chain: &[CertificateDer<'_>],
        request: &[u8],
        now: u64,
    ) -> Result<JoinAnswer, String> {
        let renewed = self.authority.renew(chain, request, now);
        let renewed = renewed.map_err(|refused| refused.to_string())?;
        Ok(JoinAnswer {
            controllers: self.controller_urls(),
            ..renewed
        })
    }

    /// The member of a certificate.
    ///
    /// # Errors
    /// It is no member's.
    pub(super) fn member(&self, chain: &[CertificateDer<'_>], now: u64) -> Result<Member, String> {
        let member = self.authority.member(chain, now);
        member.map_err(|error| error.to_string())
    }

    /// Whether a certificate is one of the overlay's controllers.
    pub(super) fn is_controller(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.authority.controller(chain, unix_seconds()).is_ok()
    }

    /// Makes a token.
    ///
    /// # Errors
    /// There are too many, or the store cannot be written.
    pub fn create_token(&self, request: &TokenRequest) -> Result<Token, String> {
        let token = self.authority.create_token(request, unix_seconds());
        token.map_err(|error| error.to_string())
    }

    /// Remembers the key that a node opens its secrets by.
    ///
    /// # Errors
    /// The node shows new keys all the time, or the store cannot be read or written.
    pub(super) fn keep_sealing_key(
        &self,
        node: &Name,
        key: PublicSealingKey,
    ) -> Result<(), String> {
        let kept = self.authority.keep_sealing_key(node, key, unix_seconds());
        kept.map_err(|error| error.to_string())
    }

    /// The resources with their secrets sealed.
    ///
    /// # Errors
    /// A node has shown no key yet, or the store cannot be read.
    pub(super) fn sealed(
        &self,
        read: &Tree,
        files: &BTreeMap<Key, String>,
    ) -> Result<Tree, NotChanged> {
        let keys = self.authority.sealing_keys(&unsealed_for(read));
        let keys = keys.map_err(|error| NotChanged::Store(error.to_string()))?;
        let fresh = || {
            let mut bytes = [0; 32];
            aws_lc_rs::rand::fill(&mut bytes).map_err(|_| BadSealingKey)?;
            SealingKey::of(bytes)
        };
        let known = |key: &Key, spec: &SecretSpec, text: &str| {
            let name = key.to_string();
            let keys = shown(&keys, &spec.nodes);
            self.authority.sealed_before(SealedText {
                name: &name,
                keys: &keys,
                text,
            })
        };
        let sealer = Sealer {
            keys: &keys,
            fresh: &fresh,
            files,
            known: &known,
        };
        let sealed = sealer.seal(read).map_err(NotChanged::Invalid)?;
        for secret in &sealed.secrets {
            let text = SealedText {
                name: &secret.key.to_string(),
                keys: &shown(&keys, secret.boxes.keys()),
                text: &secret.text.0,
            };
            self.authority.keep_sealed(text, &secret.boxes);
        }
        Ok(sealed.tree)
    }

    /// The tokens that count, without their secrets.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tokens(&self) -> Result<Vec<TokenSummary>, String> {
        let tokens = self.authority.tokens(unix_seconds());
        tokens.map_err(|error| error.to_string())
    }

    /// Ends a token; the member that joined with it stays.
    ///
    /// # Errors
    /// There is no such token, or the store cannot be written.
    pub fn delete_token(&self, id: &str) -> Result<(), String> {
        match self.authority.delete_token(id, unix_seconds()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("there is no token {id}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The members of the overlay.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn members(&self) -> Result<Vec<MemberRecord>, String> {
        self.authority.members().map_err(|error| error.to_string())
    }

    /// Ends the membership of a node, or of all nodes of a user: their streams end, and every node learns it at once.
    ///
    /// # Errors
    /// There is no such member, or the store cannot be written.
    pub fn revoke(&self, whom: &Revoked) -> Result<Vec<Name>, String> {
        let revoked = self.authority.revoke(whom, unix_seconds());
        let revoked = revoked.map_err(|error| error.to_string())?;
        let mut fleet = self.fleet.lock();
        // Their streams end before others learn of it, so that nothing new is offered to them.
        revoked.iter().for_each(|node| fleet.remove(node));
        drop(fleet);
        self.republish(&format!("revoke {whom}"))?;
        Ok(revoked)
    }

    /// Frees the name of a node that is gone.
    ///
    /// # Errors
    /// There is no such member, or the store cannot be written.
    pub fn forget(&self, node: &Name) -> Result<(), String> {
        self.authority
            .forget(node, unix_seconds())
            .map_err(|error| error.to_string())?;
        self.fleet.lock().remove(node);
        self.republish(&format!("forget {node}"))
    }

    /// Tends authorities, revocations, the controller's own certificate and old states.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(super) fn tend_once(&self) -> Result<(), String> {
        let now = unix_seconds();
        let said = |error: &dyn std::fmt::Display| error.to_string();
        // Once for all controllers, by the one that leads.
        if self.leads() {
            self.authority.tend(now).map_err(|error| said(&error))?;
            self.republish("authorities and revocations of today")?;
        }
        let identity = self
            .authority
            .controller_identity(now)
            .map_err(|error| said(&error))?;
        let before = self.tls();
        let renewed = tls::server_config(&identity.certificates, &identity.key, Some(&before))?;
        *self.tls.lock() = renewed;
        let to_peers = tls::client_config(&identity.certificates, &identity.key)?;
        self.peers.renewed(to_peers);
        if !self.leads() {
            return Ok(());
        }
        self.history
            .collect_garbage(now)
            .map_err(|error| said(&error))
    }
}

/// The keys that these nodes have shown.
fn shown<'k>(
    keys: &'k BTreeMap<Name, PublicSealingKey>,
    nodes: impl IntoIterator<Item = &'k Name>,
) -> BTreeMap<&'k Name, &'k PublicSealingKey> {
    let nodes = nodes.into_iter();
    nodes.filter_map(|node| keys.get_key_value(node)).collect()
}
