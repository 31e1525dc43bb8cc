use std::fs::{self, Permissions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use hermes_net::tls::{
    self, ClientOptions, TlsClient, TlsError, TlsErrorKind, TlsPart, TlsServerOptions, TlsSource,
};
use hermes_net::{PeerAddress, Stream, StreamInfo, Transport};
use rcgen::SanType;
use rustls::HandshakeKind;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::time::timeout;

use crate::authority::{Authority, handshake, tls_pair};
use crate::{PATIENCE, tcp_pair};

#[tokio::test]
async fn mutual_tls_tells_each_side_the_others_names_and_protocol() {
    let authority = Authority::new();
    let (server, ca) = (authority.server(), authority.ca());
    let names = vec![
        SanType::DnsName("alice.example".try_into().unwrap()),
        SanType::Rfc822Name("alice@example.org".try_into().unwrap()),
        SanType::URI("spiffe://example.org/alice".try_into().unwrap()),
    ];
    let alice = authority.issue("alice", names);
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        certificate: Some((&alice.cert).into()),
        key: Some((&alice.key).into()),
        alpn: &[b"h2", b"http/1.1"],
        ..ClientOptions::default()
    };
    let serving = TlsServerOptions {
        client_authorities: Some((&ca).into()),
        client_required: true,
        alpn: &[b"http/1.1"],
        ..server.serving()
    };
    let (near, far) = handshake(tcp_pair().await, client, serving, "server.example").await;
    let (near, far) = (near.unwrap(), far.unwrap());

    let seen = far.info().tls.clone().unwrap();
    assert_eq!(seen.alpn.as_deref(), Some(b"http/1.1".as_slice()));
    assert_eq!(seen.server_name.as_deref(), Some("server.example"));
    let names = seen.certificate.unwrap();
    assert_eq!(names.primary(), Some("spiffe://example.org/alice"));
    let all = [
        "spiffe://example.org/alice",
        "alice@example.org",
        "alice.example",
        "alice",
    ];
    assert_eq!(names.all().collect::<Vec<_>>(), all);
    assert_eq!(names.sha256.len(), 64);

    let seen = near.info().tls.clone().unwrap();
    assert_eq!(seen.alpn.as_deref(), Some(b"http/1.1".as_slice()));
    assert_eq!(seen.certificate.unwrap().primary(), Some("server.example"));
}

#[tokio::test]
async fn what_was_read_ahead_arrives_in_its_order_however_little_is_asked_for() {
    let authority = Authority::new();
    let (server, ca) = (authority.server(), authority.ca());
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    };
    let (near, far) = handshake(tcp_pair().await, client, server.serving(), "server.example").await;
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    let sent: Vec<u8> = (0..2_000_003_usize)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect();
    // Records of many sizes, more at once than are read ahead.
    let sizes = [1, 5, 100, 4_091, 16_384, 70_000, 300_000];
    let send = async {
        let (mut rest, mut sizes) = (&sent[..], sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            near.write_all(piece).await.unwrap();
            near.flush().await.unwrap();
            rest = after;
        }
        near.shutdown().await.unwrap();
    };
    let receive = async {
        let (mut received, mut sizes) = (
            Vec::new(),
            [3, 1_000, 16_384, 50_000, 200_000].iter().cycle(),
        );
        loop {
            let mut piece = vec![0; *sizes.next().unwrap()];
            match far.read(&mut piece).await.unwrap() {
                0 => return received,
                read => received.extend_from_slice(&piece[..read]),
            }
        }
    };
    let ((), received) = tokio::join!(send, receive);
    assert!(received == sent, "what arrived differs");
}

