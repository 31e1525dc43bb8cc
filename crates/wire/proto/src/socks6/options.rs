//! The options of SOCKS6 (section 8 of the draft).

use super::{MAX_INITIAL_DATA, Socks6Error, pad, two};
use crate::socks::{decode_password, password_status};

const STACK: u16 = 1;
const METHODS: u16 = 2;
const METHOD: u16 = 3;
const AUTH_DATA: u16 = 4;
const SESSION_REQUEST: u16 = 5;
const SESSION_ID: u16 = 6;
const SESSION_OK: u16 = 8;
const SESSION_INVALID: u16 = 9;
const SESSION_TEARDOWN: u16 = 10;
const TOKEN_REQUEST: u16 = 11;
const TOKEN_WINDOW: u16 = 12;
const TOKEN_EXPENDITURE: u16 = 13;
const TOKEN_ACCEPTED: u16 = 14;
const TOKEN_REJECTED: u16 = 15;

/// Bytes of an option's kind and length.
const HEAD: usize = 4;

/// The method of users and passwords.
const PASSWORD: u8 = 2;

/// Leg, level and code of TCP Fast Open, from the proxy to the target (8.1.5).
const FAST_OPEN: [u8; 2] = [2 << 6 | 4, 1];

/// Leg, level and code of Multipath TCP, from the proxy to the target (8.1.6).
const MULTIPATH: [u8; 2] = [2 << 6 | 4, 2];

/// Leg, level and code of errors about datagrams, from the targets to the proxy (8.1.8).
const UDP_ERRORS: [u8; 2] = [2 << 6 | 5, 1];

/// Errors about datagrams are not passed on, or they are; of Multipath TCP likewise.
const UNAVAILABLE: u8 = 1;
const AVAILABLE: u8 = 2;

/// Bytes of the ID of a session.
#[doc(alias = "bound")]
const MAX_SESSION_ID: usize = 64;

/// The ID of a session, opaque to clients.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Socks6SessionId(Vec<u8>);

impl Socks6SessionId {
    /// Of these bytes.
    ///
    /// # Errors
    /// There are none or too many, or their number is no multiple of 4.
    pub fn new(bytes: &[u8]) -> Result<Self, Socks6Error> {
        let fits =
            !bytes.is_empty() && bytes.len() <= MAX_SESSION_ID && bytes.len().is_multiple_of(4);
        match fits {
            true => Ok(Self(bytes.to_vec())),
            false => Err(Socks6Error::BadOption(SESSION_ID)),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Socks6SessionId {
    /// Without its bytes, which are as good as a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socks6SessionId").finish_non_exhaustive()
    }
}

/// A user and a password (section 9), whose bytes need not be text.
#[derive(Clone, PartialEq, Eq)]
pub struct Socks6Credentials {
    /// The user, 1 to 255 bytes.
    pub user: Vec<u8>,
    /// The password, 1 to 255 bytes.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Socks6Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socks6Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Idempotence tokens that a proxy takes (8.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socks6Window {
    /// The first one.
    pub base: u32,
    /// How many.
    pub size: u32,
}

/// The options of a request that are known here. The others are passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Socks6RequestOptions {
    /// Methods of authentication are offered, and so many bytes follow for the target before one of them begins.
    pub initial_data: Option<u16>,
    /// A user and a password.
    pub credentials: Option<Socks6Credentials>,
    /// A session is asked for.
    pub wants_session: bool,
    /// The session that the request belongs to.
    pub session: Option<Socks6SessionId>,
    /// The session is to end.
    pub ends_session: bool,
    /// A window of so many tokens is asked for.
    pub window: Option<u32>,
    /// The token that the request spends.
    pub token: Option<u32>,
    /// TCP Fast Open towards the target is asked for, with at most so many bytes; 0 says any number.
    pub fast_open: Option<u16>,
    /// Whether the client wants the connection to the target to use several paths, where it says so.
    pub multipath: Option<bool>,
    /// Whether the client wants to hear of errors about its datagrams, where it says so.
    pub udp_errors: Option<bool>,
}

/// An option of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socks6ReplyOption {
    /// The method of authentication that must follow (8.2); 255 is none.
    Method(u8),
    /// Whether the password was right (section 9).
    PasswordStatus(bool),
    /// The ID of the session that begins.
    SessionId(Socks6SessionId),
    /// The request belongs to the session that it names.
    SessionOk,
    /// There is no such session.
    SessionInvalid,
    /// The tokens of the session.
    Window(Socks6Window),
    /// The token is spent for this request.
    TokenAccepted,
    /// The token was spent before, or is none of the window.
    TokenRejected,
    /// Whether the client is told of errors about its datagrams (8.1.8).
    UdpErrors(bool),
    /// Whether the connection to the target uses several paths (8.1.6).
    Multipath(bool),
}

