//! One message that is shown to a scanner.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, Outgoing, RequestHead, ResponseHead, StreamError, pipe};
use hermes_net::WriteHalf;
use hermes_plug::refusal::Refusal;
use hermes_proto::h1::{self, BodyDecoder, BodyEvent, Framing, MessageLimits};
use hermes_proto::proxy_status::ProxyError;
use http::HeaderName;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::connection::{IcapHead, IcapReader, connect, invalid, write_chunk};
use super::heads::{self, GivenHead};
use super::preview::Previewed;
use super::scanner::{Held, Scanner, misspoken};
use crate::need::Need;

/// A message that is to be judged.
pub(super) struct Question {
    heads: ShownHeads,
    content: Incoming,
    length: Option<u64>,
}

/// Its heads, as a scanner is shown them.
struct ShownHeads {
    method: &'static str,
    /// The heads, one after the other.
    heads: BytesMut,
    /// Where they begin, as ICAP says it.
    places: String,
    /// The name of the content's place.
    body: &'static str,
}

/// Its first bytes, as a scanner is shown them.
struct ShownBytes {
    bytes: Bytes,
    /// Whether they are a preview.
    is_preview: bool,
    /// Whether they are all.
    is_whole: bool,
}

/// A scanner's answer.
pub(super) enum Verdict {
    /// The message goes on as it is, with this content.
    Unchanged(Incoming),
    /// The request goes on like this.
    Request(h1::RequestHead, Incoming),
    /// The client gets this answer.
    Answer(ResponseHead, Incoming),
}

impl Question {
    /// May this request leave?
    pub(super) fn of_request(head: &RequestHead, content: Incoming) -> Result<Self, Refusal> {
        let heads = ShownHeads {
            method: "REQMOD",
            heads: heads::request(head)?,
            places: "req-hdr=0".to_owned(),
            body: "req-body",
        };
        Ok(Self {
            heads,
            length: content.length(),
            content,
        })
    }

    /// May this answer reach the client?
    pub(super) fn of_answer(
        request: &RequestHead,
        answer: &ResponseHead,
        content: Incoming,
    ) -> Result<Self, Refusal> {
        let mut heads = heads::request(request)?;
        let places = format!("req-hdr=0, res-hdr={}", heads.len());
        let length = content.length();
        heads.extend_from_slice(&heads::answer(answer, length)?);
        let heads = ShownHeads {
            method: "RESPMOD",
            heads,
            places,
            body: "res-body",
        };
        Ok(Self {
            heads,
            length,
            content,
        })
    }

    fn is_empty(&self) -> bool {
        self.length == Some(0) || self.content.is_end()
    }
}

/// A message on its way to a scanner.
pub(super) struct Transaction<'a> {
    pub(super) scanner: &'a Scanner,
    pub(super) held: &'a Held,
}

/// The scanner, after it has seen the preview.
struct Seen {
    read: IcapReader,
    write: WriteHalf,
    head: IcapHead,
}

