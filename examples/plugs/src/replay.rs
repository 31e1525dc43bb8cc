//! Tunnels of bytes that go on by another path: a token, a replay window, and eight bytes each way that say what has arrived.
//!
//! It shows what a [`Mover`] has to do, and is no protocol to use: acknowledgements do not travel here, but are told by a function, and
//! anyone who knows a token is believed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use hermes_http::{Frame, Incoming, Outgoing, StreamError};
use hermes_plug::{Movable, Mover, NewPath, Position, Resuming};
use hermes_proto::fields::Fields;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;

/// The field: `?1` asks for a token, a token for its tunnel.
pub const FIELD: HeaderName = HeaderName::from_static("example-replay");

/// Makes tunnels movable whose far end answers with a token.
pub struct Replaying {
    /// Bytes of each tunnel that may be sent before some are acknowledged.
    window: usize,
    acknowledged: Arc<Acknowledged>,
}

/// What the far ends have, by token.
#[derive(Default)]
pub struct Acknowledged(Mutex<HashMap<String, (u64, Option<Waker>)>>);

impl Acknowledged {
    /// The far end of this tunnel has so many bytes.
    pub fn tell(&self, token: &str, bytes: u64) {
        let mut tunnels = self.0.lock();
        let entry = tunnels.entry(token.to_owned()).or_default();
        entry.0 = bytes;
        if let Some(waker) = entry.1.take() {
            waker.wake();
        }
    }
}

impl Replaying {
    /// Keeps so many bytes of each tunnel.
    pub fn new(window: usize, acknowledged: Arc<Acknowledged>) -> Self {
        Self {
            window,
            acknowledged,
        }
    }
}

impl Mover for Replaying {
    fn ask(&self, fields: &mut Fields) {
        fields.insert(FIELD, HeaderValue::from_static("?1"));
    }

    fn opened(&self, fields: &mut Fields) -> Option<Box<dyn Movable>> {
        let token = fields.take(FIELD)?;
        Some(Box::new(Replay {
            token: token.to_str().ok()?.to_owned(),
            window: self.window,
            acknowledged: self.acknowledged.clone(),
            kept: VecDeque::new(),
            first: 0,
            next: 0,
        }))
    }
}

/// One tunnel.
struct Replay {
    token: String,
    window: usize,
    acknowledged: Arc<Acknowledged>,
    /// What was sent and is not acknowledged.
    kept: VecDeque<Bytes>,
    /// Where that begins, and where it ends.
    first: u64,
    next: u64,
}

impl Replay {
    /// Forgets what is before this byte.
    fn forget(&mut self, before: u64) {
        while self.first < before {
            let Some(piece) = self.kept.front_mut() else {
                return;
            };
            let gone = piece.len().min((before - self.first) as usize);
            piece.advance(gone);
            self.first += gone as u64;
            if piece.is_empty() {
                self.kept.pop_front();
            }
        }
    }

    async fn resumed(
        &mut self,
        path: NewPath,
        at: Position,
    ) -> Result<(Incoming, Outgoing), String> {
        let NewPath {
            mut incoming,
            mut outgoing,
            ..
        } = path;
        let broke = |error: StreamError| error.to_string();
        let position = Bytes::copy_from_slice(&at.target_to_client.to_be_bytes());
        outgoing.data(position, false).await.map_err(broke)?;
        outgoing.flush().await.map_err(broke)?;

        let arrived = position_of(&mut incoming).await?;
        if !(self.first..=self.next).contains(&arrived) {
            return Err(format!(
                "the far end wants byte {arrived}, which is not kept"
            ));
        }
        self.forget(arrived);
        for piece in &self.kept {
            outgoing.data(piece.clone(), false).await.map_err(broke)?;
        }
        outgoing.flush().await.map_err(broke)?;
        Ok((incoming, outgoing))
    }
}

/// The position that comes first on a new path.
async fn position_of(incoming: &mut Incoming) -> Result<u64, String> {
    let mut read = BytesMut::new();
    while read.len() < 8 {
        match incoming.frame().await {
            Some(Ok(Frame::Data(data))) => read.extend_from_slice(&data),
            Some(Ok(Frame::Trailers(_))) => {}
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("the far end said nothing".to_owned()),
        }
    }
    let position = read.get_u64();
    if !read.is_empty() {
        incoming.unread(read.freeze());
    }
    Ok(position)
}

impl Movable for Replay {
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let acknowledged = self.acknowledged.clone();
        let mut tunnels = acknowledged.0.lock();
        let (arrived, waker) = tunnels.entry(self.token.clone()).or_default();
        self.forget(*arrived);
        let taken = (self.next - self.first) as usize;
        if taken < self.window {
            return Poll::Ready(self.window - taken);
        }
        *waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn keep(&mut self, bytes: &Bytes) {
        self.next += bytes.len() as u64;
        self.kept.push_back(bytes.clone());
    }

    fn delivered(&mut self, _: u64) {}

    fn ask(&self, fields: &mut Fields) {
        if let Ok(token) = HeaderValue::try_from(&self.token) {
            fields.insert(FIELD, token);
        }
    }

    fn resume(&mut self, path: NewPath, at: Position) -> Resuming<'_> {
        Box::pin(self.resumed(path, at))
    }
}
