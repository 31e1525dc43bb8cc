//! A connection to a processor, and the one call of gRPC on it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hermes_config::model::EndpointAddress;
use hermes_plug::Opener;
use http::Uri;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use super::messages::{ProcessingRequest, ProcessingResponse};
use crate::outside::OutsideStream;

/// The bytes of one message of a processor.
#[doc(alias = "bound")]
const MESSAGE: usize = 1024 * 1024;

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// A connection of one exchange: a processor that stops in the midst of it is not the next one's.
pub(super) struct ProcessorConnection(SendRequest<tonic::body::Body>);

impl ProcessorConnection {
    /// Connects.
    pub(super) async fn open(to: &EndpointAddress, opener: &Opener) -> io::Result<Self> {
        match OutsideStream::connect(to).await? {
            OutsideStream::Tcp(stream) => Self::over(stream, opener).await,
            OutsideStream::Unix(stream) => Self::over(stream, opener).await,
        }
    }

    async fn over<S>(stream: S, opener: &Opener) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let tasks = Tasks(opener.clone());
        let handshake = http2::Builder::new(tasks)
            .initial_stream_window_size(128 * 1024)
            .initial_connection_window_size(256 * 1024)
            .max_header_list_size(16 * 1024)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        opener.spawn(async move {
            // Both sides of the conversation hear how it ended.
            let _ = connection.await;
        });
        Ok(Self(sender))
    }

    /// Begins the call; the messages that it is to begin with wait in `requests`.
    pub(super) async fn process(
        self,
        requests: mpsc::Receiver<ProcessingRequest>,
    ) -> Result<Streaming<ProcessingResponse>, tonic::Status> {
        let origin = Uri::from_static("http://processor");
        let mut grpc = Grpc::with_origin(self, origin).max_decoding_message_size(MESSAGE);
        let ready = grpc.ready().await;
        ready.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<ProcessingRequest, ProcessingResponse>::default();
        let request = tonic::Request::new(ReceiverStream::new(requests));
        let path = PathAndQuery::from_static(PROCESS);
        let answered = grpc.streaming(request, path, codec).await?;
        Ok(answered.into_inner())
    }
}

impl tower_service::Service<http::Request<tonic::body::Body>> for ProcessorConnection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<http::Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Runs the tasks of a connection where those of its exchange run, so that a drain waits for them.
#[derive(Clone)]
struct Tasks(Opener);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}
