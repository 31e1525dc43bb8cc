//! The server side of an HTTP/2 connection: all exchanges at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::memory::{Account, Arrivals, Memory};
use hermes_net::{Stream, StreamInfo, Watch};
use hermes_proto::h2::{ConnectionOptions, FieldSectionLimits, Reason, Role};
use http::header::EXPECT;
use http::{Method, StatusCode};

use super::options::{Handler, Options};
use crate::error::NO_ROOM;
use crate::exchanges::{Active, Exchanges};
use crate::h2::dispatch::{ChargedRequest, News};
use crate::h2::drive::ConnectionDriver;
use crate::h2::handle::StreamHandle;
use crate::h2::keepalive::silence;
use crate::h2::profile::{Profile, remembered_streams};
use crate::h2::shared::Joint;
use crate::h2::windows::{self, Windows};
use crate::h2::{
    FRAME_SIZE, HEADER_TABLE, PUBLIC_FRAME_SIZE, PUBLIC_WINDOW, SEND_BUFFER, STREAM_WINDOW,
    StreamReceiver, convert,
};
use crate::link_ends;
use crate::pace::Pace;
use crate::responders::StreamResponder;
use crate::{Incoming, Offered, Responder};

/// Offers the exchanges of a connection until it ends.
pub(crate) async fn serve<H: Handler>(
    mut stream: Stream,
    source: Arc<StreamInfo>,
    options: &Options,
    handler: H,
    watch: &Watch,
) {
    if options.link {
        stream.batch_records();
    }
    let account = Account::open(&source);
    let joint = Joint::new(machine_options(options), &Arrivals::of(&account));
    let mut driver = ConnectionDriver::new(stream, &joint);
    joint.core().is_one_client = !options.link;
    if options.link {
        driver = driver.measuring();
    } else {
        driver = driver.guarded(options.head_time);
    }
    // The preface and SETTINGS come first (RFC 9113, 3.4): a client that sends neither is not waited for.
    let settled = tokio::time::timeout(options.head_time, driver.next());
    let Ok(Some(first)) = settled.await else {
        return;
    };

    let mut serving = Serving {
        driver,
        silent: silence(&joint, options.keepalive),
        windows: Windows::new(&account, options.streams),
        joint,
        account,
        active: Arc::default(),
        is_draining: false,
        offers: Offers {
            source,
            options,
            handler,
            watch,
        },
    };

    let mut news = Some(first);
    while let Some(what) = news {
        serving.take(what);
        news = serving.next().await;
    }
}

/// A connection that is served.
struct Serving<'a, H> {
    driver: ConnectionDriver<Stream>,
    joint: Arc<Joint>,
    account: Arc<Account>,
    silent: Pin<Box<dyn Future<Output = ()> + Send>>,
    windows: Windows,
    active: Arc<Exchanges>,
    is_draining: bool,
    offers: Offers<'a, H>,
}

/// How exchanges are offered.
struct Offers<'a, H> {
    source: Arc<StreamInfo>,
    options: &'a Options,
    handler: H,
    watch: &'a Watch,
}

