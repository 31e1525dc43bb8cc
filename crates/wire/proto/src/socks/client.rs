//! The side of a client of SOCKS5: its messages, and the replies of a proxy.

use std::net::{IpAddr, SocketAddr};

use super::{
    DATAGRAM_START, Decoded, NAME, PASSWORD_VERSION, SocksCommand, SocksError, SocksMethod,
    SocksPassword, SocksReply, SocksTarget, V5, WrittenHost, decode_address, encode_address,
};

/// A text is longer than its length can say, or has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name, user or password of {0} bytes; SOCKS knows 1 to 255")]
pub struct UnfitText(pub usize);

/// A proxy's reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyReply {
    /// How it ended.
    pub reply: SocksReply,
    /// The address of the proxy that it is about; `None` where it wrote a name.
    pub bound: Option<SocketAddr>,
}

/// The ways to authenticate that a client offers (RFC 1928, 3): to show nothing, or to show a password where it has one.
#[must_use]
pub fn encode_methods(has_password: bool) -> Vec<u8> {
    let method = match has_password {
        true => SocksMethod::Password,
        false => SocksMethod::None,
    };
    // Not both: a proxy may choose to hear no password, and serve a stranger in place of the user.
    vec![V5, 1, method as u8]
}

/// Decodes the way that the proxy has chosen.
///
/// # Errors
/// It is none that a client could have offered, or the message is of another version.
pub fn decode_method(bytes: &[u8]) -> Decoded<SocksMethod> {
    of_version(bytes, V5)?;
    let Some([_, method]) = bytes.first_chunk() else {
        return Ok(None);
    };
    let method = match *method {
        0 => SocksMethod::None,
        2 => SocksMethod::Password,
        0xff => SocksMethod::Unacceptable,
        other => return Err(SocksError::UnknownMethod(other)),
    };
    Ok(Some((method, 2)))
}

/// The message that shows a password (RFC 1929, 2).
///
/// # Errors
/// The user or the password is too long, or empty.
pub fn encode_password(shown: SocksPassword<'_>) -> Result<Vec<u8>, UnfitText> {
    let mut message = vec![PASSWORD_VERSION];
    push_text(shown.user, &mut message)?;
    push_text(shown.password, &mut message)?;
    Ok(message)
}

/// Decodes the answer to a password: whether it was right.
///
/// # Errors
/// It is of another version.
pub fn decode_password_status(bytes: &[u8]) -> Decoded<bool> {
    of_version(bytes, PASSWORD_VERSION)?;
    Ok(bytes.first_chunk().map(|[_, status]| (*status == 0, 2)))
}

/// A request (RFC 1928, 4).
///
/// # Errors
/// The name of the target is too long.
pub fn encode_request(command: &SocksCommand) -> Result<Vec<u8>, UnfitText> {
    let (code, target) = match command {
        SocksCommand::Connect(target) => (1, Some(target)),
        SocksCommand::Bind(target) => (2, Some(target)),
        SocksCommand::Associate => (3, None),
    };
    let mut request = vec![V5, code, 0];
    match target {
        Some(target) => push_target(target, &mut request)?,
        // RFC 1928, 4: all zeros where the client does not know it.
        None => encode_address(SocketAddr::from(([0; 4], 0)), &mut request),
    }
    Ok(request)
}

/// Decodes the reply to a request (RFC 1928, 6).
///
/// # Errors
/// It is of another version, or its address of a type that is not known.
pub fn decode_reply(bytes: &[u8]) -> Decoded<ProxyReply> {
    of_version(bytes, V5)?;
    let Some((start, rest)) = bytes.split_first_chunk::<3>() else {
        return Ok(None);
    };
    let Some((address, length)) = decode_address(rest)? else {
        return Ok(None);
    };
    let bound = match address.host {
        WrittenHost::Address(ip) => Some(SocketAddr::new(ip, address.port)),
        WrittenHost::Name(_) => None,
    };
    let reply = SocksReply::of_code(start[1]);
    Ok(Some((ProxyReply { reply, bound }, start.len() + length)))
}

/// The header of a datagram to a target (RFC 1928, 7).
///
/// # Errors
/// The name of the target is too long.
pub fn encode_datagram_header(target: &SocksTarget) -> Result<Vec<u8>, UnfitText> {
    let mut header = vec![0; DATAGRAM_START];
    push_target(target, &mut header)?;
    Ok(header)
}

fn of_version(bytes: &[u8], version: u8) -> Result<(), SocksError> {
    match bytes.first() {
        Some(other) if *other != version => Err(SocksError::UnknownVersion(*other)),
        _ => Ok(()),
    }
}

