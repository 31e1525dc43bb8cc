//! Requests of a device, all the time.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use hermes_tests::curl;

/// Time between two requests: the processes under test need the processor, too.
const PAUSE: Duration = Duration::from_millis(20);

/// Requests that were answered, and those that were not.
#[derive(Debug, Default)]
pub struct Traffic {
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    failed: Vec<u16>,
}

impl Traffic {
    /// Asks through the device at this address until it is over.
    pub fn go_on(&self, device: SocketAddr, over: &AtomicBool) {
        let proxy = format!("http://{device}");
        while !over.load(Ordering::Relaxed) {
            sleep(PAUSE);
            let answer = curl(&["-x", &proxy, "http://VIDEO/"]);
            let mut asked = self.asked.lock().unwrap();
            match answer.status {
                200 => asked.answered += 1,
                status => asked.failed.push(status),
            }
        }
    }

    /// That all requests so far were answered, and some since the last time.
    pub fn judge(&self, seed: usize) {
        let mut asked = self.asked.lock().unwrap();
        assert!(asked.failed.is_empty(), "seed {seed}: {asked:?}");
        assert!(asked.answered > 0, "seed {seed}");
        asked.answered = 0;
    }
}