/// Counts the writes to the inner stream, which are vectored.
struct Counting {
    io: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// How many writes of the socket it takes to send 128 KiB that are there at once.
async fn writes_of_bulk(link: bool) -> usize {
    let (near, far) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let info = StreamInfo {
        peer: PeerAddress::Unix { uid: None },
        local: None,
        tls: None,
        origin: None,
    };
    let counting = Counting {
        io: near,
        writes: writes.clone(),
    };
    let near = Stream::other(Box::new(counting), info.clone());
    let (mut near, mut far) = tls_pair((near, Stream::other(Box::new(far), info))).await;
    if link {
        near.batch_records();
    }

    let sent = vec![7; 128 * 1024];
    let before = writes.load(Ordering::Relaxed);
    near.write_all(&sent).await.unwrap();
    let count = writes.load(Ordering::Relaxed) - before;

    let mut received = vec![0; sent.len()];
    far.read_exact(&mut received).await.unwrap();
    assert_eq!(received, sent);
    count
}

#[tokio::test]
async fn many_records_of_a_link_leave_in_one_write() {
    assert_eq!(writes_of_bulk(true).await, 1);
    assert!(writes_of_bulk(false).await > 1);
}

/// A broken record comes from the socket below TLS, before or after our own end of the session.
async fn a_broken_record_is_an_error(has_ended: bool) {
    let (near, far) = tls_pair(tcp_pair().await).await;
    let (mut read, mut write) = far.split();
    if has_ended {
        write.shutdown().await.unwrap();
    }

    let (Transport::TlsClient(near), ..) = near.into_parts() else {
        panic!("a client of TLS");
    };
    let (mut below, _session) = near.into_inner();
    below
        .write_all(b"\x17\x03\x03\x00\x20no key has made these 32 octets.")
        .await
        .unwrap();

    // Who reads on after the error finds no more than that.
    for _ in 0..2 {
        read.read_u8().await.unwrap_err();
    }
}

#[tokio::test]
async fn a_broken_record_is_an_error_also_after_our_own_end() {
    a_broken_record_is_an_error(false).await;
    a_broken_record_is_an_error(true).await;
}

#[tokio::test]
async fn another_authoritys_server_is_refused_and_hears_an_alert() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, ca) = (authority.server(), stranger.ca());
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    };
    let (near, far) = handshake(tcp_pair().await, client, server.serving(), "server.example").await;
    assert_eq!(near.unwrap_err().kind, TlsErrorKind::Certificate);
    // RFC 8446 section 6.2: unknown_ca is 48, decrypt_error 51.
    let told = far.unwrap_err().kind;
    assert!(
        matches!(told, TlsErrorKind::Alert { id: 48 | 51 }),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_server_with_another_name_is_refused() {
    let authority = Authority::new();
    let (server, ca) = (authority.server(), authority.ca());
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    };
    let (near, _) = handshake(tcp_pair().await, client, server.serving(), "other.example").await;
    assert_eq!(near.unwrap_err().kind, TlsErrorKind::Certificate);
}

#[tokio::test]
async fn a_client_without_the_required_certificate_is_refused() {
    let authority = Authority::new();
    let (server, ca) = (authority.server(), authority.ca());
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    };
    let serving = TlsServerOptions {
        client_authorities: Some((&ca).into()),
        client_required: true,
        ..server.serving()
    };
    let (near, far) = handshake(tcp_pair().await, client, serving, "server.example").await;
    assert_eq!(far.unwrap_err().kind, TlsErrorKind::Certificate);
    // A TLS 1.3 client learns it with its first read: certificate_required is 116.
    let error = near.unwrap().read_u8().await.unwrap_err();
    assert_eq!(
        TlsError::from_io(&error).kind,
        TlsErrorKind::Alert { id: 116 }
    );
}

#[tokio::test]
async fn an_optional_client_certificate_may_be_missing_but_not_be_wrong() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, ca) = (authority.server(), authority.ca());
    let serving = TlsServerOptions {
        client_authorities: Some((&ca).into()),
        ..server.serving()
    };
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    };
    let (_near, far) = handshake(tcp_pair().await, client, serving, "server.example").await;
    assert_eq!(far.unwrap().info().tls.as_ref().unwrap().certificate, None);

    let mallory = stranger.issue("mallory", Vec::new());
    let client = ClientOptions {
        certificate: Some((&mallory.cert).into()),
        key: Some((&mallory.key).into()),
        ..client
    };
    let (_near, far) = handshake(tcp_pair().await, client, serving, "server.example").await;
    assert_eq!(far.unwrap_err().kind, TlsErrorKind::Certificate);
}

