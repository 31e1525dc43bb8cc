//! An origin that bounds its rate, and counts whom it refuses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Requests in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub quota: u64,
    pub window: Duration,
}

impl Limit {
    /// The time in which so many requests can be served.
    pub(super) fn best(self, requests: u64, telling: Telling) -> Duration {
        match telling {
            Telling::Nothing => {
                let after_first = requests.saturating_sub(self.quota) as f64;
                self.window.mul_f64(after_first / self.quota as f64)
            }
            _ => self.window * u32::try_from((requests - 1) / self.quota).unwrap_or(u32::MAX),
        }
        // Where one window is enough.
        .max(self.window / 10)
    }
}

/// What an origin tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// `RateLimit` and `RateLimit-Policy` in each answer; windows that begin with a request.
    Fields,
    /// `Retry-After` with 429; the same windows.
    RetryAfter,
    /// 429 alone; a bucket that fills evenly.
    Nothing,
}

/// A running origin. Dropping it ends it.
pub(super) struct LimitedOrigin {
    pub address: SocketAddr,
    refused: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl LimitedOrigin {
    /// Starts one on a free port of loopback.
    ///
    /// # Errors
    /// When there is no port.
    pub(super) async fn start(limit: Limit, telling: Telling) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let refused = Arc::new(AtomicUsize::new(0));
        let counted = Arc::new(Mutex::new(ServedCount::new(limit, telling)));
        let counts = refused.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, counted.clone(), counts.clone()));
            }
        });
        Ok(Self {
            address,
            refused,
            serving,
        })
    }

    /// Requests that it has refused.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for LimitedOrigin {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Requests so far.
struct ServedCount {
    limit: Limit,
    telling: Telling,
    began: Option<Instant>,
    count: u64,
    tokens: f64,
    filled: Instant,
}

impl ServedCount {
    fn new(limit: Limit, telling: Telling) -> Self {
        Self {
            limit,
            telling,
            began: None,
            count: 0,
            tokens: limit.quota as f64,
            filled: Instant::now(),
        }
    }

    /// Whether a request is refused, and the fields of the answer.
    fn answer(&mut self, now: Instant) -> (bool, String) {
        let Limit { quota, window } = self.limit;
        if self.telling == Telling::Nothing {
            let gained = (now - self.filled).as_secs_f64() * quota as f64 / window.as_secs_f64();
            self.tokens = (self.tokens + gained).min(quota as f64);
            self.filled = now;
            let is_refused = self.tokens < 1.0;
            self.tokens -= if is_refused { 0.0 } else { 1.0 };
            return (is_refused, String::new());
        }
        let began = match self.began {
            Some(began) if now < began + window => began,
            _ => {
                self.count = 0;
                *self.began.insert(now)
            }
        };
        self.count += 1;
        let is_refused = self.count > quota;
        // Whole seconds, rounded up, as the fields have.
        let rest = (began + window - now).as_secs_f64().ceil();
        let fields = match self.telling {
            Telling::Fields => {
                let left = quota.saturating_sub(self.count);
                let seconds = window.as_secs_f64().ceil();
                format!(
                    "ratelimit-policy: \"w\";q={quota};w={seconds}\r\nratelimit: \"w\";r={left};t={rest}\r\n"
                )
            }
            _ => String::new(),
        };
        match is_refused {
            true => (true, format!("{fields}retry-after: {rest}\r\n")),
            false => (false, fields),
        }
    }
}

async fn serve(mut stream: TcpStream, counted: Arc<Mutex<ServedCount>>, refused: Arc<AtomicUsize>) {
    let mut unread = Vec::new();
    loop {
        let Some(end) = head_end(&unread) else {
            match stream.read_buf(&mut unread).await {
                Ok(read) if read > 0 => continue,
                _ => return,
            }
        };
        unread.drain(..end);
        let (is_refused, fields) = counted.lock().answer(Instant::now());
        let status = if is_refused {
            "429 Too Many Requests"
        } else {
            "200 OK"
        };
        refused.fetch_add(usize::from(is_refused), Ordering::Relaxed);
        let answer = format!("HTTP/1.1 {status}\r\n{fields}content-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Where a head ends.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    let found = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    found.map(|at| at + 4)
}
