//! The user of an exchange, and its trusted overlay fields.
//!
//! | from | `user` field | other overlay fields |
//! |---|---|---|
//! | client | only if it says what authentication said, or is accepted without authentication | those accepted |
//! | peer | if the peer speaks for that user | all, or those accepted |
//! | peer of another overlay | as `NAME@DOMAIN`, if the peer speaks for that name | those accepted |
//! | peer by `insecure_trust` | yes | all |
//!
//! Afterwards the `user` field holds exactly the returned identity, once, or is absent. An empty `user` field says
//! nothing and counts as absent.

use hermes_config::model::{FieldPattern, Forged, UserPattern};
use hermes_proto::fields::Fields;

use crate::UserAliases;
use crate::fields::{OverlayFields, USER, field_value};

/// The source of an exchange.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A client: trusted only in the fields that its listener accepts.
    Client,
    /// A peer proxy, known by its certificate.
    Peer {
        /// Its name in the configuration.
        name: &'a str,
        /// Users that it may speak for.
        speaks_for: Mandate<'a>,
        /// The bounds of its trust, where it is of another overlay.
        border: Border<'a>,
    },
    /// A peer proxy over a clear link from an address in `insecure_trust`: speaks for every user.
    InsecurePeer,
}

/// The trust in a peer's fields, and whose users it names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Border<'a> {
    /// The trust domain of its users; `None`: they are this overlay's.
    pub domain: Option<&'a str>,
    /// The fields that are taken from it; `None`: all.
    pub accepts: Option<&'a [FieldPattern]>,
}

impl<'a> Source<'a> {
    /// Whether it is a proxy of this overlay: one of another operator's overlay learns no more than a client.
    pub fn is_of_this_overlay(&self) -> bool {
        !matches!(self, Self::Client) && self.other_domain().is_none()
    }

    /// The trust domain of the other operator's overlay that it is a proxy of.
    pub fn other_domain(&self) -> Option<&'a str> {
        match self {
            Self::Peer { border, .. } => border.domain,
            Self::Client | Self::InsecurePeer => None,
        }
    }

    /// The fields about the overlay, the source and traces that are taken from it; `None`: all. `listener` are those that clients may set.
    pub fn accepts(&self, listener: &'a [FieldPattern]) -> Option<&'a [FieldPattern]> {
        match self {
            Self::Client => Some(listener),
            Self::Peer { border, .. } => border.accepts,
            Self::InsecurePeer => None,
        }
    }
}

/// The users that a peer may speak for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mandate<'a> {
    /// The configured users.
    pub named: &'a [UserPattern],
    /// The user in its certificate, if the configuration accepts it.
    pub certified: Option<&'a str>,
}

impl<'a> Mandate<'a> {
    /// A mandate for the users that the configuration names.
    pub fn of(named: &'a [UserPattern]) -> Self {
        Self {
            named,
            certified: None,
        }
    }

    /// Whether the mandate covers this user.
    pub fn covers(&self, user: &str) -> bool {
        self.certified == Some(user) || self.named.iter().any(|pattern| pattern.matches(user))
    }
}

/// An exchange that claims a user it may not claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Status of the answer: 403, or 500 where the configuration is at fault.
    pub status: u16,
    /// Why, in words.
    pub reason: String,
    /// The value of the `user` field.
    pub claimed: String,
}

impl Refusal {
    fn new(reason: String, claimed: &str) -> Self {
        Self {
            status: 403,
            reason,
            claimed: claimed.to_owned(),
        }
    }

    /// The configured user cannot be written in a field.
    pub(crate) fn of_configuration(user: &str) -> Self {
        Self {
            status: 500,
            ..Self::new("the user's name is not a field value".to_owned(), user)
        }
    }
}

/// The content of the `user` field lines.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    Nothing,
    User(String),
    /// Several lines, or text that cannot be a user: the mistake in words, and the text.
    Unusable(&'static str, String),
}

impl Claim {
    fn read(fields: &Fields, aliases: &UserAliases) -> Self {
        let mut lines = fields
            .values(USER)
            .map(|line| String::from_utf8_lossy(line.as_bytes()));
        let Some(first) = lines.next() else {
            return Self::Nothing;
        };

        let user = without_spaces(&first);
        // A peer could otherwise have this node check one line, and the next hop use another.
        if let Some(second) = lines.next() {
            let others = lines
                .map(|line| format!(", {}", without_spaces(&line)))
                .collect::<String>();
            let all = format!("{user}, {}{others}", without_spaces(&second));
            return Self::Unusable("more than one user field", all);
        }

        let is_bad = |c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER;
        match user {
            "" => Self::Nothing,
            user if user.contains(is_bad) => Self::Unusable(
                "the user field holds control characters or is not UTF-8",
                user.to_owned(),
            ),
            user => Self::User(aliases.user_of(user).to_owned()),
        }
    }
}

impl Claim {
    /// A claim about a user of another trust domain, by the name that this overlay has for such a user.
    ///
    /// # Errors
    /// No user is named: rules for everybody would mean such an exchange.
    fn read_of_domain(fields: &Fields, domain: &str, peer: &str) -> Result<Self, Refusal> {
        // Aliases are other names of this overlay's users, whom no one of another domain becomes.
        match Self::read(fields, &UserAliases::default()) {
            Self::Nothing => {
                let reason = format!("peer {peer} names no user of {domain}");
                Err(Refusal::new(reason, ""))
            }
            Self::User(user) => Ok(Self::User(format!("{user}@{domain}"))),
            unusable @ Self::Unusable(..) => Ok(unusable),
        }
    }
}

