//! Requests through the overlay, all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::http_client::Client;

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// A program that asks for VIDEO again and again.
pub struct Traffic {
    counts: Arc<Mutex<Counts>>,
    task: JoinHandle<()>,
}

/// Its requests so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Those that were answered with 200.
    pub answered: u64,
    /// Others.
    pub failed: u64,
    /// Why the first of these failed.
    pub reason: Option<String>,
}

impl Traffic {
    /// Begins, through the device at this address.
    pub fn begin(device: SocketAddr) -> Self {
        let counts = Arc::<Mutex<Counts>>::default();
        let counted = counts.clone();
        let task = tokio::spawn(async move {
            loop {
                let asked = ask(device, "VIDEO").await;
                counted.lock().count(asked);
                sleep(PAUSE).await;
            }
        });
        Self { counts, task }
    }

    /// The requests so far.
    pub fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }

    /// Ends.
    ///
    /// # Errors
    /// A request failed.
    pub fn end(self) -> Result<u64, String> {
        self.task.abort();
        let counts = self.counts();
        match counts.reason {
            None => Ok(counts.answered),
            Some(reason) => Err(format!(
                "{} of {} requests failed, the first: {reason}",
                counts.failed,
                counts.answered + counts.failed
            )),
        }
    }
}

impl Counts {
    fn count(&mut self, asked: Result<u16, String>) {
        match asked {
            Ok(200) => self.answered += 1,
            Ok(status) => self.fail(format!("status {status}")),
            Err(reason) => self.fail(reason),
        }
    }

    fn fail(&mut self, reason: String) {
        self.failed += 1;
        self.reason.get_or_insert(reason);
    }
}

/// Asks for a name on a connection of its own; the status of the answer.
pub async fn ask(device: SocketAddr, name: &str) -> Result<u16, String> {
    let mut client = Client::dial(device).await?;
    let answer = client.get(name, &format!("http://{name}/"), &[]).await?;
    Ok(answer.status.as_u16())
}
