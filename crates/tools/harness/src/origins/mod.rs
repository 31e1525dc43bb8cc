//! Servers behind the proxies. They know nothing of the overlay, and remember their requests.

mod acting;
mod answers;
mod calls;
mod deciding;
mod http;
mod lying;
mod scripted;
mod tcp;
mod udp;
mod unserved;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use acting::{Act, acting, refusing};
pub use calls::{Call, called, framed};
pub use deciding::{Answer, Question, deciding};
pub use http::{Request, http, http_on, https};
pub use lying::{is_quick, is_right, lies, lying};
pub use scripted::{early_hints, scripted, scripted_once};
pub use tcp::{
    GREETING, farewell, tcp_closes_first, tcp_echo, tcp_on, tcp_resets, tcp_silent, tcp_sink,
    tcp_speaks_first, tcp_upgrades,
};
pub use udp::{V4, V6, udp_echo};
pub use unserved::Unserved;

use crate::runtime;

/// A running server that remembers values of type `T`. Dropping it ends it and breaks its connections off.
#[derive(Debug)]
pub struct Origin<T> {
    address: SocketAddr,
    memory: Memory<T>,
    task: AbortHandle,
}

/// The state that the tasks of a server share with the test.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    seen: Arc<Mutex<Vec<T>>>,
    connections: Arc<AtomicUsize>,
    /// Lets an answer that waits go on.
    pub(crate) release: Arc<Notify>,
}

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        Self {
            seen: self.seen.clone(),
            connections: self.connections.clone(),
            release: self.release.clone(),
        }
    }
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self {
            seen: Arc::default(),
            connections: Arc::default(),
            release: Arc::default(),
        }
    }
}

impl<T> Memory<T> {
    pub(crate) fn remember(&self, value: T) {
        self.seen.lock().push(value);
    }
}

impl<T: Clone> Origin<T> {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its requests so far.
    pub fn seen(&self) -> Vec<T> {
        self.memory.seen.lock().clone()
    }

    /// Its last request.
    ///
    /// # Panics
    /// When it has seen nothing.
    pub fn last(&self) -> T {
        self.seen().pop().expect("the origin has seen something")
    }

    /// Forgets its requests, and releases every waiting answer: its client may have left without the server's noticing.
    pub fn forget(&self) {
        self.memory.seen.lock().clear();
        self.memory.release.notify_waiters();
    }

    /// Connections that it accepted so far.
    pub fn connections(&self) -> usize {
        self.memory.connections.load(Ordering::SeqCst)
    }

    /// Lets one answer that waits (now or next) go on.
    pub fn release(&self) {
        self.memory.release.notify_one();
    }
}

impl<T> Drop for Origin<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Loopback, at a port that the system chooses.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A TCP server; each connection is served by `serve`.
pub(crate) fn serve<T, F, S>(address: SocketAddr, serve: F) -> Origin<T>
where
    T: Send + 'static,
    F: Fn(TcpStream, Memory<T>) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = runtime::block_on(TcpListener::bind(address)).unwrap();
    let address = listener.local_addr().unwrap();
    let memory = Memory::default();
    let shared = memory.clone();

    let task = runtime::handle().spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else { return };
                    stream.set_nodelay(true).unwrap();
                    shared.connections.fetch_add(1, Ordering::SeqCst);
                    connections.spawn(serve(stream, shared.clone()));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    });

    Origin {
        address,
        memory,
        task: task.abort_handle(),
    }
}
