//! The resumption of UDP sessions: a token that outlives the path.

use hermes_packet::{Claim, SessionEntry, Token};
use hermes_proto::fields::Fields;
use hermes_proto::session_field::SessionValue;

/// The means by which a UDP session goes on when the path to it breaks.
pub(crate) enum Resumption {
    /// Nothing: no one asked for it, or the next hop does not know how.
    Nothing,
    /// The token of a session that ends at a later proxy.
    Beyond(Token),
    /// Its entry in the table of this proxy, where it ends.
    Here(SessionEntry),
}

impl Resumption {
    /// As the response of the next hop says.
    pub(crate) fn beyond(fields: &mut Fields) -> Self {
        Token::take(fields).map_or(Self::Nothing, Self::Beyond)
    }

    /// Whether both are of one session at a later proxy.
    pub(crate) fn is_of_session(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Beyond(one), Self::Beyond(two)) if one == two)
    }

    /// Tells the client that asked.
    pub(crate) fn tell(&self, fields: &mut Fields) {
        match self {
            Self::Nothing => {}
            Self::Beyond(token) => token.write(fields),
            Self::Here(entry) => entry.token().write(fields),
        }
    }

    /// Waits until someone takes the session over.
    pub(crate) async fn claimed(&mut self) -> Claim {
        match self {
            Self::Here(entry) => entry.claimed().await,
            Self::Nothing | Self::Beyond(_) => std::future::pending().await,
        }
    }
}
