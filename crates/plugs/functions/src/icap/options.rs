//! The options of a scanner (RFC 3507, 4.10): asked for before its first transaction, and now and then.

use std::io;
use std::time::Duration;

use hermes_config::model::EndpointAddress;
use http::HeaderName;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::connection::{connect, invalid};

/// How long options hold, whatever they say.
#[doc(alias = "bound")]
const AGE: Duration = Duration::from_secs(60);

/// Bytes of a preview, at most.
#[doc(alias = "bound")]
const PREVIEW: usize = 32 * 1024;

/// The options that matter here.
#[derive(Debug, Clone, Copy)]
pub(super) struct IcapOptions {
    /// Bytes of a content that it wants to see first; `None` if it wants no preview.
    pub(super) preview: Option<usize>,
}

/// Options, as they were last heard.
#[derive(Default)]
pub(super) struct KnownOptions(Mutex<Option<(Instant, IcapOptions)>>);

impl KnownOptions {
    /// The options of the scanner.
    ///
    /// # Errors
    /// It does not tell them, or does not know the service.
    pub(super) async fn of(&self, to: &EndpointAddress, service: &str) -> io::Result<IcapOptions> {
        let now = Instant::now();
        if let Some((until, known)) = *self.0.lock()
            && now < until
        {
            return Ok(known);
        }
        // Not shared with the transaction: many scanners close after their options.
        let (mut read, mut write) = connect(to).await?;
        let request = format!(
            "OPTIONS icap://{to}/{service} ICAP/1.0\r\nHost: {to}\r\nConnection: close\r\nEncapsulated: null-body=0\r\n\r\n"
        );
        write.write_all(request.as_bytes()).await?;
        let head = read.head().await?;
        if head.status != 200 {
            return Err(invalid("it does not know the service"));
        }
        let preview = head.fields.get(HeaderName::from_static("preview"));
        let preview = preview.and_then(|value| value.to_str().ok()?.trim().parse::<usize>().ok());
        let known = IcapOptions {
            preview: preview.map(|wanted| wanted.min(PREVIEW)),
        };
        *self.0.lock() = Some((now + AGE, known));
        Ok(known)
    }
}
