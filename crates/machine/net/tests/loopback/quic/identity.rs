use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hermes_net::quic::{ClientConfig, ConnectionError, Endpoint, Keys, Record, ServerOptions};
use hermes_net::tls::{self, ClientOptions, TlsErrorKind};
use hermes_net::{Drain, PeerAddress};
use rcgen::SanType;

use super::{NAME, Trust, accept, ask, incoming, patiently, read_all, serve, spawn_echo, write};
use crate::authority::Authority;

#[tokio::test]
async fn each_side_learns_of_the_other_what_it_would_over_tcp() {
    let trust = Trust::new();
    let ca = trust.authority.ca();
    let alice = trust.authority.issue(
        "alice",
        vec![SanType::URI(
            "spiffe://example.org/alice".try_into().unwrap(),
        )],
    );
    let identity = trust.authority.server();
    let serving = tls::TlsServerOptions {
        client_authorities: Some((&ca).into()),
        client_required: true,
        ..identity.serving()
    };
    let (server, address) = serve(&ServerOptions::new(
        tls::server(serving).unwrap(),
        Keys::random(),
    ));
    let options = ClientOptions {
        authorities: Some((&ca).into()),
        certificate: Some((&alice.cert).into()),
        key: Some((&alice.key).into()),
        ..ClientOptions::default()
    };
    let config =
        ClientConfig::new(&tls::client(options).unwrap(), false, Record::default()).unwrap();
    let client = Endpoint::client(address).unwrap();
    let (near, far) = tokio::join!(client.connect(address, NAME, &config), accept(&server));
    let near = near.unwrap();

    let seen = far.info().tls.clone().unwrap();
    assert_eq!(seen.alpn.as_deref(), Some(b"h3".as_slice()));
    assert_eq!(seen.server_name.as_deref(), Some(NAME));
    assert_eq!(
        seen.certificate.unwrap().primary(),
        Some("spiffe://example.org/alice")
    );
    assert_eq!(far.info().local, Some(address));
    assert_eq!(far.info().peer.ip(), Some(address.ip()));
    assert_eq!(near.info().peer, PeerAddress::Ip(address));
    assert_eq!(
        near.info()
            .tls
            .as_ref()
            .unwrap()
            .certificate
            .as_ref()
            .unwrap()
            .primary(),
        Some(NAME)
    );
    assert!(far.is_confirmed() && near.is_confirmed());

    // TLS 1.3: the client learns after its end of the handshake that a certificate was missing.
    let stranger = client.connect(address, NAME, &trust.client);
    let (near, far) = tokio::join!(stranger, async { incoming(&server).await.accept().await });
    let ours = far.unwrap_err();
    assert!(
        matches!(&ours, ConnectionError::Tls(error) if error.kind == TlsErrorKind::Certificate),
        "{ours:?}"
    );
    let theirs = match near {
        Ok(near) => patiently(near.closed()).await,
        Err(error) => error,
    };
    let alert = TlsErrorKind::Alert { id: 116 };
    assert!(
        matches!(&theirs, ConnectionError::Tls(error) if error.kind == alert),
        "{theirs:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_believed_hears_an_alert() {
    let trust = Trust::new();
    let (server, address) = trust.serve();
    let stranger = Authority::new();
    let ca = stranger.ca();
    let tls = tls::client(ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    })
    .unwrap();
    let other_authority = ClientConfig::new(&tls, false, Record::default()).unwrap();
    let client = Endpoint::client(address).unwrap();
    for (name, config) in [(NAME, &other_authority), ("other.example", &trust.client)] {
        let connecting = client.connect(address, name, config);
        let (near, far) =
            tokio::join!(connecting, async { incoming(&server).await.accept().await });
        let ours = near.unwrap_err();
        assert!(
            matches!(&ours, ConnectionError::Tls(error) if error.kind == TlsErrorKind::Certificate),
            "{ours:?}"
        );
        let theirs = far.unwrap_err();
        let is_alert = |error: &tls::TlsError| matches!(error.kind, TlsErrorKind::Alert { .. });
        assert!(
            matches!(&theirs, ConnectionError::Tls(error) if is_alert(error)),
            "{theirs:?}"
        );
    }
    let error = client
        .connect(address, "not a name", &trust.client)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ConnectionError::Tls(error) if error.kind == TlsErrorKind::BadName),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_new_certificate_serves_new_connections_and_leaves_old_ones() {
    let (trust, drain) = (Trust::new(), Drain::new());
    let (server, address) = trust.serve();
    spawn_echo(server.clone(), &drain);
    let client = Endpoint::client(address).unwrap();
    let old = client.connect(address, NAME, &trust.client).await.unwrap();

    let other = Trust::new();
    server.set_server(&other.server).unwrap();
    assert!(client.connect(address, NAME, &trust.client).await.is_err());
    let new = client.connect(address, NAME, &other.client).await.unwrap();
    assert_eq!(ask(&new, "new").await.unwrap(), b"new");
    assert_eq!(ask(&old, "old").await.unwrap(), b"old");
}

