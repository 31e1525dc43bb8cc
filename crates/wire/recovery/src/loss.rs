//! The share of datagrams that a path loses, as reports show it.

/// Datagrams that a sample has at least: fewer say little.
const SAMPLE: u64 = 20;

/// How much of a new sample counts where it shows more loss than before: at once enough to mend it.
const RISE: f64 = 0.5;

/// The same where it shows less.
const FALL: f64 = 0.1;

/// The loss of a path.
#[derive(Debug, Default)]
pub(crate) struct LossEstimate {
    /// Sent, and received, at the last sample.
    last: Option<Sample>,
    loss: f64,
}

/// Numbers of datagrams since a stream began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Those that were sent before a probe.
    pub(crate) sent: u64,
    /// Those that came before its report, at their first try.
    pub(crate) received: u32,
}

impl LossEstimate {
    /// The share of datagrams that are lost, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.loss
    }

    /// Takes a report.
    pub(crate) fn handle(&mut self, sample: Sample) {
        let Some(last) = self.last else {
            self.last = Some(sample);
            return;
        };
        let sent = sample.sent.saturating_sub(last.sent);
        if sent < SAMPLE {
            return;
        }

        // A datagram may overtake a probe.
        let received = u64::from(sample.received.wrapping_sub(last.received)).min(sent);
        let lost = 1.0 - received as f64 / sent as f64;
        let weight = if lost > self.loss { RISE } else { FALL };
        self.loss += weight * (lost - self.loss);
        self.last = Some(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_learned_fast_and_forgotten_slowly() {
        let mut estimate = LossEstimate::default();
        let (mut sent, mut received) = (0, u32::MAX - 50);
        let mut pass = |estimate: &mut LossEstimate, lost: u32| {
            sent += 100;
            received = received.wrapping_add(100 - lost);
            estimate.handle(Sample { sent, received });
            estimate.share()
        };
        assert_eq!(pass(&mut estimate, 0), 0.0);
        let first = pass(&mut estimate, 10);
        assert!((first - 0.05).abs() < 1e-9);
        for _ in 0..10 {
            pass(&mut estimate, 10);
        }
        assert!((estimate.share() - 0.1).abs() < 0.001);
        assert!(pass(&mut estimate, 0) > 0.08);
    }
}
