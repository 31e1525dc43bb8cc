//! The smallest proxy that the crate allows: one exchange in, one out, nothing changed.

use bytes::Bytes;
use hermes_http::{
    Cause, Event, Frame, Incoming, Kind, Offered, Outgoing, ResponseHead, StreamError,
};
use hermes_proto::fields::Fields;
use hermes_proto::hop;
use http::{Method, StatusCode};

use crate::client::Client;
use crate::content::Content;

/// Takes an exchange to where `next` leads.
pub async fn forward(mut offered: Offered, next: Client) {
    hop::strip(&mut offered.head.fields).unwrap();
    if offered.kind() == Kind::Message {
        message(offered, next).await
    } else {
        tunnel(offered, next).await
    }
}

async fn message(offered: Offered, next: Client) {
    let (head, mut content, mut responder) = offered.message();
    let (mut upstream, mut pending) = next.open(&head, content.length()).await.unwrap();
    let upload = copy(&mut content, &mut upstream);
    tokio::pin!(upload);
    let mut sent = false;
    let answer = loop {
        tokio::select! {
            biased;
            event = pending.event(None) => match event {
                Ok(Event::Interim(head)) => responder.interim(&head).await.unwrap(),
                Ok(Event::Final(head, incoming)) => break Ok((head, incoming)),
                Ok(Event::Tunnel(..)) => panic!("a tunnel that no one asked for"),
                Err(error) => break Err(error),
            },
            uploaded = &mut upload, if !sent => match uploaded {
                // The target may have answered before it stopped reading.
                Ok(()) | Err(Broken::Target(_)) => sent = true,
                Err(Broken::Source(error)) => break Err(error),
            },
        }
    };
    let Ok((mut answer, mut incoming)) = answer else {
        let _ = responder
            .answer(ResponseHead::new(StatusCode::BAD_GATEWAY), Bytes::new())
            .await;
        return;
    };
    hop::strip(&mut answer.fields).unwrap();
    let length = incoming
        .length()
        .filter(|length| *length > 0 || incoming.is_end());
    let length = if head.method == Method::HEAD {
        Some(0)
    } else {
        length
    };
    let mut downstream = responder.respond(answer, length).await.unwrap();
    let download = copy(&mut incoming, &mut downstream);
    tokio::pin!(download);
    loop {
        tokio::select! {
            biased;
            _ = &mut download => return,
            _ = &mut upload, if !sent => sent = true,
        }
    }
}

async fn tunnel(offered: Offered, next: Client) {
    let (mut to_target, mut pending) = next.open(&offered.head, None).await.unwrap();
    to_target.flush().await.unwrap();
    let mut from_target = match pending.event(Some(&mut to_target)).await.unwrap() {
        Event::Tunnel(_, incoming) => incoming,
        Event::Final(mut head, mut incoming) => {
            hop::strip(&mut head.fields).unwrap();
            let content = Content::receive(&mut incoming).await.unwrap();
            let _ = offered.refuse(head, content.bytes).await;
            return;
        }
        Event::Interim(_) => panic!("no interim response is expected"),
    };
    let (mut from_client, mut to_client) = offered.accept(Fields::new()).await.unwrap();
    let both = async {
        tokio::try_join!(
            copy(&mut from_client, &mut to_target),
            copy(&mut from_target, &mut to_client)
        )
        .map(drop)
    };
    if let Err(Broken::Source(error) | Broken::Target(error)) = both.await {
        to_target.reset(error.reset());
        to_client.reset(error.reset());
    }
}

/// Which end of a direction broke.
enum Broken {
    Source(StreamError),
    Target(StreamError),
}

/// Carries one direction to its end, however it ends.
async fn copy(from: &mut Incoming, to: &mut Outgoing) -> Result<(), Broken> {
    to.flush().await.map_err(Broken::Target)?;
    loop {
        let frame = tokio::select! {
            biased;
            frame = from.frame() => frame.transpose().map_err(Broken::Source)?,
            reset = to.broken() => return Err(Broken::Target(StreamError::new(Cause::Reset(reset)))),
        };
        match frame {
            None => return to.finish(None).await.map_err(Broken::Target),
            Some(Frame::Data(data)) => to.data(data, false).await.map_err(Broken::Target)?,
            Some(Frame::Trailers(trailers)) => {
                return to.finish(Some(trailers)).await.map_err(Broken::Target);
            }
        }
    }
}
