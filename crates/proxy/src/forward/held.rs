//! What lets a UDP session go on when the way to it breaks.

use http::HeaderMap;

use hermes_packet::{Claim, Seat, Token};

/// What lets a UDP session go on when the way to it breaks.
pub(crate) enum Held {
    /// Nothing: no one asked for it, or the next hop does not know how.
    Nothing,
    /// The token of a session that ends at a later proxy.
    Beyond(Token),
    /// Its place in the table of this proxy, where it ends.
    Here(Seat),
}

impl Held {
    /// What the response of the next hop says.
    pub(crate) fn beyond(fields: &mut HeaderMap) -> Self {
        Token::take(fields).map_or(Self::Nothing, Self::Beyond)
    }

    /// Tells the asker.
    pub(crate) fn tell(&self, fields: &mut HeaderMap) {
        match self {
            Self::Nothing => {}
            Self::Beyond(token) => token.write(fields),
            Self::Here(seat) => seat.token().write(fields),
        }
    }

    /// Waits until someone takes the session over.
    pub(super) async fn claimed(&mut self) -> Claim {
        match self {
            Self::Here(seat) => seat.claimed().await,
            Self::Nothing | Self::Beyond(_) => std::future::pending().await,
        }
    }
}
