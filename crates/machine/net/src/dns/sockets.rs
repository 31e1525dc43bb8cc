//! The sockets on which DNS is asked: they leave the descriptors alone that are kept back.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use hickory_resolver::net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_resolver::net::runtime::{RuntimeProvider, TokioRuntimeProvider};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::timeout;

use crate::descriptors::claim;
use crate::own_mark::marked;

/// How long a connection to a name server may take where nothing is configured.
#[doc(alias("bound", "timeouts.connect"))]
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Opens the sockets.
#[derive(Clone, Default)]
pub(super) struct Sockets(TokioRuntimeProvider);

type Opening<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl RuntimeProvider for Sockets {
    type Handle = <TokioRuntimeProvider as RuntimeProvider>::Handle;
    type Timer = <TokioRuntimeProvider as RuntimeProvider>::Timer;
    type Udp = <TokioRuntimeProvider as RuntimeProvider>::Udp;
    type Tcp = <TokioRuntimeProvider as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Self::Handle {
        self.0.create_handle()
    }

    fn connect_tcp(
        &self,
        to: SocketAddr,
        from: Option<SocketAddr>,
        time: Option<Duration>,
    ) -> Opening<Self::Tcp> {
        // Few: those who look something up share one for answers that are too large for UDP.
        Box::pin(async move {
            let socket = claim(if to.is_ipv4() {
                TcpSocket::new_v4()
            } else {
                TcpSocket::new_v6()
            }?)?;
            let socket = marked(socket)?;
            if let Some(from) = from {
                socket.bind(from)?;
            }

            socket.set_nodelay(true)?;
            let connected = timeout(time.unwrap_or(CONNECT_TIME), socket.connect(to)).await;
            let slow = || {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the name server does not answer over TCP",
                )
            };

            Ok(AsyncIoTokioAsStd(connected.map_err(|_| slow())??))
        })
    }

    fn bind_udp(&self, local: SocketAddr, _server: SocketAddr) -> Opening<Self::Udp> {
        Box::pin(async move { marked(claim(UdpSocket::bind(local).await?)?) })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::descriptors;

    /// Marks the process that this test starts: the reserve is one for the whole process.
    const ALONE: &str = "HERMES_TEST_ALONE";

    #[test]
    fn tcp_to_a_name_server_takes_no_descriptor_that_is_kept_back() {
        if std::env::var_os(ALONE).is_none() {
            let name =
                "dns::sockets::tests::tcp_to_a_name_server_takes_no_descriptor_that_is_kept_back";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            assert!(
                alone
                    .args(["--exact", name])
                    .env(ALONE, "yes")
                    .status()
                    .unwrap()
                    .success()
            );
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let connect =
                || Sockets::default().connect_tcp(server.local_addr().unwrap(), None, None);
            assert!(connect().await.is_ok());
            descriptors::keep_back(0);
            let error = connect().await.err().unwrap();
            assert_eq!(
                error.raw_os_error(),
                Some(rustix::io::Errno::MFILE.raw_os_error())
            );
        });
    }
}
