//! `hermes subscribe URL`: the messages of a channel, until it ends or is stopped.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::relay::fields::{SUBSCRIBE, Subscribe as SubscribeField, Subscribed};
use hermes_proto::relay::{Adu, End, Gap, MEDIA_TYPE, Position, RelayFrame};
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::connection::{ChannelAddress, Trouble, fields, path};
use crate::failure::Failure;
use crate::output::{Output, note};

/// Bytes of one capsule: the longest message and its labels.
#[doc(alias = "bound")]
const MAX_CAPSULE: u64 = (16 << 20) + 1024;

/// The first wait before another attempt; each is twice the one before, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait before another attempt.
#[doc(alias = "bound")]
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Milliseconds in which subscribers come to another relay.
const SPREAD: u64 = 200;

/// Arguments of `hermes subscribe`.
#[derive(Debug, Args)]
pub struct Subscribe {
    #[command(flatten)]
    address: ChannelAddress,
    /// Seconds that the subscription is to last; as the relay likes if absent.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// End after so many messages.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

/// A subscriber that comes again when its stream breaks off.
struct Subscriber<'a> {
    arguments: &'a Subscribe,
    output: Output,
    /// The channel: another one than that of the arguments, once it has moved.
    url: Uri,
    /// The path of the channel, or of the subscription once there is one.
    path: String,
    at: Option<Position>,
    received: u64,
    /// The silence after which the relay is doubted.
    silence: Duration,
}

/// How a stream went.
enum Ended {
    /// It is over: enough messages, or the relay says so.
    Done,
    /// It broke off.
    Broken(String),
    /// It goes on at this URL.
    Moved(Uri),
}

/// Prints messages as lines, or with `--json` as objects.
///
/// # Errors
/// The relay refuses, or is not there at the first attempt.
pub async fn run(subscribe: &Subscribe, output: Output) -> Result<(), Failure> {
    let mut subscriber = Subscriber {
        arguments: subscribe,
        output,
        url: subscribe.address.url().clone(),
        path: path(subscribe.address.url()),
        at: None,
        received: 0,
        silence: MAX_WAIT,
    };
    let mut wait = FIRST_WAIT;
    loop {
        let received = subscriber.received;
        let reason = match subscriber.stream().await {
            Ok(Ended::Done) => return Ok(()),
            Ok(Ended::Broken(reason)) => reason,
            Ok(Ended::Moved(there)) | Err(Trouble::Moved(there)) => {
                subscriber.go_to(there);
                // A subscription waits there: others come at other times.
                sleep(Duration::from_millis(fastrand::u64(..SPREAD))).await;
                continue;
            }
            // A first attempt that fails is a mistake rather than a network that comes and goes.
            Err(trouble) if subscriber.at.is_none() => return Err(trouble.failure()),
            Err(Trouble::Refused(failure)) => {
                // The subscription is over; what was missed since is told by the next one.
                subscriber.path = channel_path(&subscriber.url);
                failure.reason
            }
            Err(Trouble::Away(reason)) => reason,
        };
        if subscriber.received > received {
            wait = FIRST_WAIT;
        }
        note(format_args!("{reason}; comes again"));
        sleep(wait.mul_f32(0.5 + fastrand::f32())).await;
        wait = (wait * 2).min(MAX_WAIT);
    }
}

/// The path of the channel of a URL, which may be that of a subscription.
fn channel_path(url: &Uri) -> String {
    let whole = path(url);
    let Some((channel, query)) = whole.split_once('?') else {
        return whole;
    };
    let rest = query.split('&').filter(|part| !part.starts_with("s="));
    let rest: Vec<_> = rest.collect();
    match rest.is_empty() {
        true => channel.to_owned(),
        false => format!("{channel}?{}", rest.join("&")),
    }
}

