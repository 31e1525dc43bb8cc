//! Exhausted resources of this machine: logged once and clearly, with the largest holder and the remedy.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::Watch;
use hermes_net::descriptors::{Shortage, ceiling, shortages};
use hermes_net::os::process_stats;
use hermes_net::shares::Shares;

/// How often to look whether something is missing.
const LOOK: Duration = Duration::from_secs(1);

/// Looks, one a second, between two log lines about the same shortage.
#[doc(alias = "bound")]
const QUIET: u32 = 30;

/// The state of one kind of shortage.
#[derive(Debug, Default)]
struct Seen {
    count: u64,
    /// Looks since the last line about it; none was written while this is `None`.
    since: Option<u32>,
    /// Failures since that line.
    unsaid: u64,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Something is missing, this many times since the last line.
    Short(u64),
    /// It is not missing any more.
    Over,
}

/// Watches until the process drains.
pub(crate) async fn watch(shares: Arc<Shares>, watch: Watch) {
    let mut seen = [Seen::default(), Seen::default()];
    loop {
        tokio::select! {
            () = watch.graceful() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        for (seen, (what, count)) in seen.iter_mut().zip(shortages()) {
            match seen.look(count) {
                Some(Said::Short(times)) => tell(&shares, what, times),
                Some(Said::Over) => tracing::info!("{} again", words(what)),
                None => {}
            }
        }
    }
}

impl Seen {
    fn look(&mut self, count: u64) -> Option<Said> {
        let news = count - self.count;
        self.count = count;
        self.unsaid += news;
        self.since = self.since.map(|since| since + 1);

        match self.since {
            // Not one line for each failure: they come by the thousand when a limit is reached.
            Some(since) if since < QUIET => return None,
            Some(_) if self.unsaid == 0 => {
                self.since = None;
                return Some(Said::Over);
            }
            None if news == 0 => return None,
            _ => {}
        }

        self.since = Some(0);
        Some(Said::Short(std::mem::take(&mut self.unsaid)))
    }
}

fn words(what: Shortage) -> &'static str {
    match what {
        Shortage::Descriptors => "there are descriptors",
        Shortage::Ports => "there are local ports",
    }
}

fn tell(shares: &Shares, what: Shortage, times: u64) {
    let holder = shares.largest().map_or_else(String::new, |(who, count)| {
        format!("; {who} holds most, {count}")
    });

    let incoming = shares.connections();
    match what {
        Shortage::Descriptors => {
            let stats = process_stats();
            tracing::warn!(
                "no descriptor was left {times} times: {} of {} are open, {} are kept back for administration; \
                 {incoming} are connections of clients{holder}. Raise the limit (LimitNOFILE= of the unit, `ulimit -n`), \
                 or lower `limits.connections` and `limits.per_user`",
                stats.open_files,
                stats.open_files_limit,
                stats.open_files_limit.saturating_sub(ceiling() as u64),
            );
        }
        Shortage::Ports => tracing::warn!(
            "no local port was left {times} times for a connection to a target{holder}. \
             Widen net.ipv4.ip_local_port_range, give the target more addresses, or lower `limits.per_user`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_said_at_once_then_rarely_and_its_end_once() {
        let mut seen = Seen::default();
        assert_eq!(seen.look(0), None);
        assert_eq!(seen.look(3), Some(Said::Short(3)));
        let during: Vec<_> = (1..QUIET)
            .filter_map(|look| seen.look(3 + u64::from(look)))
            .collect();
        assert_eq!(during, []);
        assert_eq!(seen.look(100), Some(Said::Short(97)));
        let after: Vec<_> = (0..3 * QUIET).filter_map(|_| seen.look(100)).collect();
        assert_eq!(after, [Said::Over]);
    }
}