impl Transaction<'_> {
    /// Has a message judged.
    ///
    /// # Errors
    /// The scanner is away, silent, or speaks no ICAP; the content broke.
    pub(super) async fn judge(&self, question: Question) -> Result<Verdict, Refusal> {
        let options = self.in_time(
            self.scanner
                .options
                .of(&self.scanner.to, &self.scanner.service),
        );
        let options = match options.await {
            Ok(options) => options,
            Err(_) if self.scanner.need == Need::Best => {
                return Ok(Verdict::Unchanged(question.content));
            }
            Err(error) => return Err(self.failed(&error)),
        };

        let is_empty = question.is_empty();
        let wanted = options.preview.filter(|_| !is_empty).unwrap_or(0);
        let Question {
            heads,
            content,
            length,
        } = question;
        let taken = Previewed::take(content, wanted).await;
        let previewed = taken.map_err(|error| Refusal::of_stream(&error, ""))?;
        let first = ShownBytes {
            bytes: previewed.shown(),
            is_preview: options.preview.is_some() && !is_empty,
            is_whole: previewed.is_shown(),
        };
        match self.in_time(self.show(heads, first)).await {
            Ok(seen) => self.heard(seen, previewed, length).await,
            // Nothing has gone on yet.
            Err(_) if self.scanner.need == Need::Best => Ok(Verdict::Unchanged(
                previewed.whole(length, &self.held.opener),
            )),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Sends heads and preview; waits for the first answer.
    async fn show(&self, shown: ShownHeads, first: ShownBytes) -> io::Result<Seen> {
        let Scanner { to, service, .. } = self.scanner;
        let (mut read, mut write) = connect(to).await?;
        let body = match first.is_whole && first.bytes.is_empty() {
            true => "null-body",
            false => shown.body,
        };
        let preview = match first.is_preview {
            true => format!("Preview: {}\r\n", first.bytes.len()),
            false => String::new(),
        };
        // Only a content that is still here can go on as it was after all of it was seen.
        let allow = match first.is_whole {
            true => "Allow: 204\r\n",
            false => "",
        };
        let head = format!(
            "{} icap://{to}/{service} ICAP/1.0\r\nHost: {to}\r\nConnection: close\r\n{allow}{preview}Encapsulated: {}, {body}={}\r\n\r\n",
            shown.method,
            shown.places,
            shown.heads.len(),
        );
        let mut all = BytesMut::from(head.as_bytes());
        all.extend_from_slice(&shown.heads);
        write.write_all(&all).await?;
        if body != "null-body" {
            write_chunk(&mut write, &first.bytes).await?;
            let end: &[u8] = match (first.is_preview, first.is_whole) {
                (true, true) => b"0; ieof\r\n\r\n",
                (true, false) | (false, true) => b"0\r\n\r\n",
                (false, false) => b"",
            };
            write.write_all(end).await?;
        }
        write.flush().await?;
        if !first.is_preview && !first.is_whole {
            // Without a preview the answer may come long after the rest.
            let head = continued();
            return Ok(Seen { read, write, head });
        }
        let head = read.head().await?;
        Ok(Seen { read, write, head })
    }

    /// Acts on the answer to the preview.
    async fn heard(
        &self,
        seen: Seen,
        previewed: Previewed,
        length: Option<u64>,
    ) -> Result<Verdict, Refusal> {
        let Seen { read, write, head } = seen;
        match head.status {
            204 => Ok(Verdict::Unchanged(
                previewed.whole(length, &self.held.opener),
            )),
            100 if !previewed.is_shown() => {
                let sent = Arc::new(AtomicU64::new(0));
                let upload = Box::pin(upload(write, previewed, sent.clone()));
                self.after_all(read, upload, &sent).await
            }
            100 => Err(misspoken("asks for more than there is")),
            200 => self.given(read, head, None).await,
            status => Err(misspoken(&format!("answers with {status}"))),
        }
    }

    /// Sends the rest of the content, and waits for the last answer meanwhile.
    async fn after_all(
        &self,
        mut read: IcapReader,
        mut upload: Upload,
        sent: &AtomicU64,
    ) -> Result<Verdict, Refusal> {
        let mut uploading = true;
        let mut before = 0;
        let head = loop {
            tokio::select! {
                head = read.head() => break head.map_err(|error| self.failed(&error))?,
                ended = &mut upload, if uploading => {
                    uploading = false;
                    if let Err(Uploading::Content(error)) = ended {
                        return Err(Refusal::of_stream(&error, ""));
                    }
                }
                () = tokio::time::sleep(self.scanner.silence) => {
                    let now = sent.load(Ordering::Relaxed);
                    if now == before {
                        return Err(self.failed(&silent()));
                    }
                    before = now;
                }
            }
        };
        match head.status {
            200 => self.given(read, head, uploading.then_some(upload)).await,
            // The content has gone on to the scanner, and is not here any more (RFC 3507, 4.6).
            status => Err(misspoken(&format!(
                "answers with {status} after the preview"
            ))),
        }
    }

    /// The message that the scanner gives in place of ours.
    async fn given(
        &self,
        mut read: IcapReader,
        head: IcapHead,
        upload: Option<Upload>,
    ) -> Result<Verdict, Refusal> {
        let places = Places::of(&head).ok_or_else(|| misspoken("does not say what it gives"))?;
        let reading = read.exactly(places.body);
        let mut text = self
            .in_time(reading)
            .await
            .map_err(|error| self.failed(&error))?;
        // A scanner may say again which request it was.
        let _ = text.split_to(places.head.min(text.len()));
        let given = match places.is_answer {
            true => heads::read_answer(&mut text)?,
            false => heads::read_request(&mut text)?,
        };

        let length = match &given {
            GivenHead::Answer(_, Framing::Length(length)) if places.has_body => Some(*length),
            _ if places.has_body => None,
            _ => Some(0),
        };
        let content = match places.has_body {
            false => Incoming::Empty,
            true => {
                let (outgoing, incoming) = pipe(length);
                let download = Download {
                    read,
                    outgoing,
                    length,
                    silence: self.scanner.silence,
                    _held: self.held.clone(),
                };
                self.held.opener.spawn(download.run(upload));
                incoming
            }
        };
        Ok(match given {
            GivenHead::Request(head) => Verdict::Request(head, content),
            GivenHead::Answer(head, _) => Verdict::Answer(head, content),
        })
    }

    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let done = timeout(self.scanner.silence, step).await;
        done.unwrap_or_else(|_| Err(silent()))
    }

    fn failed(&self, error: &io::Error) -> Refusal {
        let details = format!("the scanner at {}: {error}", self.scanner.to);
        let kind = match error.kind() {
            io::ErrorKind::TimedOut => ProxyError::HttpResponseTimeout,
            io::ErrorKind::ConnectionRefused => ProxyError::ConnectionRefused,
            _ => ProxyError::ConnectionTerminated,
        };
        Refusal::new(kind, details)
    }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it is silent")
}