/// A value without the spaces and tabs around it (RFC 9110, section 5.5).
fn without_spaces(value: &str) -> &str {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let mut value = value;
    while is_space(value.as_bytes().first()) {
        value = &value[1..];
    }
    while is_space(value.as_bytes().last()) {
        value = &value[..value.len() - 1];
    }
    value
}

/// Decides about the user of an exchange and leaves only its trusted overlay fields.
///
/// `authenticated` is the user that the listener's authentication found, if any; `accepts` are the
/// overlay fields that the listener's clients may set. Returns the user, if there is one.
///
/// # Errors
/// With status 403 if a peer claims a user for whom it does not speak, claims several, or
/// contradicts the authenticated user, or if a client does so and `forged` is `refuse`. The
/// fields are unchanged in that case.
pub fn believe(
    source: &Source<'_>,
    authenticated: Option<&str>,
    forged: Forged,
    accepts: &[FieldPattern],
    overlay: &OverlayFields,
    fields: &mut Fields,
) -> Result<Option<String>, Refusal> {
    let policy = Believing {
        authenticated,
        aliases: &UserAliases::default(),
        forged,
        accepts,
        overlay,
    };
    policy.believe(source, fields, |_| {})
}

/// The inputs of the decision about an exchange's user and fields.
pub(crate) struct Believing<'a> {
    pub(crate) authenticated: Option<&'a str>,
    pub(crate) aliases: &'a UserAliases,
    pub(crate) forged: Forged,
    pub(crate) accepts: &'a [FieldPattern],
    pub(crate) overlay: &'a OverlayFields,
}

impl Believing<'_> {
    /// As [`believe`]; calls `removed` with the name of each removed field.
    pub(crate) fn believe(
        &self,
        source: &Source<'_>,
        fields: &mut Fields,
        removed: impl FnMut(&str),
    ) -> Result<Option<String>, Refusal> {
        let Self {
            authenticated,
            aliases,
            forged,
            accepts,
            overlay,
        } = *self;
        let own_claim = |fields: &Fields| Claim::read(fields, aliases);
        let user = match source {
            Source::Client => client_user(own_claim(fields), authenticated, forged, accepts)?,
            Source::Peer {
                name,
                speaks_for,
                border,
            } => {
                let claim = match border.domain {
                    Some(domain) => Claim::read_of_domain(fields, domain, name)?,
                    None => own_claim(fields),
                };
                let speaks = |user: &str| speaks_for.covers(user);
                peer_user(claim, authenticated, || format!("peer {name}"), speaks)?
            }
            Source::InsecurePeer => peer_user(
                own_claim(fields),
                authenticated,
                || "a peer listed in insecure_trust".to_owned(),
                |_| true,
            )?,
        };

        // Before any field is changed: a refusal leaves them as they were.
        let value = match &user {
            Some(user) => Some(
                field_value(user)
                    .filter(|value| !user.is_empty() && value.as_bytes() == user.as_bytes())
                    .ok_or_else(|| {
                        Refusal::new(
                            "the authenticated user's name cannot be written in a field".to_owned(),
                            user,
                        )
                    })?,
            ),
            None => None,
        };

        // The overlay fields of a peer of this overlay were checked where the exchange entered.
        if let Some(accepts) = source.accepts(accepts) {
            overlay.strip_telling(fields, accepts, removed);
        }
        // Also for peers: the field is written anew, so that it says one name, after aliases.
        fields.remove(USER);
        if let Some(value) = value {
            fields.insert(USER, value);
        }

        Ok(user)
    }
}

/// A client's `user` field becomes its identity only if the listener accepts it and did not authenticate it.
fn client_user(
    claim: Claim,
    authenticated: Option<&str>,
    forged: Forged,
    accepts: &[FieldPattern],
) -> Result<Option<String>, Refusal> {
    let accepted = || accepts.iter().any(|pattern| pattern.matches(USER.as_str()));
    let truth = authenticated.map(str::to_owned);
    let (reason, claimed) = match (claim, authenticated) {
        (Claim::Nothing, _) => return Ok(truth),
        // A client that repeats its authenticated name is not a forger.
        (Claim::User(user), Some(authenticated)) if user == authenticated => return Ok(truth),
        // Only where nothing was proved: a field never outweighs credentials.
        (Claim::User(user), None) if accepted() => return Ok(Some(user)),
        (Claim::User(user), Some(authenticated)) => (
            format!("user {authenticated} claims to be user {user}"),
            user,
        ),
        (Claim::User(user), None) => (
            format!("an unauthenticated client claims to be user {user}"),
            user,
        ),
        (Claim::Unusable(reason, claimed), _) => (reason.to_owned(), claimed),
    };

    match forged {
        Forged::Remove => Ok(truth),
        Forged::Refuse => Err(Refusal::new(reason, &claimed)),
    }
}

/// A peer's `user` field is believed if the peer speaks for that user and no token says otherwise.
fn peer_user(
    claim: Claim,
    authenticated: Option<&str>,
    who: impl Fn() -> String,
    speaks_for: impl Fn(&str) -> bool,
) -> Result<Option<String>, Refusal> {
    let user = match claim {
        Claim::Nothing => return Ok(authenticated.map(str::to_owned)),
        Claim::Unusable(reason, claimed) => {
            return Err(Refusal::new(format!("{}: {reason}", who()), &claimed));
        }
        Claim::User(user) => user,
    };

    if !speaks_for(&user) {
        return Err(Refusal::new(
            format!("{} does not speak for user {user}", who()),
            &user,
        ));
    }

    // A peer that speaks for many users may forward a token of one of them: both have to agree.
    match authenticated {
        Some(authenticated) if authenticated != user => {
            let reason = format!(
                "{} claims user {user}, but authenticated as user {authenticated}",
                who()
            );
            Err(Refusal::new(reason, &user))
        }
        _ => Ok(Some(user)),
    }
}
