//! Vectors by hand, from the pictures of draft-olteanu-intarea-socks-6-11.

use super::*;

fn connect(host: &str, port: u16) -> Socks6Command {
    Socks6Command::Connect(SocksTarget {
        host: host.to_owned(),
        port,
    })
}

/// Every prefix of it lacks something.
fn all_needed<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Decoded6<T>,
) -> T {
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Ok(None), "{length} bytes");
    }
    let (message, length) = decode(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    message
}

/// It is read as this, and written so.
fn is_request(bytes: &[u8], request: &Socks6Request) {
    assert_eq!(all_needed(bytes, decode_request), *request);
    assert_eq!(encode_request(request), bytes);
}

fn plain(command: Socks6Command) -> Socks6Request {
    Socks6Request {
        command,
        options: Socks6RequestOptions::default(),
    }
}

#[test]
fn a_request_has_a_command_and_an_address() {
    is_request(
        b"\x06\x01\0\0\0\x50\0\x01\xc0\0\x02\x01",
        &plain(connect("192.0.2.1", 80)),
    );
    is_request(
        b"\x06\x01\0\0\x01\xbb\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
        &plain(connect("2001:db8::1", 443)),
    );
    // The name and its length are padded to a multiple of 4.
    is_request(
        b"\x06\x01\0\0\x01\xbb\0\x03\x0bexample.org",
        &plain(connect("example.org", 443)),
    );
    is_request(
        b"\x06\x01\0\0\x01\xbb\0\x03\x04name\0\0\0",
        &plain(connect("name", 443)),
    );
    is_request(b"\x06\0\0\0\0\0\0\x01\0\0\0\0", &plain(Socks6Command::Noop));
    is_request(
        b"\x06\x03\0\0\0\0\0\x01\0\0\0\0",
        &plain(Socks6Command::Associate),
    );
    is_request(
        b"\x06\x02\0\0\0\x15\0\x01\xc0\0\x02\x01",
        &plain(Socks6Command::Bind(SocksTarget {
            host: "192.0.2.1".to_owned(),
            port: 21,
        })),
    );
    for code in [4, 77] {
        let bytes = [6, code, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        is_request(&bytes, &plain(Socks6Command::Other(code)));
    }
}

#[test]
fn a_request_says_everything_at_once() {
    let mut bytes = b"\x06\x01\0\x50\0\x50\0\x01\xc0\0\x02\x01".to_vec();
    // Methods: 5 bytes of initial data, and passwords.
    bytes.extend(b"\0\x02\0\x08\0\x05\x02\0");
    // A user and a password, with a zero behind them.
    bytes.extend(b"\0\x04\0\x10\x02\x01\x05alice\x02pw\0");
    bytes.extend(b"\0\x05\0\x04");
    bytes.extend(b"\0\x06\0\x0csession.");
    bytes.extend(b"\0\x0a\0\x04");
    bytes.extend(b"\0\x0b\0\x08\0\0\0\x40");
    bytes.extend(b"\0\x0d\0\x08\0\0\0\x07");
    // TCP Fast Open towards the target, of up to 1200 bytes.
    bytes.extend(b"\0\x01\0\x08\x84\x01\x04\xb0");
    // Several paths to the target are wanted.
    bytes.extend(b"\0\x01\0\x08\x84\x02\x02\0");
    // Errors about datagrams are wanted.
    bytes.extend(b"\0\x01\0\x08\x85\x01\x02\0");
    bytes[3] = u8::try_from(bytes.len() - 12).unwrap();
    let request = Socks6Request {
        command: connect("192.0.2.1", 80),
        options: Socks6RequestOptions {
            initial_data: Some(5),
            credentials: Some(Socks6Credentials {
                user: b"alice".to_vec(),
                password: b"pw".to_vec(),
            }),
            wants_session: true,
            session: Some(Socks6SessionId::new(b"session.").unwrap()),
            ends_session: true,
            window: Some(64),
            token: Some(7),
            fast_open: Some(1200),
            multipath: Some(true),
            udp_errors: Some(true),
        },
    };
    is_request(&bytes, &request);
    let shown = format!("{request:?}");
    assert!(
        !shown.contains("112, 119") && !shown.contains("115, 101"),
        "{shown}"
    );
}

#[test]
fn options_that_are_not_known_are_passed_over() {
    for option in [
        // An experimental one, one of the stack, a method that is not served, one of a reply.
        &b"\xfd\xe8\0\x08\0\x01\0\x02"[..],
        b"\0\x01\0\x08\x41\x01\x10\0",
        b"\0\x04\0\x08\x01abc",
        b"\0\x08\0\x04",
    ] {
        let length = u8::try_from(option.len()).unwrap();
        let head = [6, 1, 0, length, 0, 80, 0, 1, 192, 0, 2, 1];
        let bytes = [&head[..], option].concat();
        let request = all_needed(&bytes, decode_request);
        assert_eq!(request, plain(connect("192.0.2.1", 80)), "{option:?}");
    }
}

#[test]
fn options_that_are_broken_are_refused() {
    for option in [
        // Lengths: of less than the head, no multiple of 4, beyond the end.
        &b"\0\x05\0\0"[..],
        b"\0\x05\0\x03",
        b"\0\x05\0\x06\0\0\0\0",
        b"\0\x05\0\x08",
        b"\0\x05",
        // Contents: too much initial data, a password that is cut off, IDs of no bytes and too many, a number of two bytes, a wish with content.
        b"\0\x02\0\x08\x40\x01\x02\0",
        b"\0\x04\0\x0c\x02\x01\x05alic",
        b"\0\x04\0\x0c\x02\x01\x01a\x01bcd",
        b"\0\x06\0\x04",
        b"\0\x0b\0\x04",
        b"\0\x05\0\x08\0\0\0\0",
        // The same twice, and differently.
        b"\0\x0d\0\x08\0\0\0\x01\0\x0d\0\x08\0\0\0\x02",
    ] {
        let length = u8::try_from(option.len()).unwrap();
        let head = [6, 0, 0, length, 0, 0, 0, 1, 0, 0, 0, 0];
        let bytes = [&head[..], option].concat();
        let error = decode_request(&bytes).unwrap_err();
        assert_eq!(
            error.reply(),
            SocksReply::GeneralFailure,
            "{option:?}: {error}"
        );
    }
    let long = [
        &[6, 0, 0, 72, 0, 0, 0, 1, 0, 0, 0, 0, 0, 6, 0, 72][..],
        &[1; 68],
    ]
    .concat();
    assert!(decode_request(&long).is_err());
    let most = [6, 0, 0x40, 1, 0, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(decode_request(&most), Err(Socks6Error::TooLong(16385)));
}

#[test]
fn requests_that_cannot_be_served_say_why() {
    for (bytes, reply) in [
        (
            &b"\x06\x01\0\0\0\x50\0\x02\0\0\0\0"[..],
            SocksReply::AddressTypeNotSupported,
        ),
        (
            b"\x06\x01\0\0\0\x50\0\x03\x03a b",
            SocksReply::HostUnreachable,
        ),
        (
            b"\x06\x01\0\0\0\x50\0\x03\x03\xc3\x28a",
            SocksReply::HostUnreachable,
        ),
        (
            b"\x05\x01\0\0\0\x50\0\x01\0\0\0\0",
            SocksReply::GeneralFailure,
        ),
    ] {
        let error = decode_request(bytes).unwrap_err();
        assert_eq!(error.reply(), reply, "{bytes:?}: {error}");
    }
}

#[test]
fn a_host_has_one_spelling() {
    for (bytes, host) in [
        (&b"\x06\x01\0\0\0\x50\0\x03\x03db."[..], "db"),
        (b"\x06\x01\0\0\0\x50\0\x03\x09127.0.0.1\0\0", "127.0.0.1"),
        (
            b"\x06\x01\0\0\0\x50\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01",
            "127.0.0.1",
        ),
    ] {
        let request = all_needed(bytes, decode_request);
        assert_eq!(request.command, connect(host, 80));
    }
}

#[test]
fn the_first_reply_says_whether_the_client_is_known() {
    for (bytes, reply) in [
        (
            &b"\x06\0\0\0"[..],
            Socks6AuthReply {
                is_success: true,
                options: Vec::new(),
            },
        ),
        (
            b"\x06\x01\0\x0c\0\x03\0\x08\xff\0\0\0\0\x09\0\x04",
            Socks6AuthReply {
                is_success: false,
                options: vec![Socks6ReplyOption::Method(255), Socks6ReplyOption::SessionInvalid],
            },
        ),
        (
            b"\x06\0\0\x30\0\x04\0\x08\x02\x01\0\0\0\x06\0\x08abcd\0\x08\0\x04\0\x0c\0\x0c\0\0\0\x01\0\0\0\x40\0\x0e\0\x04\0\x0f\0\x04\0\x01\0\x08\x85\x01\x01\0",
            Socks6AuthReply {
                is_success: true,
                options: vec![
                    Socks6ReplyOption::PasswordStatus(true),
                    Socks6ReplyOption::SessionId(Socks6SessionId::new(b"abcd").unwrap()),
                    Socks6ReplyOption::SessionOk,
                    Socks6ReplyOption::Window(Socks6Window { base: 1, size: 64 }),
                    Socks6ReplyOption::TokenAccepted,
                    Socks6ReplyOption::TokenRejected,
                    Socks6ReplyOption::UdpErrors(false),
                ],
            },
        ),
    ] {
        assert_eq!(all_needed(bytes, decode_auth_reply), reply);
        assert_eq!(encode_auth_reply(&reply), bytes);
    }
    let no_tokens = b"\x06\0\0\x0c\0\x0c\0\x0c\0\0\0\x01\0\0\0\0";
    assert_eq!(
        decode_auth_reply(no_tokens),
        Err(Socks6Error::BadOption(12))
    );
    // A proxy of another version says no more than its own.
    assert_eq!(decode_auth_reply(&[6]), Ok(None));
    assert_eq!(decode_auth_reply(&[5]), Err(Socks6Error::UnknownVersion(5)));
}

#[test]
fn the_second_reply_says_how_the_wish_ended() {
    let bound: SocketAddr = "192.0.2.1:1080".parse().unwrap();
    for (reply, code) in [
        (SocksReply::Succeeded, 0),
        (SocksReply::ConnectionRefused, 5),
        (SocksReply::TimedOut, 9),
    ] {
        let bytes = [6, code, 0, 0, 4, 56, 0, 1, 192, 0, 2, 1];
        let reply = Socks6OperationReply {
            reply,
            bound: Some(bound),
            options: Vec::new(),
        };
        assert_eq!(all_needed(&bytes, decode_operation_reply), reply);
        assert_eq!(encode_operation_reply(&reply), bytes);
    }
    let unknown = [6, 77, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let reply = all_needed(&unknown, decode_operation_reply).reply;
    assert_eq!(reply, SocksReply::GeneralFailure);
}
