//! TLS from the client to the origin: the proxies carry it and cannot look inside.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::demo::Scene;
use crate::demo::evidence::{Evidence, Latency};
use crate::demo::http_client::{Client, connect, dial};
use crate::demo::journey;
use crate::demo::measure::median_of;
use crate::demo::says::{Says, expect};

/// Asks SECURE through a tunnel; its certificate has to be its own.
pub async fn check(scene: &Scene) -> Result<Evidence, String> {
    let tunnel = connect(scene.place.address("ALICE_WEB"), "SECURE:443").await?;
    let tls = handshake(scene, tunnel).await?;
    let fingerprint = own_certificate(scene, &tls)?;
    let journey = journey::follow(&scene.place, "SECURE:443").await?;
    journey::expect_all_nodes(&journey.hops)?;
    let mut client = Client::open(tls).await?;
    let seen = client.get("SECURE", "/inside", &[]).await?.seen()?;
    expect(seen["origin"] == "SECURE", || {
        format!("{} answered", seen["origin"])
    })?;
    expect(seen["fields"].get("via").is_none(), || {
        "a proxy has written into the request".to_owned()
    })?;
    let proof = format!("no hop opened it: SECURE's own certificate, {fingerprint}");

    Ok(Evidence {
        journey,
        proof,
        latency: Some(latency(scene, client).await?),
    })
}

/// A TLS handshake that verifies the name SECURE against the demo's authority.
async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    scene: &Scene,
    stream: S,
) -> Result<TlsStream<S>, String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(scene.certificates.authority.clone())
        .says("the demo's authority")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .says("TLS")?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("SECURE").says("SECURE")?;

    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .says("the handshake with SECURE")
}

/// The beginning of the certificate's fingerprint, once it is known to be the origin's.
fn own_certificate<S>(scene: &Scene, tls: &TlsStream<S>) -> Result<String, String> {
    let shown = tls
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first())
        .ok_or("no certificate was shown")?;

    let shown = fingerprint(shown);
    let own = fingerprint(&scene.certificates.secure.certificate);
    expect(shown == own, || {
        format!("a certificate {shown} was shown, SECURE's is {own}")
    })?;

    Ok(format!("sha256 {}...", &own[..16]))
}

fn fingerprint(certificate: &[u8]) -> String {
    digest(&SHA256, certificate)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn latency(scene: &Scene, mut client: Client) -> Result<Latency, String> {
    let overlay =
        median_of(async || client.get("SECURE", "/inside", &[]).await?.seen().map(drop)).await?;
    let tls = handshake(scene, dial(scene.place.address("SECURE")).await?).await?;
    let mut client = Client::open(tls).await?;
    let direct =
        median_of(async || client.get("SECURE", "/inside", &[]).await?.seen().map(drop)).await?;
    Ok(Latency { overlay, direct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_sha_256() {
        assert!(fingerprint(b"").starts_with("e3b0c44298fc1c14"));
    }
}
