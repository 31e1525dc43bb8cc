//! The socket of operators on this machine: a Unix socket that only the controller's user and root can open. What one of them holds, by
//! slow requests or answers that it does not read, the other one does not miss.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_api::Operation;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::admin::{Answered, Failed, OUTCOME, REQUEST, dispatch};
use super::controller::Controller;

/// Connections at once of one user of this machine. Most wait for the end of a change.
#[doc(alias = "bound")]
const CONNECTIONS: usize = 256;

/// Requests of one user that are worked on at once; others wait.
#[doc(alias = "bound")]
const REQUESTS: usize = 8;

/// Requests of one user at once that are longer than [`SHORT`]; others are read when these are answered.
#[doc(alias = "bound")]
const LONG_REQUESTS: usize = 2;

/// Users of this machine that have rooms of their own. Others, whom an operator let in by the mode of the socket, share one.
#[doc(alias = "bound")]
const USERS: usize = 16;

/// Bytes of a request that needs no turn.
#[doc(alias = "bound")]
const SHORT: usize = 64 * 1024;

/// How long a client may take to send its head.
#[doc(alias = "bound")]
const HEAD: Duration = Duration::from_secs(10);

/// How long a client may take to send its request.
#[doc(alias = "bound")]
const BODY: Duration = Duration::from_secs(30);

/// How long a client may take to read its answer.
#[doc(alias = "bound")]
const ANSWER: Duration = Duration::from_secs(60);

/// The room of one user of this machine.
#[derive(Debug)]
struct Room {
    connections: Semaphore,
    requests: Semaphore,
    long: Semaphore,
}

/// The rooms by user.
#[derive(Debug, Default)]
struct OperatorRooms(HashMap<u32, Arc<Room>>);

impl OperatorRooms {
    fn of(&mut self, user: u32) -> Arc<Room> {
        // The last number is no user's.
        let is_known = self.0.contains_key(&user) || self.0.len() < USERS;
        let user = if is_known { user } else { u32::MAX };
        let new = || {
            Arc::new(Room {
                connections: Semaphore::new(CONNECTIONS),
                requests: Semaphore::new(REQUESTS),
                long: Semaphore::new(LONG_REQUESTS),
            })
        };
        self.0.entry(user).or_insert_with(new).clone()
    }
}

/// Serves operators until the future is dropped.
pub(super) async fn serve(controller: Arc<Controller>, listener: UnixListener) {
    let mut rooms = OperatorRooms::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(user) = stream.peer_cred().map(|peer| peer.uid()) else {
                    continue;
                };
                let operator = Operator {
                    controller: controller.clone(),
                    room: rooms.of(user),
                };
                tokio::spawn(one(operator, stream));
            }
            Err(error) => {
                tracing::warn!(%error, "an operator cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Who has connected.
#[derive(Clone)]
struct Operator {
    controller: Arc<Controller>,
    room: Arc<Room>,
}

async fn one(operator: Operator, stream: UnixStream) {
    let room = operator.room.clone();
    // Nothing is read of one that has no room.
    let Ok(_connection) = room.connections.try_acquire() else {
        return;
    };
    let answered = Arc::new(Notify::new());
    let answers = answered.clone();
    let service = service_fn(move |request| {
        let operator = operator.clone();
        let answers = answers.clone();
        async move {
            let response = answer(operator, request).await;
            answers.notify_one();
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);

    // The answer itself may take long: operators wait for the end of a change.
    let unread = async {
        answered.notified().await;
        tokio::time::sleep(ANSWER).await;
    };
    tokio::select! {
        ended = served => if let Err(error) = ended {
            tracing::debug!(%error, "an operator's request ended");
        },
        () = unread => tracing::debug!("an operator does not read its answer"),
    }
}

async fn answer(operator: Operator, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answered = match asked(&operator.room, request).await {
        // It waits for the end of a change, and works on nothing.
        Ok(asked) if asked.operation.path == OUTCOME => {
            dispatch(operator.controller, asked.operation).await
        }
        Ok(asked) => {
            let _turn = operator.room.requests.acquire().await;
            dispatch(operator.controller, asked.operation).await
        }
        Err(failed) => Answered::from(Err(failed)),
    };
    let body = serde_json::to_vec(&answered.value).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = answered.status;
    response
}

/// A request, and its turn among the long ones until it is answered.
struct AskedOperation<'a> {
    operation: Operation,
    _long: Option<SemaphorePermit<'a>>,
}

async fn asked(room: &Room, request: Request<Incoming>) -> Result<AskedOperation<'_>, Failed> {
    let changes = match *request.method() {
        Method::GET => false,
        Method::POST => true,
        _ => {
            return Err(Failed::new(StatusCode::METHOD_NOT_ALLOWED, "GET or POST"));
        }
    };
    let operation = Operation {
        changes,
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        body: Vec::new(),
    };
    let reading = timeout(BODY, with_body(room, operation, request.into_body()));
    let late = "the request came too slowly, or after others of this user";
    reading
        .await
        .map_err(|_| Failed::new(StatusCode::REQUEST_TIMEOUT, late))?
}

async fn with_body(
    room: &Room,
    mut operation: Operation,
    mut body: Incoming,
) -> Result<AskedOperation<'_>, Failed> {
    let mut long = None;
    while let Some(frame) = body.frame().await {
        let broken = |error: hyper::Error| Failed::new(StatusCode::BAD_REQUEST, error.to_string());
        let Ok(data) = frame.map_err(broken)?.into_data() else {
            continue;
        };
        let length = operation.body.len() + data.len();
        if length > REQUEST {
            let reason = format!("a request has {REQUEST} bytes at most");
            return Err(Failed::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
        }
        if length > SHORT && long.is_none() {
            // It is never closed; the time for the request goes on meanwhile.
            long = room.long.acquire().await.ok();
        }
        operation.body.extend_from_slice(&data);
    }
    Ok(AskedOperation {
        operation,
        _long: long,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_holds_all_that_it_may_leaves_room_to_another() {
        let mut rooms = OperatorRooms::default();
        let mine = rooms.of(1000);
        let held: Vec<_> = (0..1000)
            .map_while(|_| mine.connections.try_acquire().ok())
            .collect();
        assert_eq!(held.len(), CONNECTIONS);
        assert!(rooms.of(1000).connections.try_acquire().is_err());
        assert!(rooms.of(0).connections.try_acquire().is_ok());

        for user in 0..10_000 {
            rooms.of(user);
        }
        assert_eq!(rooms.0.len(), USERS + 1);
    }
}
