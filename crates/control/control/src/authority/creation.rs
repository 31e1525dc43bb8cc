//! Making tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_api::{Hash, Token};

use super::encoding::{hex, random};
use super::error::{AuthorityError, CONTROLLER};
use super::root::Authority;
use super::tokens::{LONGEST, MOST, NoToken, PREFIX, TokenRecord, TokenRequest, drop_expired};

impl Authority {
    /// Makes a token.
    ///
    /// # Errors
    /// There are too many, it would count too long, or the store cannot be written.
    pub fn create_token(&self, request: &TokenRequest, now: u64) -> Result<Token, NoToken> {
        if !(1..=LONGEST).contains(&request.lifetime_seconds) {
            return Err(NoToken::Lifetime);
        }
        if let Some(name) = request
            .name
            .as_ref()
            .filter(|name| name.as_str() == CONTROLLER)
        {
            return Err(NoToken::Reserved(name.clone()));
        }
        drop_expired(&self.records, now)?;
        let known = self
            .records
            .all::<TokenRecord>(PREFIX)
            .map_err(AuthorityError::from)?;
        if known.len() >= MOST {
            return Err(NoToken::TooMany);
        }

        let mut id = [0; 8];
        random(&mut id)?;
        let mut secret = [0; 16];
        random(&mut secret)?;
        let token = Token {
            overlay: self.overlay.clone(),
            id: hex(&id),
            secret: URL_SAFE_NO_PAD.encode(secret),
            authority: self.pin(now)?,
        };
        let record = TokenRecord {
            id: token.id.clone(),
            secret: Hash::of(token.secret.as_bytes()),
            user: request.user.clone(),
            name: request.name.clone(),
            until: now + request.lifetime_seconds,
            redeemed: None,
        };
        let key = TokenRecord::key(&token.id);
        self.records
            .put(&key, None, Some(&record))
            .map_err(AuthorityError::from)?;
        Ok(token)
    }
}
