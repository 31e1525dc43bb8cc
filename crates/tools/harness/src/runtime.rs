//! The background runtime on which origins and HTTP/2 clients live.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// The runtime; one thread drives it until the test process ends.
pub fn handle() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(start)
}

/// The runtime of attackers and of their servers: a bystander's origin does not wait for them.
pub fn attackers() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(start)
}

fn start() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// Runs a future to its end from blocking code.
///
/// # Panics
/// When it has not ended after [`crate::eventually::PATIENCE`].
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    handle().block_on(async {
        let ended = tokio::time::timeout(crate::eventually::PATIENCE, future).await;
        ended.expect("waited in vain for a future")
    })
}
