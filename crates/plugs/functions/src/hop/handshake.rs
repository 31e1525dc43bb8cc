//! Asking a process for a connection: CONNECT (RFC 9110, 9.3.6), or SOCKS5 without authentication (RFC 1928).

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, BytesMut};
use hermes_net::Stream;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of the head of an answer to CONNECT.
#[doc(alias = "bound")]
const HEAD: usize = 8 * 1024;

/// How a process is asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Speak {
    /// By CONNECT of HTTP/1.1; the field `Hermes-Target` names the true target.
    #[default]
    Connect,
    /// By SOCKS5.
    Socks5,
}

/// Why a process leads no tunnel.
#[derive(Debug)]
pub(super) enum HopFailure {
    Io(io::Error),
    /// It refuses, or does not speak as it should.
    Answer(String),
}

impl From<io::Error> for HopFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl HopFailure {
    /// The answer to the client.
    pub(super) fn refusal(self, instance: &str) -> Refusal {
        match self {
            Self::Io(error) => {
                let details = format!("the function at {instance}: {error}");
                Refusal::new(ProxyError::ConnectionTerminated, details)
            }
            Self::Answer(answer) => {
                let details = format!("the function at {instance} {answer}");
                Refusal::new(ProxyError::HttpProtocolError, details)
            }
        }
    }
}

/// Asks for a connection to `back`. Bytes that follow the answer are the first of the tunnel.
pub(super) async fn ask(
    mut near: Stream,
    speak: Speak,
    back: SocketAddr,
    target: &Target,
) -> Result<Stream, HopFailure> {
    match speak {
        Speak::Connect => connect(&mut near, back, target).await?,
        Speak::Socks5 => socks5(&mut near, back).await?,
    }
    Ok(near)
}

async fn connect(near: &mut Stream, back: SocketAddr, target: &Target) -> Result<(), HopFailure> {
    let request =
        format!("CONNECT {back} HTTP/1.1\r\nHost: {back}\r\nHermes-Target: {target}\r\n\r\n");
    near.write_all(request.as_bytes()).await?;

    let mut head = BytesMut::with_capacity(512);
    let end = loop {
        if near.read_buf(&mut head).await? == 0 {
            return Err(HopFailure::Answer("ended before its answer".to_owned()));
        }
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if head.len() > HEAD {
            return Err(HopFailure::Answer("answers without end".to_owned()));
        }
    };
    let rest = head.split_off(end);
    let status = status(&head);
    near.unread(rest.freeze());
    match status {
        Some(200..=299) => Ok(()),
        Some(status) => Err(HopFailure::Answer(format!("refuses with {status}"))),
        None => Err(HopFailure::Answer("does not speak HTTP".to_owned())),
    }
}

/// The status of a head.
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let status = rest.get(2..5)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

async fn socks5(near: &mut Stream, back: SocketAddr) -> Result<(), HopFailure> {
    // Not at once with the request: some servers drop what follows a method.
    near.write_all(&[5, 1, 0]).await?;
    let mut method = [0; 2];
    near.read_exact(&mut method).await?;
    if method != [5, 0] {
        return Err(HopFailure::Answer(
            "wants SOCKS with authentication".to_owned(),
        ));
    }

    let mut request = BytesMut::from(&[5, 1, 0][..]);
    put_address(&mut request, back);
    near.write_all(&request).await?;
    let mut reply = [0; 4];
    near.read_exact(&mut reply).await?;
    let bound = match reply {
        [5, 0, 0, 1] => 4,
        [5, 0, 0, 4] => 16,
        [5, 0, 0, 3] => usize::from(near.read_u8().await?),
        [5, code, ..] => {
            return Err(HopFailure::Answer(format!("refuses with reply {code}")));
        }
        _ => return Err(HopFailure::Answer("does not speak SOCKS5".to_owned())),
    };
    let mut rest = vec![0; bound + 2];
    near.read_exact(&mut rest).await?;
    Ok(())
}

fn put_address(request: &mut BytesMut, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            request.put_u8(1);
            request.put_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            request.put_u8(4);
            request.put_slice(&ip.octets());
        }
    }
    request.put_u16(address.port());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_head_of_http_has_a_status() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 407\r\n\r\n"), Some(407));
        assert_eq!(status(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(status(b"HTTP/1.1 2\r\n\r\n"), None);
    }
}
