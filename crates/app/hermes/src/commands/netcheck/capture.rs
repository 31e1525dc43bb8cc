//! Whether `hermes exec --capture` works here: tried by this program once more, since a process does not come out of the network that it
//! tries it in.

use std::process::Command;

use hermes_net::capture::CapturedSpace;
use serde_json::{Value, json};

use crate::failure::Failure;

/// The name in options and JSON, and its purpose.
const NAME: &str = "capture";
const PURPOSE: &str = "programs that know no proxy (`hermes exec --capture`)";

/// Addresses of the network that is tried; they are seen in it alone.
const ADDRESSES: [[u8; 4]; 2] = [[198, 18, 0, 1], [198, 18, 0, 2]];

/// The MTU of the network that is tried.
const MTU: u32 = 1500;

/// The outcome.
pub(super) struct CaptureFinding {
    outcome: Result<(), NoCapture>,
}

/// Why programs cannot be captured, and the remedy.
struct NoCapture {
    error: String,
    remedy: Option<String>,
}

/// Tries it in a process of its own.
pub(super) fn try_out() -> CaptureFinding {
    let failed = |error: String| NoCapture {
        error,
        remedy: None,
    };
    let tried = std::env::current_exe().and_then(|hermes| {
        let mut again = Command::new(hermes);
        again.args(["netcheck", "--json", "--in-captured-network"]);
        again.output()
    });
    let outcome = match tried {
        Err(error) => Err(failed(error.to_string())),
        Ok(tried) if tried.status.success() => Ok(()),
        Ok(tried) => {
            let said: Value = serde_json::from_slice(&tried.stdout).unwrap_or_default();
            let text = |key: &str| said[key].as_str().map(str::to_owned);
            let error = text("error").unwrap_or_else(|| format!("it ended with {}", tried.status));
            Err(NoCapture {
                error,
                remedy: text("remedy"),
            })
        }
    };
    CaptureFinding { outcome }
}

/// Moves this process into a network of its own, and ends.
///
/// # Errors
/// This machine allows no such network.
pub(super) fn enter() -> Result<(), Failure> {
    let [address, resolver] = ADDRESSES.map(Into::into);
    let space = CapturedSpace {
        addresses: vec![address],
        resolvers: vec![resolver],
        mtu: MTU,
    };
    let entered = space.enter().map_err(|error| {
        let failure = Failure::failed(error.to_string());
        match error.remedy {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    });
    entered.map(drop)
}

impl CaptureFinding {
    pub(super) fn works(&self) -> bool {
        self.outcome.is_ok()
    }

    pub(super) fn name(&self) -> &'static str {
        NAME
    }

    /// What was found, in words, and the remedies.
    pub(super) fn said(&self) -> (String, Vec<&str>) {
        match &self.outcome {
            Ok(()) => (
                format!(
                    "{PURPOSE}: a network of its own, without a right; a node with a `capture` listener takes it"
                ),
                Vec::new(),
            ),
            Err(lacking) => (
                format!("{PURPOSE}: {}", lacking.error),
                lacking.remedy.iter().map(String::as_str).collect(),
            ),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let (said, remedy) = self.said();
        match &self.outcome {
            Ok(()) => json!({ "name": NAME, "for": PURPOSE, "works": true, "found": said }),
            Err(lacking) => json!({
                "name": NAME, "for": PURPOSE, "works": false, "error": lacking.error, "remedy": remedy,
            }),
        }
    }
}
