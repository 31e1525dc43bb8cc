//! What the two ends of an exchange say of its priority (RFC 9218), and what comes of it.

use hermes_proto::fields::{FieldValue, Fields};
use hermes_proto::h3::{Priority, Signal};

/// All that was said of one exchange.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Signals {
    /// What the client said last.
    pub(crate) client: Option<Priority>,
    /// It said that in a PRIORITY_UPDATE.
    pub(crate) updated: bool,
    pub(crate) response: Signal,
}

impl Signals {
    /// What a request says of itself; a PRIORITY_UPDATE stands above it (RFC 9218, section 7).
    pub(crate) fn request(&mut self, signal: Signal) {
        if !self.updated {
            self.client = Some(signal.over(Priority::default()));
        }
    }

    /// What a PRIORITY_UPDATE says.
    pub(crate) fn update(&mut self, priority: Priority) {
        self.client = Some(priority);
        self.updated = true;
    }

    /// What comes of it. The origin stands above what the client said (RFC 9218, section 8).
    pub(crate) fn priority(&self) -> Priority {
        self.response.over(self.client.unwrap_or_default())
    }

    /// Whether it comes before the later ones of its urgency: its client said that it can use no parts of it. One that says nothing may be a
    /// proxy, or wait for all of them.
    pub(crate) fn is_before_later(&self) -> bool {
        self.client.is_some() && !self.priority().incremental
    }
}

/// What a head says of its priority (RFC 9218, 5); none where it says nothing that can be understood.
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