/// One option as it is written: its kind, and the bytes behind its length.
type WrittenOption<'a> = (u16, &'a [u8]);

fn split(mut bytes: &[u8]) -> Result<Vec<WrittenOption<'_>>, Socks6Error> {
    let mut found = Vec::new();
    while let Some((&[a, b, c, d], rest)) = bytes.split_first_chunk::<HEAD>() {
        let kind = u16::from_be_bytes([a, b]);
        let length = usize::from(u16::from_be_bytes([c, d]));
        // The length is that of all of it, which no option can be shorter than, and a multiple of 4.
        let data = length
            .checked_sub(HEAD)
            .filter(|_| length.is_multiple_of(4));
        let data = data.and_then(|data| rest.get(..data));
        let data = data.ok_or(Socks6Error::BadOption(kind))?;
        found.push((kind, data));
        bytes = &rest[data.len()..];
    }
    match bytes {
        [] => Ok(found),
        [_, ..] => Err(Socks6Error::BadOption(0)),
    }
}

/// Sets an option that may be there once.
fn once<T: PartialEq>(kind: u16, place: &mut Option<T>, value: T) -> Result<(), Socks6Error> {
    if place.as_ref().is_some_and(|known| *known != value) {
        return Err(Socks6Error::Repeated(kind));
    }
    *place = Some(value);
    Ok(())
}

fn number(kind: u16, data: &[u8]) -> Result<u32, Socks6Error> {
    let number = <[u8; 4]>::try_from(data).map_err(|_| Socks6Error::BadOption(kind))?;
    Ok(u32::from_be_bytes(number))
}

fn nothing(kind: u16, data: &[u8]) -> Result<bool, Socks6Error> {
    match data {
        [] => Ok(true),
        _ => Err(Socks6Error::BadOption(kind)),
    }
}

pub(super) fn decode_request_options(bytes: &[u8]) -> Result<Socks6RequestOptions, Socks6Error> {
    let mut known = Socks6RequestOptions::default();
    for (kind, data) in split(bytes)? {
        match kind {
            METHODS => once(kind, &mut known.initial_data, initial_data(data)?)?,
            AUTH_DATA => {
                if let Some(credentials) = credentials(data)? {
                    once(kind, &mut known.credentials, credentials)?;
                }
            }
            SESSION_REQUEST => known.wants_session = nothing(kind, data)?,
            SESSION_ID => once(kind, &mut known.session, Socks6SessionId::new(data)?)?,
            SESSION_TEARDOWN => known.ends_session = nothing(kind, data)?,
            TOKEN_REQUEST => once(kind, &mut known.window, number(kind, data)?)?,
            TOKEN_EXPENDITURE => once(kind, &mut known.token, number(kind, data)?)?,
            STACK => {
                if let Some(bytes) = fast_open(data) {
                    once(kind, &mut known.fast_open, bytes)?;
                }
                if let Some(wanted) = availability(MULTIPATH, data) {
                    once(kind, &mut known.multipath, wanted)?;
                }
                if let Some(wanted) = availability(UDP_ERRORS, data) {
                    once(kind, &mut known.udp_errors, wanted)?;
                }
            }
            // Section 8: MUST be ignored.
            _ => {}
        }
    }
    Ok(known)
}