impl<H: Handler> Serving<'_, H> {
    /// Goes on until there is something to take; `None` at the end.
    async fn next(&mut self) -> Option<News> {
        let options = self.offers.options;
        let watch = self.offers.watch;
        loop {
            tokio::select! {
                news = self.driver.next() => {
                    if news.is_none() {
                        self.explain_end();
                    }
                    return news;
                }
                () = watch.graceful(), if !self.is_draining => self.drain(),
                () = watch.forced() => return None,
                () = &mut self.silent => return None,
                change = self.windows.change(), if options.link => self.windows.apply(&self.joint, change),
                () = self.account.ended() => {
                    self.calm().await;
                    return None;
                }
                // A client that does not answer the farewell is not waited for.
                () = self.active.none_for(FAREWELL), if self.is_draining => return None,
                () = self.active.none_for(options.idle_time), if !self.is_draining => self.drain(),
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Request(stream, request, end) => {
                // Before the exchange's task runs: the connection must not look idle in between.
                let active = Active::enter(&self.active);
                self.offers.offer(stream, request, end, active);
            }
            News::Refuse(stream, status, words) => self.offers.refuse(&stream, status, &words),
            News::Retire => self.drain(),
            News::Grow(window) => self.windows.grow(window),
            News::Goaway(reason) if self.offers.options.link => {
                link_ends::tell_goaway(&self.offers.source.peer, reason);
            }
            News::Settled | News::Goaway(_) => {}
        }
    }

    fn drain(&mut self) {
        self.is_draining = true;
        self.joint.tell(|machine| machine.shut_down());
    }

    /// Ends a connection that holds too much.
    async fn calm(&mut self) {
        self.joint
            .tell(|machine| machine.abort(Reason::ENHANCE_YOUR_CALM, "too much is held"));
        // GOAWAY with the reason still leaves, if the client takes it.
        let _ = tokio::time::timeout(FAREWELL, self.driver.run()).await;
    }

    fn explain_end(&self) {
        if let Some(error) = self.joint.core().machine.failure() {
            let peer = &self.offers.source.peer;
            if self.offers.options.link {
                link_ends::tell_own(2, peer, &error);
            }
            if error.words == NO_ROOM {
                // A line of its own: those of one kind about one peer are few.
                tracing::warn!(%peer, "connection ended: {NO_ROOM}");
            } else if error.reason == Reason::ENHANCE_YOUR_CALM {
                tracing::warn!(%peer, "connection ended: {}", error.words);
            } else {
                tracing::debug!(%peer, %error, "HTTP/2 connection ended");
            }
        }
    }
}

/// How long a client may take to answer a GOAWAY when nothing else is open.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(2);

/// Room for all streams of a stranger's connection together, in bytes.
fn public_window() -> u32 {
    u32::try_from(Memory::node().connection()).map_or(PUBLIC_WINDOW, |most| most.min(PUBLIC_WINDOW))
}

fn machine_options(options: &Options) -> ConnectionOptions {
    let profile = if options.link {
        Profile::link
    } else {
        Profile::public
    }(options.streams);
    ConnectionOptions {
        role: Role::Server,
        stream_window: STREAM_WINDOW,
        connection_window: if options.link {
            windows::of_link()
        } else {
            public_window()
        },
        frame_size: if options.link {
            FRAME_SIZE
        } else {
            PUBLIC_FRAME_SIZE
        },
        section: FieldSectionLimits {
            bytes: options.head.head_bytes,
            lines: options.head.fields,
        },
        trailers: options.head.trailer_bytes,
        table: if options.link { HEADER_TABLE } else { 0 },
        streams: options.streams,
        queue: SEND_BUFFER,
        remembered: remembered_streams(options.streams),
        budgets: profile.budgets(),
    }
}

