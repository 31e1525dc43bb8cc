//! The handshake of SOCKS6: one message of the client, and a reply that says whether it is known (draft-olteanu-intarea-socks-6-11).
//!
//! Bytes of the client behind its request are for its target: initial data, and what it sends before it has a reply.

use hermes_net::StreamInfo;
use hermes_plug::{Gate, ShownPassword};
use hermes_proto::socks::{SocksCommand, SocksReply, SocksRequest, SocksVersion};
use hermes_proto::socks6::{
    self, MAX_MESSAGE, Socks6AuthReply, Socks6Command, Socks6Credentials, Socks6ReplyOption,
    Socks6Request, Socks6RequestOptions, Socks6SessionId,
};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::handshake::{Handshake, HandshakeError, Shaken, StackOptions};
use crate::held::unknown;
use crate::sessions::{ID_BYTES, Party, Sessions6};

/// The method that says that none is acceptable (RFC 1928, 3).
const UNACCEPTABLE: u8 = 0xff;

/// A client that may go on, and the options of the reply that says so.
struct Known {
    gate: Gate,
    options: Vec<Socks6ReplyOption>,
    /// The session that its request belongs to.
    session: Option<Socks6SessionId>,
}

/// Finds out who the client is and its wish.
pub(crate) async fn shake(
    handshake: &mut Handshake<'_>,
    sessions: &Sessions6,
    gate: Gate,
    until: Instant,
) -> Result<Shaken, HandshakeError> {
    let request = handshake.read(until, MAX_MESSAGE, socks6::decode_request);
    let Socks6Request { command, options } = request.await?;

    let source = handshake.stream.info().clone();
    let mut known = match identify(&source, sessions, gate, &options).await? {
        Ok(known) => known,
        Err(refused) => return Err(refuse(refused)),
    };
    if let Some(id) = &known.session
        && let Err(rejected) = spend(sessions, id, &options, &mut known.options)
    {
        return Err(refuse(vec![rejected]));
    }
    let reply = Socks6AuthReply {
        is_success: true,
        options: known.options,
    };
    let reply = socks6::encode_auth_reply(&reply);
    handshake.stream.write_all(&reply).await?;

    let answered = |reply: SocksReply| {
        let reply = reply.encode(SocksVersion::V6, unknown());
        Err(HandshakeError::Answered(reply))
    };
    let command = match command {
        Socks6Command::Connect(target) => SocksCommand::Connect(target),
        Socks6Command::Bind(target) => SocksCommand::Bind(target),
        Socks6Command::Associate => SocksCommand::Associate,
        Socks6Command::Noop => return answered(SocksReply::Succeeded),
        Socks6Command::Other(_) => return answered(SocksReply::CommandNotSupported),
    };
    Ok(Shaken {
        gate: known.gate,
        request: SocksRequest {
            version: SocksVersion::V6,
            command,
        },
        stack: StackOptions {
            udp_errors: options.udp_errors,
            fast_open: options.fast_open,
            multipath: options.multipath,
        },
    })
}

/// A reply that ends the connection.
fn refuse(options: Vec<Socks6ReplyOption>) -> HandshakeError {
    HandshakeError::Answered(socks6::encode_auth_reply(&Socks6AuthReply {
        is_success: false,
        options,
    }))
}

/// Who the client is; the inner error is the reply's.
async fn identify(
    source: &StreamInfo,
    sessions: &Sessions6,
    gate: Gate,
    options: &Socks6RequestOptions,
) -> Result<Result<Known, Vec<Socks6ReplyOption>>, HandshakeError> {
    let now = Instant::now();
    if let Some(id) = options.session.as_ref().filter(|_| !options.ends_session) {
        // 8.4.2: other proofs in such a request are passed over.
        let invalid = vec![Socks6ReplyOption::SessionInvalid];
        let Some(credentials) = sessions.visit(id, now) else {
            return Ok(Err(invalid));
        };
        // Its user may be gone by now, or have another password.
        let Some(gate) = prove(source, gate, credentials.as_ref()).await else {
            sessions.end(id);
            return Ok(Err(invalid));
        };
        return Ok(Ok(Known {
            gate,
            options: vec![Socks6ReplyOption::SessionOk],
            session: Some(id.clone()),
        }));
    }

    let shown = options.credentials.as_ref();
    let asked = gate.requires_password();
    let counts = shown.filter(|_| asked.is_some());
    if asked == Some(true) && counts.is_none() {
        return Ok(Err(vec![Socks6ReplyOption::Method(UNACCEPTABLE)]));
    }
    let Some(gate) = prove(source, gate, counts).await else {
        return Ok(Err(vec![Socks6ReplyOption::PasswordStatus(false)]));
    };
    let mut known = Known {
        gate,
        options: Vec::new(),
        session: None,
    };
    if counts.is_some() {
        known.options.push(Socks6ReplyOption::PasswordStatus(true));
    }

    if let Some(id) = &options.session {
        // 8.4.3: the request that ends a session is none of its own.
        sessions.end(id);
    } else if options.wants_session {
        let party = Party::of(counts, source.peer.ip());
        let begun = sessions.begin(party, counts.cloned(), random()?, now);
        if let Some(id) = begun {
            known.options.push(Socks6ReplyOption::SessionId(id.clone()));
            known.session = Some(id);
        }
    }
    Ok(Ok(known))
}

/// The gate of one who shows this password, or nothing where none is asked for.
async fn prove(
    source: &StreamInfo,
    gate: Gate,
    credentials: Option<&Socks6Credentials>,
) -> Option<Gate> {
    let Some(credentials) = credentials else {
        return (gate.requires_password() != Some(true)).then_some(gate);
    };
    let shown = ShownPassword {
        user: &credentials.user,
        password: &credentials.password,
        source,
    };
    gate.of_password(shown).await
}

/// Sees to the tokens of a session (8.5); the error is that of a token that cannot be spent.
fn spend(
    sessions: &Sessions6,
    id: &Socks6SessionId,
    options: &Socks6RequestOptions,
    reply: &mut Vec<Socks6ReplyOption>,
) -> Result<(), Socks6ReplyOption> {
    if let Some(size) = options.window {
        sessions.grant(id, size, 0);
    }
    if let Some(token) = options.token {
        if !sessions.spend(id, token) {
            return Err(Socks6ReplyOption::TokenRejected);
        }
        reply.push(Socks6ReplyOption::TokenAccepted);
    }
    reply.extend(sessions.window(id).map(Socks6ReplyOption::Window));
    Ok(())
}

/// Bytes that no one guesses.
fn random() -> Result<[u8; ID_BYTES], HandshakeError> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}
