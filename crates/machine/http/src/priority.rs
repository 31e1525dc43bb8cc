//! The priority signals of an exchange's two ends (RFC 9218), and the result.

use hermes_proto::fields::{FieldValue, Fields};
use hermes_proto::h3::{Priority, Signal};

/// The priority signals of one exchange.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Signals {
    /// The client's last signal.
    pub(crate) client: Option<Priority>,
    /// The signal came in a PRIORITY_UPDATE.
    pub(crate) updated: bool,
    pub(crate) response: Signal,
}

impl Signals {
    /// Takes a request's own signal; a PRIORITY_UPDATE overrides it (RFC 9218, section 7).
    pub(crate) fn request(&mut self, signal: Signal) {
        if !self.updated {
            self.client = Some(signal.over(Priority::default()));
        }
    }

    /// Takes a PRIORITY_UPDATE.
    pub(crate) fn update(&mut self, priority: Priority) {
        self.client = Some(priority);
        self.updated = true;
    }

    /// The resulting priority. The origin's signal overrides the client's (RFC 9218, section 8).
    pub(crate) fn priority(&self) -> Priority {
        self.response.over(self.client.unwrap_or_default())
    }

    /// Whether it comes before the later ones of its urgency: its client said that it can use no parts of it. One that says nothing may be a
    /// proxy, or wait for all of them.
    pub(crate) fn is_before_later(&self) -> bool {
        self.client.is_some() && !self.priority().incremental
    }
}

/// The priority in a head (RFC 9218, 5); `None` if it is absent or malformed.
pub(crate) fn signal(fields: &Fields) -> Option<Signal> {
    let mut lines = fields.values("priority").map(FieldValue::as_bytes);
    let first = lines.next()?;
    let signal = match lines.next() {
        None => Signal::parse(first),
        Some(second) => Signal::parse(
            &[first, second]
                .into_iter()
                .chain(lines)
                .collect::<Vec<_>>()
                .join(&b", "[..]),
        ),
    };

    (signal != Signal::default()).then_some(signal)
}