impl Subscriber<'_> {
    /// Goes on at another relay.
    fn go_to(&mut self, there: Uri) {
        self.path = path(&there);
        self.url = there;
    }

    /// Takes one stream to its end.
    async fn stream(&mut self) -> Result<Ended, Trouble> {
        let mut connection = self.arguments.address.connect_to(&self.url).await?;
        let wish = SubscribeField {
            timeout: self.arguments.timeout,
            from: self.at,
            receivers: None,
        };
        let mut request = Request::builder()
            .uri(&self.path)
            .header(header::ACCEPT, MEDIA_TYPE);
        if let Some(value) = wish.value() {
            request = request.header(SUBSCRIBE, value);
        }
        let request = request
            .body(Full::default())
            .map_err(|error| Trouble::Refused(Failure::invalid(error.to_string())))?;
        let answer = connection.send(request).await?;
        let subscribed = Subscribed::read(&fields(answer.headers()));
        let Some(subscribed) = subscribed.ok().flatten() else {
            let url = self.arguments.address.url();
            let reason =
                format!("{url} is no channel of a relay: its answer has no Hermes-Subscribe");
            return Err(Trouble::Refused(Failure::failed(reason)));
        };
        // Two signs of life may be missed.
        self.silence = Duration::from_secs(2 * subscribed.heartbeat + 5);
        // Numbers of another life of the channel begin anew; the gap between the two is told by the relay.
        let is_same = |at: &Position| at.epoch == subscribed.at.epoch;
        self.at = self.at.filter(is_same).or(Some(subscribed.at));
        if let Some(location) = answer.headers().get(header::CONTENT_LOCATION)
            && let Ok(location) = location.to_str()
        {
            location.clone_into(&mut self.path);
        }
        Ok(self.read(answer.into_body()).await)
    }

    async fn read(&mut self, mut content: Incoming) -> Ended {
        let mut decoder = CapsuleDecoder::new(MAX_CAPSULE);
        loop {
            let data = match timeout(self.silence, content.frame()).await {
                Err(_) => return Ended::Broken("the relay is silent".to_owned()),
                Ok(None) => return Ended::Broken("the stream ended".to_owned()),
                Ok(Some(Err(error))) => return Ended::Broken(error.to_string()),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            decoder.push(data);
            loop {
                let frame = match decoder.next() {
                    Ok(None) => break,
                    Ok(Some(capsule)) => RelayFrame::decode(&capsule),
                    Err(error) => return Ended::Broken(error.to_string()),
                };
                match frame {
                    Ok(frame) => {
                        if let Some(ended) = self.take(frame) {
                            return ended;
                        }
                    }
                    Err(error) => return Ended::Broken(error.to_string()),
                }
            }
        }
    }

    /// Shows a frame; the end, if it is one.
    fn take(&mut self, frame: RelayFrame) -> Option<Ended> {
        match frame {
            RelayFrame::Adu(adu) => {
                if let Some(at) = &mut self.at {
                    at.sequence = adu.sequence;
                }
                match self.opened(adu) {
                    Some(adu) => self.show(&adu),
                    None => self.lost(1, "unreadable"),
                }
                self.received += 1;
                let is_enough = self.arguments.count == Some(self.received);
                is_enough.then_some(Ended::Done)
            }
            RelayFrame::Gap(gap) => {
                self.tell(gap);
                None
            }
            RelayFrame::End(End::Stopping, _) => {
                // The subscription ends with its relay.
                self.path = channel_path(&self.url);
                Some(Ended::Broken("the relay stops".to_owned()))
            }
            RelayFrame::End(end, text) => {
                let text = String::from_utf8_lossy(&text);
                note(format_args!(
                    "end: {} {}",
                    end.word(),
                    crate::output::safe(&text)
                ));
                Some(Ended::Done)
            }
            RelayFrame::Moved(uri) => match Uri::try_from(uri.as_ref()) {
                Ok(there) => Some(Ended::Moved(there)),
                Err(error) => Some(Ended::Broken(error.to_string())),
            },
            RelayFrame::Heartbeat(_) | RelayFrame::Unknown => None,
        }
    }

    /// The message as its publisher wrote it; `None` if it is not sealed by the key of the channel.
    fn opened(&self, adu: Adu) -> Option<Adu> {
        let Some(seal) = self.arguments.address.seal() else {
            return Some(adu);
        };
        let opened = seal.open(&adu.data)?;
        Some(Adu {
            content_type: opened.content_type,
            data: opened.data,
            ..adu
        })
    }

    fn show(&self, adu: &Adu) {
        let text = String::from_utf8_lossy(&adu.data);
        if self.output.json {
            let label = |label: &Option<bytes::Bytes>| {
                let label = label.as_ref();
                label.map(|label| String::from_utf8_lossy(label).into_owned())
            };
            // One line each: the reader takes them one by one.
            self.output.line(json!({
                "seq": adu.sequence,
                "type": label(&adu.content_type),
                "topic": label(&adu.topic),
                "data": text,
            }));
            return;
        }
        // A program that reads gets the bytes as they are; a terminal no sequences that others chose.
        if self.output.width().is_some() {
            self.output.line(crate::output::safe(&text));
        } else {
            let mut out = std::io::stdout().lock();
            let line: &[u8] = if adu.data.ends_with(b"\n") {
                b""
            } else {
                b"\n"
            };
            drop(out.write_all(&adu.data).and_then(|()| out.write_all(line)));
            drop(out.flush());
        }
    }

    fn tell(&self, gap: Gap) {
        self.lost(gap.count, gap.reason.word());
    }

    /// Says how many messages are lost; 0 if no one knows.
    fn lost(&self, count: u64, reason: &str) {
        if self.output.json {
            let gap = json!({ "gap": count, "reason": reason });
            self.output.line(gap);
        } else if count == 0 {
            note(format_args!("messages lost: {reason}"));
        } else {
            note(format_args!("{count} messages lost: {reason}"));
        }
    }
}
