//! HTTP/1.1 as the load generator needs it: one small request, and responses with a length.

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The request that every HTTP exchange sends. The absolute form is what a proxy expects, and an origin accepts it.
pub const REQUEST: &[u8] = b"GET http://web.lab/ HTTP/1.1\r\nHost: web.lab\r\nAccept: */*\r\n\r\n";
/// Asks for a tunnel to the origin that speaks TLS.
pub const CONNECT: &[u8] = b"CONNECT tls.lab:443 HTTP/1.1\r\nHost: tls.lab:443\r\n\r\n";
/// Longest response that is read.
const LONGEST: usize = 16 * 1024;

/// Bytes of a connection that were read and not yet used.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// Sends `request` and reads the response, content included.
    ///
    /// # Errors
    /// When the connection fails, or the answer is not 200 with a length.
    pub async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        request: &[u8],
    ) -> Result<()> {
        stream.write_all(request).await?;
        let (head, content) = loop {
            if let Some(head) = parse(&self.bytes)? {
                break head;
            }
            self.fill(stream).await?;
        };

        while self.bytes.len() < head + content {
            self.fill(stream).await?;
        }
        self.bytes.drain(..head + content);
        Ok(())
    }

    async fn fill<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<()> {
        ensure!(self.bytes.len() < LONGEST, "the response is too long");
        self.bytes.reserve(2048);
        ensure!(
            stream.read_buf(&mut self.bytes).await? > 0,
            "the connection ended before the response did"
        );
        Ok(())
    }
}

/// Lengths of head and content, once the head is complete.
fn parse(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).context("the response head is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let Some("200") = status.split(' ').nth(1) else {
        bail!("answered with {status}");
    };

    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });

    Ok(Some((end + 4, length.transpose()?.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_content() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nvia: x\r\n").unwrap(), None);
        let whole = b"HTTP/1.1 200 OK\r\nConTent-length: 12\r\n\r\nhello";
        assert_eq!(parse(whole).unwrap(), Some((whole.len() - 5, 12)));
        assert_eq!(
            parse(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap(),
            Some((39, 0))
        );
    }

    #[test]
    fn any_other_status_is_a_failure() {
        assert!(parse(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").is_err());
    }
}
