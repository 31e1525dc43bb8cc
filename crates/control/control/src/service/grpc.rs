//! The methods of a controller.

use std::future::Future;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hermes_api::{
    AgentMessage, ControllerMessage, JoinAnswer, JoinRequest, Operation, OperationAnswer,
    RenewRequest, methods,
};
use hermes_net::clock::unix_seconds;
use hyper::body::Incoming;
use prost::Message;
use rustls::pki_types::CertificateDer;
use tonic::body::Body;
use tonic::codec::{BufferSettings, Codec};
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::admin::{self, REQUEST};
use super::attend::{self, Messages};
use super::calls::Calls;
use super::controller::Controller;
use crate::authority::Member;

/// Bytes of the longest message of an agent.
#[doc(alias = "bound")]
const MESSAGE: usize = 64 * 1024;

/// Bytes of a stream's buffers at first: an offer has less.
const BUFFER: usize = 512;

/// Bytes of messages that are sent together.
const YIELD: usize = 32 * 1024;

/// Joins of one connection. Each costs a question to the store and a line of the log: who guesses tokens pays with a handshake,
/// whose rate is bounded.
#[doc(alias = "bound")]
const JOINS: u32 = 8;

/// Who is on the other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Its certificates, whose key it has; not judged yet.
    pub(super) chain: Option<Arc<[CertificateDer<'static>]>>,
    pub(super) from: SocketAddr,
    /// Its calls of all kinds.
    calls: Arc<Calls>,
    /// How often it has asked to join.
    joins: Arc<AtomicU32>,
}

impl Caller {
    pub(super) fn new(
        chain: Option<Arc<[CertificateDer<'static>]>>,
        from: SocketAddr,
        calls: Arc<Calls>,
    ) -> Self {
        Self {
            chain,
            from,
            calls,
            joins: Arc::default(),
        }
    }

    /// # Errors
    /// The connection has asked to join as often as one may.
    fn may_join(&self) -> Result<(), Status> {
        // The bound of its requests at once keeps the count from coming round.
        if self.joins.load(Ordering::Relaxed) < JOINS
            && self.joins.fetch_add(1, Ordering::Relaxed) < JOINS
        {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "a connection may ask to join {JOINS} times; connect again"
        )))
    }
}

/// Answers one call.
pub(super) async fn answer(
    controller: Arc<Controller>,
    caller: Caller,
    request: http::Request<Incoming>,
) -> http::Response<Body> {
    if !caller.calls.take(Duration::from_millis(controller.now())) {
        return Status::resource_exhausted("too many calls; connect again later").into_http();
    }
    match request.uri().path() {
        methods::JOIN => {
            let join = move |request| join(controller.clone(), caller.clone(), request);
            grpc::<JoinRequest, JoinAnswer>()
                .unary(Call(join), request)
                .await
        }
        methods::RENEW => {
            let renew = move |request| renew(controller.clone(), caller.clone(), request);
            grpc::<RenewRequest, JoinAnswer>()
                .unary(Call(renew), request)
                .await
        }
        methods::ATTEND => {
            let attend = move |request| attend(controller.clone(), caller.clone(), request);
            grpc::<AgentMessage, ControllerMessage>()
                .streaming(Call(attend), request)
                .await
        }
        methods::OPERATE => {
            // Before its content is read: that of a controller may be long.
            if let Err(status) = from_controller(controller.clone(), &caller).await {
                return status.into_http();
            }
            let operate = move |request| operate(controller.clone(), request);
            grpc::<Operation, OperationAnswer>()
                .max_decoding_message_size(REQUEST + MESSAGE)
                .unary(Call(operate), request)
                .await
        }
        _ => Status::unimplemented("no such method").into_http(),
    }
}

fn grpc<Q, A>() -> Grpc<SmallBuffers<A, Q>>
where
    Q: Message + Default + Send + Sync + 'static,
    A: Message + Send + Sync + 'static,
{
    Grpc::new(SmallBuffers(PhantomData)).max_decoding_message_size(MESSAGE)
}

/// Protobuf with buffers for a few hundred bytes, which grow with a blob: there are thousands of streams, and most are silent.
struct SmallBuffers<A, Q>(PhantomData<(A, Q)>);