#[tokio::test]
async fn verification_is_skipped_only_when_told_to() {
    let authority = Authority::new();
    let server = authority.server();
    let client = ClientOptions {
        insecure_skip_verify: true,
        ..ClientOptions::default()
    };
    let (near, far) = handshake(tcp_pair().await, client, server.serving(), "[::1]").await;
    assert!(near.is_ok() && far.is_ok());
}

#[tokio::test]
async fn what_is_not_tls_is_a_protocol_error() {
    let authority = Authority::new();
    let config = tls::server(authority.server().serving()).unwrap();
    let (mut near, far) = tcp_pair().await;
    near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let error = tls::accept(far, config, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Protocol);
}

#[tokio::test]
async fn a_peer_that_closes_or_says_nothing_is_told_apart() {
    let authority = Authority::new();
    let config = tls::server(authority.server().serving()).unwrap();
    let (near, far) = tcp_pair().await;
    drop(near);
    let error = tls::accept(far, config.clone(), PATIENCE)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Eof);
    let (_near, far) = tcp_pair().await;
    let error = tls::accept(far, config, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::Timeout);
}

#[tokio::test]
async fn a_name_that_cannot_be_checked_is_refused_before_the_handshake() {
    let client = ClientOptions {
        insecure_skip_verify: true,
        ..ClientOptions::default()
    };
    let config = tls::client(client).unwrap();
    let (near, _far) = tcp_pair().await;
    let error = tls::connect(near, config, "not a name", PATIENCE)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TlsErrorKind::BadName);
}

#[test]
fn a_key_that_others_can_read_is_refused_with_the_chmod_that_mends_it() {
    let authority = Authority::new();
    let server = authority.server();
    let is_roots = fs::metadata(&server.key).unwrap().uid() == 0;
    let mode = if is_roots { 640 } else { 600 };
    let remedy = format!("chmod {mode} {}", server.key.display());
    for mode in [0o660, 0o604, 0o620] {
        fs::set_permissions(&server.key, Permissions::from_mode(mode)).unwrap();
        let error = tls::server(server.serving()).unwrap_err();
        assert_eq!(error.name, server.key.display().to_string());
        assert_eq!(error.remedy.as_ref(), Some(&remedy));
    }
    // Debian's `ssl-cert` and the volumes of Kubernetes: root's, and its group may read it.
    for mode in [0o640, 0o440] {
        fs::set_permissions(&server.key, Permissions::from_mode(mode)).unwrap();
        assert_eq!(tls::server(server.serving()).is_ok(), is_roots, "{mode:o}");
    }
    fs::set_permissions(&server.key, Permissions::from_mode(0o400)).unwrap();
    assert!(tls::server(server.serving()).is_ok());
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let authority = Authority::new();
    let (server, other) = (authority.server(), authority.issue("other", Vec::new()));
    let error = tls::server(TlsServerOptions {
        key: (&other.key).into(),
        ..server.serving()
    })
    .unwrap_err();
    assert_eq!(error.name, other.key.display().to_string());
    assert!(
        error.reason.contains("does not belong to the certificate"),
        "{error}"
    );
}

#[test]
fn broken_files_are_named() {
    let authority = Authority::new();
    let server = authority.server();
    let at = |name: &str, text: &str| {
        let file = authority.folder().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    };
    let missing = authority.folder().join("missing.pem");
    let empty = at("empty.pem", "");
    let cut = at("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let bad = at(
        "bad.pem",
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
    );
    let reasons = [
        (&missing, "cannot be read"),
        (&empty, "no certificate in it"),
        (&cut, "no end of CERTIFICATE"),
        (&bad, "bad base64"),
    ];
    for (file, reason) in reasons {
        let error = tls::server(TlsServerOptions {
            certificate: file.into(),
            ..server.serving()
        })
        .unwrap_err();
        assert_eq!(error.name, file.display().to_string());
        assert!(error.reason.contains(reason), "{error}");
    }
    let options = TlsServerOptions {
        key: (&empty).into(),
        ..server.serving()
    };
    assert!(
        tls::server(options)
            .unwrap_err()
            .reason
            .contains("no private key in it")
    );
}