/// The answer that stands for the wish to see everything.
fn continued() -> IcapHead {
    IcapHead {
        status: 100,
        fields: hermes_proto::fields::Fields::new(),
    }
}

/// The rest of a content on its way to a scanner.
type Upload = Pin<Box<dyn Future<Output = Result<(), Uploading>> + Send>>;

/// Why the rest of a content did not reach the scanner.
enum Uploading {
    /// The content broke.
    Content(StreamError),
    /// The scanner takes no more: it may have decided.
    Scanner,
}

async fn upload(
    mut write: WriteHalf,
    content: Previewed,
    sent: Arc<AtomicU64>,
) -> Result<(), Uploading> {
    let unseen = write_chunk(&mut write, &content.unseen()).await;
    unseen.map_err(|_| Uploading::Scanner)?;
    // Empty, where the bytes that were taken are all.
    let mut rest = content.rest;
    loop {
        match rest.frame().await {
            Some(Ok(Frame::Data(data))) => {
                let written = write_chunk(&mut write, &data).await;
                written.map_err(|_| Uploading::Scanner)?;
                sent.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            Some(Ok(Frame::Trailers(_))) | None => break,
            Some(Err(error)) => return Err(Uploading::Content(error)),
        }
    }
    let ended = async {
        write.write_all(b"0\r\n\r\n").await?;
        write.flush().await
    };
    ended.await.map_err(|_| Uploading::Scanner)
}

/// The content that a scanner gives.
struct Download {
    read: IcapReader,
    outgoing: Outgoing,
    /// Its length, where its head tells.
    length: Option<u64>,
    silence: Duration,
    _held: Held,
}

impl Download {
    /// Passes it on, while the rest of ours is still sent. A content that breaks on either side ends early for the client, too.
    async fn run(mut self, upload: Option<Upload>) {
        let passed = match upload {
            None => self.pass().await,
            Some(mut upload) => {
                let mut passing = Box::pin(self.pass());
                tokio::select! {
                    passed = &mut passing => passed,
                    ended = &mut upload => match ended {
                        Ok(()) | Err(Uploading::Scanner) => passing.await,
                        Err(Uploading::Content(_)) => Err(invalid("the content broke")),
                    },
                }
            }
        };
        match passed {
            Ok(()) => {
                let _ = self.outgoing.finish(None).await;
            }
            Err(error) => tracing::debug!(%error, "an answer of a scanner broke"),
        }
    }

    async fn pass(&mut self) -> io::Result<()> {
        let mut decoder = BodyDecoder::new(Framing::Chunked, &MessageLimits::of_responses());
        // A client takes the length of the head for true, so the content has to keep it.
        let mut left = self.length;
        loop {
            match decoder.decode(&mut self.read.buffer) {
                Ok(Some(BodyEvent::Data(data))) => {
                    left = fewer(left, &data)?;
                    let sent = self.outgoing.data(data, false).await;
                    sent.map_err(|_| invalid("the client is gone"))?;
                }
                Ok(Some(BodyEvent::End | BodyEvent::Trailers(_))) => {
                    return match left {
                        None | Some(0) => Ok(()),
                        Some(_) => Err(invalid("it gives less than it says")),
                    };
                }
                Ok(None) => {
                    let more = timeout(self.silence, self.read.more()).await;
                    if !more.unwrap_or_else(|_| Err(silent()))? {
                        return Err(invalid("it ended in the midst of a content"));
                    }
                }
                Err(_) => return Err(invalid("its content is malformed")),
            }
        }
    }
}

/// The bytes that are left of a length after these.
fn fewer(left: Option<u64>, data: &Bytes) -> io::Result<Option<u64>> {
    let Some(left) = left else { return Ok(None) };
    let rest = left.checked_sub(data.len() as u64);
    let rest = rest.ok_or_else(|| invalid("it gives more than it says"))?;
    Ok(Some(rest))
}

/// The parts of what a scanner gives (RFC 3507, 4.4.1).
#[derive(Debug, PartialEq, Eq)]
struct Places {
    /// Where the head begins that counts.
    head: usize,
    /// Where the content begins.
    body: usize,
    is_answer: bool,
    has_body: bool,
}

impl Places {
    fn of(head: &IcapHead) -> Option<Self> {
        let listed = head.fields.get(HeaderName::from_static("encapsulated"))?;
        Self::parse(listed.to_str().ok()?)
    }

    fn parse(listed: &str) -> Option<Self> {
        let mut request = None;
        let mut answer = None;
        let mut body = None;
        for part in listed.split(',').take(4) {
            let (name, place) = part.trim().split_once('=')?;
            let place: usize = place.trim().parse().ok()?;
            match name.trim() {
                "req-hdr" => request = Some(place),
                "res-hdr" => answer = Some(place),
                "req-body" | "res-body" => body = Some((place, true)),
                "null-body" => body = Some((place, false)),
                _ => return None,
            }
        }
        let (body, has_body) = body?;
        let head = answer.or(request)?;
        (head < body).then_some(Self {
            head,
            body,
            is_answer: answer.is_some(),
            has_body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_hostile_ones_are_not() {
        let both = Places::parse("req-hdr=0, res-hdr=120, res-body=300");
        let expected = Places {
            head: 120,
            body: 300,
            is_answer: true,
            has_body: true,
        };
        assert_eq!(both, Some(expected));
        for hostile in [
            "",
            "res-hdr=9, null-body=3",
            "res-hdr=-1, null-body=3",
            "opt-body=0",
            "res-body=0",
            "res-hdr=0",
            "res-hdr=0, res-body=99999999999999999999",
        ] {
            assert_eq!(Places::parse(hostile), None, "{hostile}");
        }
    }
}
