//! Making, listing and deleting tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_api::{Hash, Token};

use super::encoding::{hex, random};
use super::error::{AuthorityError, CONTROLLER, DAY, OPERATOR};
use super::records::change;
use super::root::Authority;
use super::tokens::{
    LONGEST, MOST, NoToken, OpenTokens, PREFIX, TokenRecord, TokenRequest, TokenSummary,
    drop_expired,
};
use crate::store::Act;

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
        self.take_room(now)?;

        let mut id = [0; 8];
        random(&mut id)?;
        let mut secret = [0; 16];
        random(&mut secret)?;
        let token = Token {
            overlay: self.overlay.clone(),
            id: hex(&id),
            secret: URL_SAFE_NO_PAD.encode(secret),
            // The generation that the controller shows for a day by now: it always shows earlier ones, but not yet the next.
            authority: self.pin(now.saturating_sub(DAY))?,
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
        let subject = match &request.user {
            Some(user) => format!("{} for a device of {user}", token.id),
            None => format!("{} for a node", token.id),
        };
        let act = Act {
            time: now,
            who: OPERATOR,
            act: "token",
            subject: &subject,
        };
        self.records
            .swap_told(&[change(&key, None, Some(&record))], &act)
            .map_err(AuthorityError::from)?;
        Ok(token)
    }

    /// Counts one more open token.
    ///
    /// # Errors
    /// There are too many, or the store cannot be read.
    fn take_room(&self, now: u64) -> Result<(), NoToken> {
        let mut open = self.open_tokens.lock();
        // Others make and redeem tokens meanwhile. To read all for each new one would take longer with each.
        if !open.is_known(now) {
            drop_expired(&self.records, now)?;
            let known = self.records.all::<TokenRecord>(PREFIX);
            let known = known.map_err(AuthorityError::from)?;
            // Each redeemed one is a member, and needs no bound of its own.
            let known = known.iter().filter(|token| token.redeemed.is_none());
            *open = OpenTokens {
                count: known.count(),
                counted: Some(now),
            };
        }
        if open.count >= MOST {
            return Err(NoToken::TooMany);
        }
        open.count += 1;
        Ok(())
    }

    /// The tokens that count, in the order of their identifiers.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tokens(&self, now: u64) -> Result<Vec<TokenSummary>, AuthorityError> {
        let all = self.records.all::<TokenRecord>(PREFIX)?;
        let counting = all.into_iter().filter(|token| token.until > now);
        Ok(counting.map(TokenSummary::from).collect())
    }

    /// Ends a token; the member that joined with it stays. Returns whether there was one.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn delete_token(&self, id: &str, now: u64) -> Result<bool, AuthorityError> {
        let key = TokenRecord::key(id);
        let act = Act {
            time: now,
            who: OPERATOR,
            act: "delete token",
            subject: id,
        };
        while let Some(token) = self.records.get::<TokenRecord>(&key)? {
            let removed = change(&key, Some(&token), None);
            if self.records.swap_told(&[removed], &act)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