fn initial_data(data: &[u8]) -> Result<u16, Socks6Error> {
    let length = data.first_chunk().map(|length| u16::from_be_bytes(*length));
    let length = length.filter(|length| *length <= MAX_INITIAL_DATA);
    length.ok_or(Socks6Error::BadOption(METHODS))
}

/// The user and password of an Authentication Data option; `None` of another method.
fn credentials(data: &[u8]) -> Result<Option<Socks6Credentials>, Socks6Error> {
    let wrong = Socks6Error::BadOption(AUTH_DATA);
    match data.split_first() {
        Some((&PASSWORD, message)) => {
            let (shown, length) = decode_password(message).ok().flatten().ok_or(wrong)?;
            // Behind it are zeros alone, to a multiple of 4.
            if message.len() - length > 3 || message[length..].iter().any(|byte| *byte != 0) {
                return Err(wrong);
            }
            Ok(Some(Socks6Credentials {
                user: shown.user.to_vec(),
                password: shown.password.to_vec(),
            }))
        }
        Some(_) => Ok(None),
        None => Err(wrong),
    }
}

fn fast_open(data: &[u8]) -> Option<u16> {
    let (start, size) = data.split_first_chunk::<2>()?;
    let size = <[u8; 2]>::try_from(size).ok()?;
    (*start == FAST_OPEN).then(|| u16::from_be_bytes(size))
}

/// Whether the option of the stack with this leg, level and code is wanted, or available.
fn availability(option: [u8; 2], data: &[u8]) -> Option<bool> {
    let [leg_level, code, availability, _] = *data else {
        return None;
    };
    match availability {
        _ if [leg_level, code] != option => None,
        UNAVAILABLE => Some(false),
        AVAILABLE => Some(true),
        _ => None,
    }
}

fn push_availability(option: [u8; 2], is_available: bool, into: &mut Vec<u8>) {
    let availability = match is_available {
        true => AVAILABLE,
        false => UNAVAILABLE,
    };
    let [leg_level, code] = option;
    push(STACK, &[leg_level, code, availability, 0], into);
}

impl Socks6RequestOptions {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(length) = self.initial_data {
            let [high, low] = length.to_be_bytes();
            push(METHODS, &[high, low, PASSWORD, 0], &mut options);
        }
        if let Some(Socks6Credentials { user, password }) = &self.credentials {
            let mut data = vec![PASSWORD, 1];
            for text in [user, password] {
                let text = &text[..text.len().min(255)];
                data.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
                data.extend(text);
            }
            push(AUTH_DATA, &data, &mut options);
        }
        if self.wants_session {
            push(SESSION_REQUEST, &[], &mut options);
        }
        if let Some(Socks6SessionId(id)) = &self.session {
            push(SESSION_ID, id, &mut options);
        }
        if self.ends_session {
            push(SESSION_TEARDOWN, &[], &mut options);
        }
        if let Some(size) = self.window {
            push(TOKEN_REQUEST, &size.to_be_bytes(), &mut options);
        }
        if let Some(token) = self.token {
            push(TOKEN_EXPENDITURE, &token.to_be_bytes(), &mut options);
        }
        if let Some(bytes) = self.fast_open {
            let data = [FAST_OPEN, bytes.to_be_bytes()].concat();
            push(STACK, &data, &mut options);
        }
        if let Some(wanted) = self.multipath {
            push_availability(MULTIPATH, wanted, &mut options);
        }
        if let Some(wanted) = self.udp_errors {
            push_availability(UDP_ERRORS, wanted, &mut options);
        }
        options
    }
}