#[tokio::test]
async fn early_data_comes_before_the_handshake_ends_and_is_known_as_such() {
    let trust = Trust::new();
    let ca = trust.authority.ca();
    let (server, address) = serve(&ServerOptions {
        early_data: true,
        ..trust.server.clone()
    });
    let tls = tls::client(ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    })
    .unwrap();
    let config = ClientConfig::new(&tls, true, Record::default()).unwrap();
    let client = Endpoint::client(address).unwrap();

    let (near, far) = tokio::join!(client.connect(address, NAME, &config), accept(&server));
    let (near, far) = (near.unwrap(), far);
    assert!(
        near.is_confirmed(),
        "an unknown server cannot be sent early data"
    );
    // The ticket comes after the handshake.
    let (mut send, mut reply) = near.open_bi().await.unwrap();
    write(&mut send, Bytes::from_static(b"x")).await.unwrap();
    let (mut answer, mut recv) = far.accept_bi().await.unwrap();
    assert!(!recv.is_early());
    recv.read(1).await.unwrap();
    write(&mut answer, Bytes::from_static(b"y")).await.unwrap();
    assert_eq!(reply.read(1).await.unwrap().unwrap(), "y");
    near.close(0, b"");

    // Tickets are of the configuration that got them: another one verifies for itself.
    let other = ClientConfig::new(&tls, true, Record::default()).unwrap();
    let (near, _far) = tokio::join!(client.connect(address, NAME, &other), accept(&server));
    assert!(near.unwrap().is_confirmed());

    let near = client.connect(address, NAME, &config).await.unwrap();
    assert!(!near.is_confirmed());
    let (mut send, mut recv) = near.open_bi().await.unwrap();
    write(&mut send, Bytes::from_static(b"early"))
        .await
        .unwrap();
    send.finish().unwrap();
    let far = accept(&server).await;
    let (far_send, mut far_recv) = far.accept_bi().await.unwrap();
    assert!(far_recv.is_early());
    assert_eq!(far_recv.read(9).await.unwrap().unwrap(), "early");
    super::echo(far_send, far_recv).await;
    assert_eq!(read_all(&mut recv).await.unwrap(), b"");
    patiently(async { tokio::join!(near.confirmed(), far.confirmed()) }).await;
    assert!(near.is_confirmed() && far.is_confirmed());
    assert!(!near.early_data_was_lost().await);
}

#[tokio::test]
async fn connections_are_written_down_only_when_asked_and_for_the_owner_alone() {
    let (trust, drain) = (Trust::new(), Drain::new());
    let folder = tempfile::tempdir().unwrap();
    let (qlog, keys) = (folder.path().join("qlog"), folder.path().join("keys"));
    let record = Record::new(Some(&qlog), Some(&keys));
    let (server, address) = serve(&ServerOptions {
        record: record.clone(),
        ..trust.server.clone()
    });
    spawn_echo(server, &drain);
    let ca = trust.authority.ca();
    let tls = tls::client(ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    })
    .unwrap();
    let client = Endpoint::client(address).unwrap();
    let quiet = client.connect(address, NAME, &trust.client).await.unwrap();
    assert_eq!(ask(&quiet, "x").await.unwrap(), b"x");
    quiet.close(0, b"");
    let config = ClientConfig::new(&tls, false, record.clone()).unwrap();
    let near = client.connect(address, NAME, &config).await.unwrap();
    assert_eq!(ask(&near, "y").await.unwrap(), b"y");
    near.close(0, b"");
    patiently(client.idle()).await;

    assert!(record.flush(Duration::from_secs(30)));
    let mut names: Vec<String> = fs::read_dir(&qlog)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let kinds: Vec<_> = names
        .iter()
        .map(|name| name.rsplit('-').next().unwrap())
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "server.sqlog").count(),
        2,
        "{names:?}"
    );
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "client.sqlog").count(),
        1,
        "{names:?}"
    );
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&keys), 0o600);
    assert_eq!(mode(&qlog), 0o700);
    assert!(names.iter().all(|name| mode(&qlog.join(name)) == 0o600));
    let secrets = fs::read_to_string(&keys).unwrap();
    assert!(secrets.contains("CLIENT_TRAFFIC_SECRET_0 "), "{secrets}");
}

#[tokio::test]
async fn no_session_is_resumed_once_the_certificate_of_its_server_has_ended() {
    let authority = Authority::new();
    let (identity, ca) = (
        authority.server_until(SystemTime::now() + Duration::from_secs(3)),
        authority.ca(),
    );
    let options = ServerOptions::new(tls::server(identity.serving()).unwrap(), Keys::random());
    let (server, address) = serve(&ServerOptions {
        early_data: true,
        ..options
    });
    let tls = tls::client(ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    })
    .unwrap();
    let (config, client) = (
        ClientConfig::new(&tls, true, Record::default()).unwrap(),
        Endpoint::client(address).unwrap(),
    );
    let drain = Drain::new();
    spawn_echo(server, &drain);
    let connect = async || {
        let near = client.connect(address, NAME, &config).await?;
        let is_early = !near.is_confirmed();
        // The first is perhaps answered before the handshake ends: tickets come before the second answer.
        ask(&near, "x").await?;
        ask(&near, "y").await?;
        near.close(0, b"");
        Ok::<_, ConnectionError>(is_early)
    };
    assert!(!connect().await.unwrap());
    assert!(connect().await.unwrap());
    let error = patiently(async {
        loop {
            match connect().await {
                Ok(is_resumed) => assert!(is_resumed, "the certificate is valid"),
                Err(error) => return error,
            }
        }
    });
    let error = error.await;
    assert!(
        matches!(&error, ConnectionError::Tls(error) if error.kind == TlsErrorKind::Certificate),
        "{error:?}"
    );
}