impl<A, Q> Codec for SmallBuffers<A, Q>
where
    A: Message + Send + 'static,
    Q: Message + Default + Send + 'static,
{
    type Encode = A;
    type Decode = Q;
    type Encoder = ProstEncoder<A>;
    type Decoder = ProstDecoder<Q>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER, YIELD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER, YIELD))
    }
}

async fn join(
    controller: Arc<Controller>,
    caller: Caller,
    request: Request<JoinRequest>,
) -> Result<Response<JoinAnswer>, Status> {
    caller.may_join()?;
    let request = request.into_inner();
    let from = caller.from;
    let joined = blocking(move || controller.join(&request, unix_seconds())).await?;
    let answer = joined.map_err(|refused| {
        tracing::warn!(peer = %from, "a join was refused: {refused}");
        Status::permission_denied(refused)
    })?;
    Ok(Response::new(answer))
}

async fn renew(
    controller: Arc<Controller>,
    caller: Caller,
    request: Request<RenewRequest>,
) -> Result<Response<JoinAnswer>, Status> {
    let chain = caller.chain.ok_or_else(without_certificate)?;
    let request = request.into_inner().request;
    let renewed = blocking(move || controller.renew(&chain, &request, unix_seconds())).await?;
    renewed
        .map(Response::new)
        .map_err(Status::permission_denied)
}

async fn attend(
    controller: Arc<Controller>,
    caller: Caller,
    request: Request<Streaming<AgentMessage>>,
) -> Result<Response<Messages>, Status> {
    let member = judge(controller.clone(), caller).await?;
    let messages = attend::begin(controller, member, request.into_inner());
    Ok(Response::new(messages))
}

/// # Errors
/// The caller is no other controller.
async fn from_controller(controller: Arc<Controller>, caller: &Caller) -> Result<(), Status> {
    let chain = caller.chain.clone().ok_or_else(without_certificate)?;
    let is_one = blocking(move || controller.is_controller(&chain)).await?;
    let refused = || Status::permission_denied("only controllers of the overlay may call this");
    is_one.then_some(()).ok_or_else(refused)
}

/// A request of an operator at another controller.
async fn operate(
    controller: Arc<Controller>,
    request: Request<Operation>,
) -> Result<Response<OperationAnswer>, Status> {
    let answered = admin::operate_as_leader(controller, request.into_inner()).await;
    Ok(Response::new(OperationAnswer {
        status: answered.status.as_u16().into(),
        body: serde_json::to_vec(&answered.value).unwrap_or_default(),
    }))
}

/// The member that calls.
async fn judge(controller: Arc<Controller>, caller: Caller) -> Result<Member, Status> {
    let chain = caller.chain.ok_or_else(without_certificate)?;
    let judged = blocking(move || controller.member(&chain, unix_seconds())).await?;
    let member = judged.map_err(Status::permission_denied)?;
    if member.expired {
        return Err(Status::unauthenticated(
            "the certificate has expired, and has to be renewed first",
        ));
    }
    Ok(member)
}

fn without_certificate() -> Status {
    Status::unauthenticated(
        "only members of the overlay may call this, and they show a certificate",
    )
}

/// The store may stand still, and must not stop the run time.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Status::internal(error.to_string()))
}

/// A function as a service of tonic.
struct Call<F>(F);

impl<F, Q, A, R> tower_service::Service<Request<Q>> for Call<F>
where
    F: FnMut(Request<Q>) -> R,
    R: Future<Output = Result<Response<A>, Status>> + Send + 'static,
{
    type Response = Response<A>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        Box::pin((self.0)(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::calls::{Party, call_rates};

    #[test]
    fn a_connection_guesses_few_tokens() {
        let caller = |port: u16| {
            let from = SocketAddr::from(([127, 0, 0, 1], port));
            let calls = Calls::new(Party::Stranger(from), Arc::new(call_rates()));
            Caller::new(None, from, Arc::new(calls))
        };
        let one = caller(1);
        let asked = (0..10_000).filter(|_| one.clone().may_join().is_ok());
        assert_eq!(asked.count(), 8);
        assert!(caller(2).may_join().is_ok());
    }
}