impl<H: Handler> Offers<'_, H> {
    fn offer(&self, stream: StreamHandle, request: ChargedRequest, end: bool, active: Active) {
        let options = self.options;
        let ChargedRequest { head, charge } = request;
        let expects = head.fields.contains_key(EXPECT);
        let (pace, answered) = Pace::of_content(options.min_rate, expects);
        let mut incoming = StreamReceiver::new(stream.clone(), &head.fields, end);

        // A tunnel may be as quiet as its ends like.
        if head.method != Method::CONNECT {
            incoming.pace(pace);
        }
        let incoming = Incoming::H2(incoming);
        let is_head = head.method == Method::HEAD;

        let responder = StreamResponder {
            stream,
            is_head,
            websocket: crate::websocket::key_of(&head),
            min_rate: options.min_rate,
            answered,
        };

        let responder = Responder::H2(responder);
        let mut offered = Offered::new(head, self.source.clone(), incoming, responder);
        offered.charge(charge);
        let handler = self.handler.clone();
        self.watch.spawn(async move {
            let _active = active;
            handler.handle(offered).await;
        });
    }

    fn refuse(&self, stream: &StreamHandle, status: StatusCode, words: &str) {
        let answer = self.handler.malformed(status, words, &self.source);
        // A failure means that the client is gone, or the answer cannot be written.
        let _ = stream.tell(|machine, stream| {
            machine.respond(stream, &convert::response_parts(&answer), true)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bytes::{Bytes, BytesMut};
    use hermes_net::PeerAddress;
    use hermes_net::memory::Part;
    use hermes_proto::fields::Fields;
    use hermes_proto::h2::{FRAME_HEAD, FrameBatch, FrameHead, FrameKind, HeadParts, PREFACE};

    use super::*;
    use crate::h2::piece::Piece;

    fn frame(kind: FrameKind, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let head = FrameHead {
            length: content.len() as u32,
            kind,
            flags,
            stream,
        };
        [&head.encode()[..], content].concat()
    }

    /// `GET http://a/`, with this priority.
    fn get(stream: u32, priority: &str) -> Vec<u8> {
        let length = priority.len() as u8;
        let section = [
            b"\x82\x86\x84\x01\x01a\x00\x08priority",
            &[length][..],
            priority.as_bytes(),
        ];
        frame(FrameKind::Headers, 5, stream, &section.concat())
    }

    fn update(stream: u32, priority: &str) -> Vec<u8> {
        let content = [&stream.to_be_bytes()[..], priority.as_bytes()].concat();
        frame(FrameKind::PriorityUpdate, 0, 0, &content)
    }

    /// The streams of the first DATA frames, of three that are answered at once; `said` are the
    /// client's bytes.
    fn order(link: bool, said: &[Vec<u8>]) -> Vec<u32> {
        let options = Options {
            link,
            ..Options::default()
        };
        let info = StreamInfo {
            peer: PeerAddress::Unix { uid: None },
            local: None,
            tls: None,
            origin: None,
        };
        let account = Account::open(&Arc::new(info));
        let joint = Joint::new(machine_options(&options), &Arrivals::of(&account));
        let mut core = joint.core();
        core.is_one_client = !link;

        let greeting = [&PREFACE[..], &frame(FrameKind::Settings, 0, 0, b"")].concat();
        let mut input = BytesMut::from(&[greeting, said.concat()].concat()[..]);
        let now = std::time::Instant::now();
        core.machine.handle(&mut input, now);
        let mut news = VecDeque::new();
        joint.dispatch(&mut core, &mut news);
        for stream in [1, 3, 5] {
            let fields = Fields::new();
            let head = HeadParts::Response(StatusCode::OK, &fields);
            core.machine.respond(stream, &head, false).unwrap();
            let piece = Piece::new(
                Bytes::from(vec![7; 20_000]),
                Part::of(&account).hold(20_000),
            );
            core.machine.send(stream, piece, true).unwrap();
        }

        let mut bytes = Vec::new();
        while core.machine.has_output() {
            let mut batch = FrameBatch::default();
            core.machine.transmit(&mut batch);
            bytes.extend(batch.take());
        }
        drop(core);
        let mut rest = &bytes[..];
        let mut order = Vec::new();
        while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD>() {
            let head = FrameHead::decode(head);
            if head.kind == FrameKind::Data && !order.contains(&head.stream) {
                order.push(head.stream);
            }
            rest = &after[head.length as usize..];
        }
        order
    }

    #[test]
    fn responses_leave_in_the_order_that_their_client_asks_for() {
        let requests = [get(1, "u=5"), get(3, "u=2"), get(5, "u=2")];
        assert_eq!(order(false, &requests), [3, 5, 1]);

        let updated = [&[update(5, "u=0")][..], &requests, &[update(1, "u=1")]].concat();
        assert_eq!(order(false, &updated), [5, 1, 3]);
    }

    #[test]
    fn no_user_of_a_link_goes_before_another() {
        let requests = [get(1, "u=5"), get(3, "u=2"), get(5, "u=0")];
        assert_eq!(order(true, &requests), [1, 3, 5]);
    }
}
