//! Passes the events of a connection's machine to the owners of its streams, and to the driver.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_net::memory::ExchangeCharge;
use hermes_proto::fields::Fields;
use hermes_proto::h2::{Event, Failure, Reason};
use hermes_proto::h3::Priority;
use hermes_proto::head::RequestHead;
use http::StatusCode;

use super::handle::StreamHandle;
use super::inbox::Inbox;
use super::shared::{Core, Joint};
use crate::error::NO_ROOM;

/// An event for the driver itself.
#[derive(Debug)]
pub(crate) enum News {
    /// An exchange is offered.
    Request(StreamHandle, ChargedRequest, bool),
    /// A request is to be refused with a status and the reason.
    Refuse(StreamHandle, StatusCode, Cow<'static, str>),
    /// The peer's SETTINGS have come.
    Settled,
    /// The peer takes no more streams, for this reason.
    Goaway(Reason),
    /// Another connection should take over.
    Retire,
    /// The window of each stream should be this many bytes.
    Grow(u32),
}

/// A request, and its charge.
#[derive(Debug)]
pub(crate) struct ChargedRequest {
    pub(crate) head: RequestHead,
    pub(crate) charge: ExchangeCharge,
}

impl Joint {
    /// Passes the machine's events to the streams, and the rest to the driver.
    pub(crate) fn dispatch(self: &Arc<Self>, core: &mut Core, news: &mut VecDeque<News>) {
        while let Some(event) = core.machine.poll_event() {
            match event {
                Event::Request {
                    stream,
                    request,
                    end,
                } => {
                    if let Some(news_of_it) = self.requested(core, stream, request, end) {
                        news.push_back(news_of_it);
                    }
                }
                Event::Refuse {
                    stream,
                    status,
                    words,
                } => {
                    let handle = self.adopt(core, stream);
                    news.push_back(News::Refuse(handle, status, words));
                }
                Event::Openable => self.openable.notify_one(),
                Event::Settled => news.push_back(News::Settled),
                Event::Pong => {
                    self.pongs.fetch_add(1, Ordering::Relaxed);
                    self.answered.notify_waiters();
                }
                Event::Goaway { reason } => {
                    self.openable.notify_waiters();
                    news.push_back(News::Goaway(reason));
                }
                Event::Retire => news.push_back(News::Retire),
                Event::PriorityUpdate { stream, signal } => {
                    core.updated(stream, signal.over(Priority::default()));
                }
                event => self.deliver(core, event),
            }
        }
    }

    /// Takes a request in, if there is room for it.
    fn requested(
        self: &Arc<Self>,
        core: &mut Core,
        stream: u32,
        head: RequestHead,
        end: bool,
    ) -> Option<News> {
        // REFUSED_STREAM: nothing was processed, so that the client may send the request again (RFC 9113, 8.7).
        let Ok(charge) = self.charges.arrive(head.footprint()) else {
            core.machine.refuse(stream);
            return None;
        };

        let handle = self.adopt(core, stream);
        core.requested(stream, &head);
        if end && let Some(inbox) = core.inboxes.get_mut(&stream) {
            inbox.end = Some(None);
        } else {
            self.arrivals.open(stream, 0);
        }

        let request = ChargedRequest { head, charge };
        Some(News::Request(handle, request, end))
    }

    /// Charges fields that came on a stream and wait for its owners.
    ///
    /// # Errors
    /// There is no room for them.
    fn charge(&self, inbox: &mut Inbox, fields: &Fields) -> Result<(), Failure> {
        let bytes = fields.footprint();
        let charged = match &mut inbox.charge {
            Some(charge) => charge.add(bytes),
            none => self.charges.add(bytes).map(|charge| {
                *none = Some(charge);
            }),
        };

        charged.map_err(|_| Failure::Broken(Reason::ENHANCE_YOUR_CALM, NO_ROOM.into()))
    }

    /// Passes a stream's event to its owners.
    fn deliver(&self, core: &mut Core, event: Event) {
        let stream = match &event {
            Event::Response { stream, .. }
            | Event::Data { stream, .. }
            | Event::End { stream, .. }
            | Event::Failed { stream, .. }
            | Event::Writable { stream } => *stream,
            _ => return,
        };

        let Some(inbox) = core.inboxes.get_mut(&stream) else {
            if let Event::Data { data, .. } = event {
                // Without an owner, the credit goes back at once: otherwise the window of the
                // connection would run dry.
                core.machine.release(stream, data.len() as u32);
            }
            return;
        };

        match event {
            Event::Response { response, end, .. } => {
                // Content follows a final response alone (RFC 9113, 8.1).
                if !response.status.is_informational() {
                    if end {
                        inbox.end = Some(None);
                    } else {
                        self.arrivals.open(stream, 0);
                    }
                }

                let taken = inbox.heads.count(&response);
                match taken.and_then(|()| self.charge(inbox, &response.fields)) {
                    Ok(()) => {
                        inbox.heads.push(response, end);
                        Inbox::wake(&mut inbox.opener);
                    }
                    Err(failure) => core.give_up(stream, failure),
                }
            }
            Event::Data { data, .. } => {
                // Counted before the reader wakes, who counts the bytes off.
                self.arrivals.came(stream, data.len());
                inbox.data.push(data);
                Inbox::wake(&mut inbox.reader);
            }
            Event::End { trailers, .. } => {
                let charged = match &trailers {
                    Some(fields) => self.charge(inbox, fields),
                    None => Ok(()),
                };
                match charged {
                    Ok(()) => {
                        inbox.end = Some(trailers);
                        Inbox::wake(&mut inbox.reader);
                    }
                    Err(failure) => core.give_up(stream, failure),
                }
            }
            Event::Failed { failure, .. } => {
                // The first failure is the cause; later ones follow from it.
                inbox.failure.get_or_insert(failure);
                inbox.wake_all();
            }
            _ => Inbox::wake(&mut inbox.writer),
        }
    }

    /// The first handle of a stream.
    pub(crate) fn adopt(self: &Arc<Self>, core: &mut Core, stream: u32) -> StreamHandle {
        let inbox = Inbox {
            handles: 1,
            ..Inbox::default()
        };

        core.inboxes.insert(stream, inbox);
        StreamHandle {
            joint: self.clone(),
            stream,
        }
    }
}
