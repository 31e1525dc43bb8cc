//! A case, played: the origin that answers as it says, the client that asks, and whether all was as expected.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::case::{CacheCase, CacheStep, Expected, OriginAnswer, filled};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a head.
const HEAD: usize = 64 * 1024;

/// The origin of all cases: each has paths of its own.
#[derive(Clone, Default)]
pub(super) struct CaseOrigin(Arc<Mutex<HashMap<String, PlayedPart>>>);

/// The origin's part of a case.
#[derive(Default)]
struct PlayedPart {
    answer: OriginAnswer,
    here: String,
    seen: Vec<String>,
}

impl CaseOrigin {
    /// Listens.
    ///
    /// # Errors
    /// There is no port.
    pub(super) async fn listen(&self) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let origin = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let origin = origin.clone();
                tokio::spawn(async move { origin.serve(stream).await });
            }
        });
        Ok(address)
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut unread = Vec::new();
        loop {
            let head = head(&mut stream, &mut unread).await?;
            let length = field(&head, "content-length").and_then(|length| length.parse().ok());
            read_to(&mut stream, &mut unread, length.unwrap_or(0)).await?;
            unread.drain(..length.unwrap_or(0));

            let path = head.split(' ').nth(1)?.to_owned();
            let key = path.split('/').nth(1)?.to_owned();
            let bytes = {
                let mut parts = self.0.lock();
                let part = parts.get_mut(&key)?;
                part.seen.push(head.clone());
                written(&part.answer, &part.here, &head)
            };
            stream.write_all(&bytes?).await.ok()?;
            if self.0.lock().get(&key)?.answer.is_cut {
                return None;
            }
        }
    }

    /// Plays a case through the cache at this address; why it failed, if it did.
    ///
    /// # Errors
    /// No answer came where one had to.
    pub(super) async fn play(
        &self,
        case: &CacheCase,
        number: usize,
        cache: SocketAddr,
    ) -> Result<Option<String>> {
        let key = format!("case-{number}");
        let here = format!("http://{cache}/{key}");
        for (at, step) in case.steps.iter().enumerate() {
            tokio::time::sleep(step.wait).await;
            let part = PlayedPart {
                answer: step.answer.clone(),
                here: here.clone(),
                seen: Vec::new(),
            };
            self.0.lock().insert(key.clone(), part);

            let asked = timeout(PATIENCE, ask(step, cache, &key, &here)).await;
            let got = asked.context("no answer in time")??;
            let seen = self.0.lock().get(&key).map(|part| part.seen.clone());
            let seen = seen.unwrap_or_default();
            for expected in &step.expected {
                if let Some(reason) = judge(expected, &got, &seen) {
                    return Ok(Some(format!("request {}: {reason}", at + 1)));
                }
            }
        }
        Ok(None)
    }
}

/// The bytes of an answer to a request with this head; `None`: the connection ends.
fn written(answer: &OriginAnswer, here: &str, head: &str) -> Option<Vec<u8>> {
    let is_head = head.starts_with("HEAD ");
    // No origin answers 304 where nothing was asked.
    let status = match answer.status? {
        304 if !is_conditional(head) => 200,
        status => status,
    };
    let mut text = format!("HTTP/1.1 {status} Any\r\n");
    for line in &answer.fields {
        text += &format!("{}\r\n", filled(line, here));
    }
    if !answer.fields.iter().any(|line| line.starts_with("Date:")) {
        text += &format!("{}\r\n", filled("Date: {0}", here));
    }
    let has_content = status != 304 && status != 204;
    let content = answer.content.as_deref().unwrap_or("content");
    if has_content {
        let missing = if answer.is_cut { 100 } else { 0 };
        text += &format!("Content-Length: {}\r\n", content.len() + missing);
    }
    text += "\r\n";
    if has_content && !is_head {
        text += content;
    }
    Some(text.into_bytes())
}

/// An answer as the client has it.
struct ClientAnswer {
    head: String,
    content: String,
}

async fn ask(step: &CacheStep, cache: SocketAddr, key: &str, here: &str) -> Result<ClientAnswer> {
    let mut stream = TcpStream::connect(cache).await?;
    let mut text = format!(
        "{} /{key}{} HTTP/1.1\r\nHost: {cache}\r\nConnection: close\r\n",
        step.method, step.path
    );
    for line in &step.fields {
        text += &format!("{}\r\n", filled(line, here));
    }
    if ["POST", "PUT"].contains(&step.method.as_str()) {
        text += "Content-Length: 0\r\n";
    }
    text += "\r\n";
    stream.write_all(text.as_bytes()).await?;

    let mut unread = Vec::new();
    let head = head(&mut stream, &mut unread).await.context("no answer")?;
    // What came is enough: a content that breaks off is none that a case looks at.
    let _ = stream.read_to_end(&mut unread).await;
    let content = String::from_utf8_lossy(&unread).into_owned();
    let is_chunked = field(&head, "transfer-encoding").is_some();
    let content = if is_chunked {
        unchunked(&content)
    } else {
        content
    };
    Ok(ClientAnswer { head, content })
}

fn unchunked(text: &str) -> String {
    let mut content = String::new();
    let mut rest = text;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some((chunk, next)) = after.split_at_checked(size) else {
            break;
        };
        if size == 0 {
            break;
        }
        content += chunk;
        rest = next.trim_start_matches("\r\n");
    }
    content
}

/// A head with its empty line. Later bytes stay in `unread`.
async fn head(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<String> {
    loop {
        let end = unread.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let rest = unread.split_off(end + 4);
            let head = std::mem::replace(unread, rest);
            return String::from_utf8(head).ok();
        }
        if unread.len() > HEAD || stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}

async fn read_to(stream: &mut TcpStream, unread: &mut Vec<u8>, length: usize) -> Option<()> {
    while unread.len() < length {
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
    Some(())
}

/// Whether a request with this head asks whether a content has changed.
fn is_conditional(head: &str) -> bool {
    field(head, "if-none-match").is_some() || field(head, "if-modified-since").is_some()
}

/// The value of a field of a head.
fn field(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let found = lines.find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim().to_owned())
}

/// Why something is not as expected; `None` if it is.
fn judge(expected: &Expected, got: &ClientAnswer, seen: &[String]) -> Option<String> {
    let is_asked = !seen.is_empty();
    let status = got.head.split(' ').nth(1).unwrap_or_default();
    match expected {
        Expected::Asked if !is_asked => Some("answered from the cache".to_owned()),
        Expected::Stored if is_asked => Some("the origin was asked".to_owned()),
        Expected::Validated => {
            (!seen.iter().any(|head| is_conditional(head))).then(|| "not validated".to_owned())
        }
        Expected::Status(wanted) if !status.starts_with(wanted.as_str()) => {
            Some(format!("status {status}"))
        }
        Expected::Field(name) if field(&got.head, name).is_none() => Some(format!("no {name}")),
        Expected::Is(name, values) => {
            let value = field(&got.head, name).unwrap_or_default();
            (!values.contains(&value)).then(|| format!("{name} is `{value}`"))
        }
        Expected::Content(content) if got.content != *content => {
            Some(format!("the content is `{}`", got.content))
        }
        Expected::Sent(line) => {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            let has_it = |head: &String| field(head, name).is_some_and(|own| own == value);
            (!seen.iter().any(has_it)).then(|| format!("the origin saw no {line}"))
        }
        Expected::Lacks(name) => {
            let has_it = !is_asked && field(&got.head, name).is_some();
            has_it.then(|| format!("{name} is given again"))
        }
        _ => None,
    }
}