#[tokio::test]
async fn certificates_and_keys_need_no_file() {
    let authority = Authority::new();
    let (server, ca) = (authority.server(), authority.ca());
    let read = |file| fs::read_to_string(file).unwrap();
    let (certificate, key, ca) = (read(&server.cert), read(&server.key), read(&ca));
    let client = ClientOptions {
        authorities: Some(TlsSource::Inline(&ca)),
        ..ClientOptions::default()
    };
    let serving = TlsServerOptions {
        certificate: TlsSource::Inline(&certificate),
        key: TlsSource::Inline(&key),
        ..server.serving()
    };
    let (near, far) = handshake(tcp_pair().await, client, serving, "server.example").await;
    assert!(near.is_ok() && far.is_ok());

    // As a program leaves them that folds the lines of its texts.
    for folded in [key.replace('\n', ""), key.replace('\n', " ")] {
        let error = tls::server(TlsServerOptions {
            key: TlsSource::Inline(&folded),
            ..serving
        });
        let error = error.unwrap_err();
        assert_eq!(error.part, Some(TlsPart::Key));
        let said = format!("{error} {error:?} {:?}", TlsSource::Inline(&folded));
        let body = key.lines().nth(1).unwrap();
        assert!(
            said.contains("the inline value") && !said.contains(body),
            "{said}"
        );
    }
}

#[test]
fn options_that_need_another_are_refused() {
    let authority = Authority::new();
    let server = authority.server();
    let options = TlsServerOptions {
        client_required: true,
        ..server.serving()
    };
    assert_eq!(
        tls::server(options).unwrap_err().remedy.as_deref(),
        Some("set client_ca_file")
    );
    let options = ClientOptions {
        certificate: Some((&server.cert).into()),
        ..ClientOptions::default()
    };
    let error = tls::client(options).unwrap_err();
    assert_eq!(error.part, Some(TlsPart::Certificate));
    assert_eq!(error.name, server.cert.display().to_string());
}

/// Connects, waits for the ticket that comes with the server's first bytes, and returns whether a
/// session was resumed.
async fn is_resumed(
    client: &TlsClient,
    server: &Arc<rustls::ServerConfig>,
) -> Result<bool, TlsError> {
    let (near, far) = tcp_pair().await;
    let (near, far) = tokio::join!(
        tls::connect(near, client.clone(), "server.example", PATIENCE),
        tls::accept(far, server.clone(), PATIENCE)
    );
    let mut near = near?;
    far.unwrap().write_all(b"x").await.unwrap();
    near.read_u8().await.unwrap();
    let Transport::TlsClient(stream) = near.transport() else {
        panic!("no TLS")
    };
    Ok(stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed))
}

#[tokio::test]
async fn no_session_is_resumed_once_the_certificate_of_its_server_has_ended() {
    let (authority, end) = (Authority::new(), SystemTime::now() + Duration::from_secs(3));
    let (identity, ca) = (authority.server_until(end), authority.ca());
    let client = tls::client(ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    })
    .unwrap();
    let server = tls::server(identity.serving()).unwrap();
    assert!(!is_resumed(&client, &server).await.unwrap());
    assert!(is_resumed(&client, &server).await.unwrap());

    let error = timeout(PATIENCE, async {
        loop {
            match is_resumed(&client, &server).await {
                Ok(resumed) => assert!(resumed, "the certificate is valid"),
                Err(error) => return error,
            }
        }
    });
    let error = error
        .await
        .expect("a session that outlives the certificate");
    assert_eq!(error.kind, TlsErrorKind::Certificate, "{error}");
    // The next certificate is believed, and with it there are sessions again.
    let renewed = tls::server(authority.server().serving()).unwrap();
    assert!(!is_resumed(&client, &renewed).await.unwrap());
    assert!(is_resumed(&client, &renewed).await.unwrap());
}