pub(super) fn decode_reply_options(bytes: &[u8]) -> Result<Vec<Socks6ReplyOption>, Socks6Error> {
    let mut known = Vec::new();
    for (kind, data) in split(bytes)? {
        let wrong = Socks6Error::BadOption(kind);
        known.push(match (kind, data) {
            (METHOD, [method, 0, 0, 0]) => Socks6ReplyOption::Method(*method),
            (AUTH_DATA, [PASSWORD, 1, status, 0]) => {
                Socks6ReplyOption::PasswordStatus(*status == 0)
            }
            (SESSION_ID, id) => Socks6ReplyOption::SessionId(Socks6SessionId::new(id)?),
            (SESSION_OK, []) => Socks6ReplyOption::SessionOk,
            (SESSION_INVALID, []) => Socks6ReplyOption::SessionInvalid,
            (TOKEN_WINDOW, data) => {
                let (base, size) = data.split_first_chunk::<4>().ok_or(wrong)?;
                let size = number(kind, size)?;
                // 8.5.1: MUST NOT be 0, and less than 2^31.
                if size == 0 || size >= 1 << 31 {
                    return Err(wrong);
                }
                let base = u32::from_be_bytes(*base);
                Socks6ReplyOption::Window(Socks6Window { base, size })
            }
            (TOKEN_ACCEPTED, []) => Socks6ReplyOption::TokenAccepted,
            (TOKEN_REJECTED, []) => Socks6ReplyOption::TokenRejected,
            (STACK, data) => {
                if let Some(is_available) = availability(UDP_ERRORS, data) {
                    Socks6ReplyOption::UdpErrors(is_available)
                } else if let Some(is_used) = availability(MULTIPATH, data) {
                    Socks6ReplyOption::Multipath(is_used)
                } else {
                    continue;
                }
            }
            (METHOD | SESSION_OK | SESSION_INVALID | TOKEN_ACCEPTED | TOKEN_REJECTED, _) => {
                return Err(wrong);
            }
            // Section 8: MUST be ignored.
            _ => continue,
        });
    }
    Ok(known)
}

pub(super) fn encode_options(options: &[Socks6ReplyOption]) -> Vec<u8> {
    let mut written = Vec::new();
    for option in options {
        match option {
            Socks6ReplyOption::Method(method) => push(METHOD, &[*method, 0, 0, 0], &mut written),
            Socks6ReplyOption::PasswordStatus(is_right) => {
                let [version, status] = password_status(*is_right);
                push(AUTH_DATA, &[PASSWORD, version, status, 0], &mut written);
            }
            Socks6ReplyOption::SessionId(Socks6SessionId(id)) => {
                push(SESSION_ID, id, &mut written);
            }
            Socks6ReplyOption::SessionOk => push(SESSION_OK, &[], &mut written),
            Socks6ReplyOption::SessionInvalid => push(SESSION_INVALID, &[], &mut written),
            Socks6ReplyOption::Window(Socks6Window { base, size }) => {
                let data = [base.to_be_bytes(), size.to_be_bytes()].concat();
                push(TOKEN_WINDOW, &data, &mut written);
            }
            Socks6ReplyOption::TokenAccepted => push(TOKEN_ACCEPTED, &[], &mut written),
            Socks6ReplyOption::TokenRejected => push(TOKEN_REJECTED, &[], &mut written),
            Socks6ReplyOption::UdpErrors(is_available) => {
                push_availability(UDP_ERRORS, *is_available, &mut written);
            }
            Socks6ReplyOption::Multipath(is_used) => {
                push_availability(MULTIPATH, *is_used, &mut written);
            }
        }
    }
    written
}

fn push(kind: u16, data: &[u8], into: &mut Vec<u8>) {
    into.extend(kind.to_be_bytes());
    into.extend(two((HEAD + data.len()).next_multiple_of(4)));
    into.extend(data);
    pad(into);
}