fn push_target(target: &SocksTarget, into: &mut Vec<u8>) -> Result<(), UnfitText> {
    let SocksTarget { host, port } = target;
    if let Ok(ip) = host.parse::<IpAddr>() {
        encode_address(SocketAddr::new(ip, *port), into);
        return Ok(());
    }
    into.push(NAME);
    push_text(host.as_bytes(), into)?;
    into.extend(port.to_be_bytes());
    Ok(())
}

fn push_text(text: &[u8], into: &mut Vec<u8>) -> Result<(), UnfitText> {
    match u8::try_from(text.len()) {
        Ok(length) if length > 0 => into.push(length),
        _ => return Err(UnfitText(text.len())),
    }
    into.extend(text);
    Ok(())
}

/// Decodes arbitrary bytes as each message of a proxy: an accepted one needs all of its bytes, and no other.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    fn check<T: PartialEq + std::fmt::Debug>(data: &[u8], decode: impl Fn(&[u8]) -> Decoded<T>) {
        if let Ok(Some((message, length))) = decode(data) {
            assert_eq!(decode(&data[..length]), Ok(Some((message, length))));
            assert_eq!(decode(&data[..length - 1]), Ok(None));
        }
        if data.len() >= super::MAX_MESSAGE {
            assert_ne!(decode(data), Ok(None));
        }
    }
    check(data, decode_method);
    check(data, decode_password_status);
    check(data, decode_reply);
}

#[cfg(test)]
mod tests {
    use super::super::{decode_datagram, decode_hello, decode_password, decode_request};
    use super::*;

    fn target(host: &str, port: u16) -> SocksTarget {
        SocksTarget {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn a_proxy_reads_what_a_client_writes() {
        assert_eq!(encode_methods(false), [5, 1, 0]);
        assert_eq!(encode_methods(true), [5, 1, 2]);
        assert!(decode_hello(&encode_methods(true)).unwrap().is_some());

        let shown = SocksPassword {
            user: b"alice",
            password: b"\xff:",
        };
        let written = encode_password(shown).unwrap();
        assert_eq!(written, b"\x01\x05alice\x02\xff:");
        assert_eq!(decode_password(&written), Ok(Some((shown, written.len()))));

        for command in [
            SocksCommand::Connect(target("192.0.2.1", 80)),
            SocksCommand::Connect(target("2001:db8::1", 443)),
            SocksCommand::Bind(target("example.org", 443)),
            SocksCommand::Associate,
        ] {
            let written = encode_request(&command).unwrap();
            let (read, length) = decode_request(&written).unwrap().unwrap();
            assert_eq!((read.command, length), (command, written.len()));
        }
        for to in [target("192.0.2.1", 53), target("example.org", 53)] {
            let header = encode_datagram_header(&to).unwrap();
            assert_eq!(decode_datagram(&header), Ok((to, header.len())));
        }
    }

    #[test]
    fn texts_that_do_not_fit_are_not_written() {
        let long = "a".repeat(256);
        let connect = SocksCommand::Connect(target(&long, 1));
        assert_eq!(encode_request(&connect), Err(UnfitText(256)));
        let no_user = SocksPassword {
            user: b"",
            password: b"x",
        };
        assert_eq!(encode_password(no_user), Err(UnfitText(0)));
    }

    #[test]
    fn replies_of_proxies_are_understood() {
        assert_eq!(decode_method(&[5, 2]), Ok(Some((SocksMethod::Password, 2))));
        assert_eq!(decode_method(&[5]), Ok(None));
        assert_eq!(decode_method(&[5, 1]), Err(SocksError::UnknownMethod(1)));
        // An HTTP proxy answers so.
        assert_eq!(decode_method(b"HT"), Err(SocksError::UnknownVersion(b'H')));
        assert_eq!(decode_password_status(&[1, 0]), Ok(Some((true, 2))));
        assert_eq!(decode_password_status(&[1, 9]), Ok(Some((false, 2))));

        let bound: SocketAddr = "[2001:db8::1]:1080".parse().unwrap();
        for (reply, bound) in [
            (SocksReply::Succeeded, "192.0.2.1:1080".parse().unwrap()),
            (SocksReply::ConnectionRefused, bound),
        ] {
            let written = reply.encode(super::super::SocksVersion::V5, bound);
            let read = ProxyReply {
                reply,
                bound: Some(bound),
            };
            assert_eq!(decode_reply(&written), Ok(Some((read, written.len()))));
        }
        let named = b"\x05\x63\0\x03\x04here\x04\x38";
        let read = ProxyReply {
            reply: SocksReply::GeneralFailure,
            bound: None,
        };
        assert_eq!(decode_reply(named), Ok(Some((read, named.len()))));
    }
}
