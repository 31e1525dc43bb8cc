//! The life of certificates: ordered if missing, renewed before they expire, tried again after
//! failures.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::clock::unix_seconds;
use hermes_net::{Drain, Resolver, Watch};
use instant_acme::CertificateIdentifier;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;
use crate::managed::{Certificates, Managed};
use crate::order::Attempt;
use crate::schedule::{Lifetime, pause, within};
use crate::tokens::Tokens;

/// Time for one attempt as a whole.
#[doc(alias = "bound")]
const ATTEMPT: Duration = Duration::from_secs(10 * 60);

/// Time to ask for a suggested renewal.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_secs(60);

/// Bounds on the time between questions about the suggested renewal (RFC 9773 section 4.3), in
/// seconds: the least and the most.
#[doc(alias = "bound")]
const LOOKS: (u64, u64) = (10 * 60, 24 * 60 * 60);

/// Seconds for which a certificate is kept at least, unless a third of the life that it has left is
/// less: suggestions that always lie in the past would cause endless orders.
#[doc(alias = "bound")]
const KEPT: u64 = 60 * 60;

/// Seconds between an attempt that failed and one that the operator asks for by a reload, and between two orders that succeed: a
/// certificate may last a moment only.
#[doc(alias = "bound")]
const PATIENCE: u64 = 5;

/// The longest sleep: clocks are set, and machines sleep.
const NAP: Duration = Duration::from_secs(60 * 60);

/// Called whenever a certificate was put in force.
type Changed = Arc<dyn Fn() + Send + Sync>;

/// Obtains and renews the certificates of the configuration in force.
pub struct Keeper {
    resolver: Arc<Resolver>,
    watch: Watch,
    changed: Changed,
    kept: Mutex<Vec<CertificateTask>>,
}

/// A certificate and the end of its task.
struct CertificateTask {
    managed: Arc<Managed>,
    task: Drain,
}

impl Keeper {
    /// Keeps nothing yet; ends when `watch` drains. `changed` is called whenever a certificate was put in force.
    pub fn new(resolver: Arc<Resolver>, watch: Watch, changed: Changed) -> Self {
        Self {
            resolver,
            watch,
            changed,
            kept: Mutex::default(),
        }
    }

    /// Goes on with these certificates, and drops others. Failed orders are tried again. To be
    /// called inside a runtime.
    pub fn follow(&self, certificates: &Certificates) {
        let mut kept = self.kept.lock();
        kept.retain(|one| {
            // By identity: a certificate whose configuration changed is another one, with a task of its own.
            let is_wanted = certificates
                .all()
                .iter()
                .any(|new| Arc::ptr_eq(new, &one.managed));
            if !is_wanted {
                one.task.force();
            }
            is_wanted
        });

        for managed in certificates.all() {
            if kept.iter().any(|one| Arc::ptr_eq(&one.managed, managed)) {
                managed.nudge();
                continue;
            }
            let task = self.watch.child();
            let life = Life {
                managed: managed.clone(),
                tokens: certificates.tokens.clone(),
                resolver: self.resolver.clone(),
                changed: self.changed.clone(),
                plan: Plan::of(managed),
            };
            self.watch.spawn(life.run(task.watch()));
            kept.push(CertificateTask {
                managed: managed.clone(),
                task,
            });
        }
    }
}

/// The next steps, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// The next order.
    order: u64,
    /// The time of the next question about a suggested renewal; `None` without a certificate to ask
    /// about.
    look: Option<u64>,
    /// Before this time no order follows a successful one, regardless of the certificate's age and
    /// of suggestions.
    earliest: u64,
}

impl Plan {
    /// The renewal that a certificate's own validity asks for.
    fn of(managed: &Managed) -> Self {
        match managed.known() {
            Some(known) if known.is_wanted => Self {
                order: known.lifetime.renewal(fastrand::f64()),
                look: Some(0),
                earliest: 0,
            },
            Some(_) | None => Self {
                order: 0,
                look: None,
                earliest: 0,
            },
        }
    }

    /// Follows a suggestion, but neither at once after the last order nor in the last sixth of the lifetime.
    fn suggest(&mut self, suggested: u64, lifetime: Lifetime) {
        let life = lifetime.until.saturating_sub(lifetime.from);
        let first = lifetime.from + KEPT.min(life / 3);
        let last = lifetime.until - life / 6;
        self.order = suggested.clamp(first.min(last), last).max(self.earliest);
    }

    /// The plan after an order that succeeded at `now`.
    fn after_order(mut self, lifetime: Option<Lifetime>, now: u64) -> Self {
        let left = lifetime.map_or(0, |lifetime| lifetime.until.saturating_sub(now));
        self.earliest = now + KEPT.min(left / 3).max(PATIENCE);
        self.order = self.order.max(self.earliest);
        self
    }

    fn next(self) -> u64 {
        self.look.map_or(self.order, |look| look.min(self.order))
    }
}

/// The life of one certificate.
struct Life {
    managed: Arc<Managed>,
    tokens: Arc<Tokens>,
    resolver: Arc<Resolver>,
    changed: Changed,
    plan: Plan,
}

impl Life {
    async fn run(mut self, watch: Watch) {
        loop {
            tokio::select! {
                () = self.step() => {}
                () = watch.graceful() => return,
                () = watch.forced() => return,
            }
        }
    }

    /// Waits for the next event, and handles it.
    async fn step(&mut self) {
        let now = unix_seconds();
        self.managed.record.lock().next = Some(self.plan.order);
        // The wall clock decides, as certificates end by it: sleeps are short, so that a clock that was set is noticed.
        let wait = Duration::from_secs(self.plan.next().saturating_sub(now)).min(NAP);
        if !wait.is_zero() {
            let is_nudged = tokio::select! {
                () = sleep(wait) => false,
                () = self.managed.nudged.notified() => true,
            };
            if is_nudged {
                // Not at once: reloads in a row would order as often.
                let soon = unix_seconds() + PATIENCE;
                self.plan.order = self.plan.order.min(soon);
            }
            return;
        }

        if self.plan.order <= now {
            self.order().await;
        } else {
            self.look().await;
        }
    }

    async fn order(&mut self) {
        self.managed.record.lock().is_ordering = true;
        let attempt = self.attempt();
        let obtained = timeout(ATTEMPT, attempt.obtain()).await;
        let obtained = obtained.unwrap_or_else(|_| {
            let reason = "the authority did not come to an end in ten minutes";
            Err(Failure::new(reason, "nothing: it is tried again"))
        });

        match obtained {
            Ok(()) => self.obtained(),
            Err(failure) => self.failed(failure),
        }
    }

    fn obtained(&mut self) {
        let domains = self.managed.settings.domains.join(", ");
        let was_failing = {
            let mut record = self.managed.record.lock();
            record.is_ordering = false;
            record.obtained += 1;
            record.reason = None;
            record.remedy = None;
            std::mem::take(&mut record.in_a_row) > 0
        };

        let lifetime = self.managed.known().map(|known| known.lifetime);
        self.plan = Plan::of(&self.managed).after_order(lifetime, unix_seconds());
        let until = lifetime.map(|lifetime| date(lifetime.until));
        let renewal = date(self.plan.order);
        tracing::info!(%domains, until, renewal, was_failing, "a certificate was obtained and is in force");
        (self.changed)();
    }

    fn failed(&mut self, failure: Failure) {
        let domains = self.managed.settings.domains.join(", ");
        // RFC 8555, 6.7 `accountDoesNotExist`: the next attempt registers anew, in place of failing for ever.
        if failure.is_account_unknown
            && let Err(error) = self.managed.folder.forget_account()
        {
            tracing::warn!(%domains, "{error}");
        }

        let mut record = self.managed.record.lock();
        let failures = record.in_a_row.saturating_add(1);
        let pause = pause(failures, failure.is_rate_limited, fastrand::f64());
        self.plan.order = unix_seconds() + pause.as_secs();
        // The order is due: no suggestion may put it off any more.
        self.plan.look = None;

        // The next attempt is set in the same step: status would otherwise show a failure with one
        // that has passed.
        record.is_ordering = false;
        record.failed += 1;
        record.in_a_row = failures;
        record.next = Some(self.plan.order);
        record.reason = Some(failure.reason.clone());
        record.remedy = Some(failure.remedy.clone());
        drop(record);

        let reason = failure.reason;
        let remedy = failure.remedy;
        // Once in a row: an authority that is down for a day is one line of the log.
        if failures == 1 {
            let effect = match self.managed.known() {
                Some(_) => "the certificate from before stays in force",
                None => "there is none, and handshakes are refused",
            };
            tracing::warn!(%domains, reason, ?pause, "no certificate was obtained: {effect}; {remedy}");
        } else {
            tracing::debug!(%domains, reason, failures, ?pause, "no certificate was obtained");
        }
    }

    /// Asks the authority when it would have the certificate renewed (RFC 9773).
    async fn look(&mut self) {
        // A failed question changes nothing: the certificate's own validity plans its renewal.
        let looked = timeout(LOOK, self.suggested()).await;
        let (suggested, again) = looked.ok().flatten().unwrap_or((None, LOOKS.1));
        self.plan.look = Some(unix_seconds() + again.clamp(LOOKS.0, LOOKS.1));
        if let (Some(suggested), Some(known)) = (suggested, self.managed.known()) {
            self.plan.suggest(suggested, known.lifetime);
        }
    }

    /// The suggested moment, and the seconds until the next question; `None` without a suggestion.
    async fn suggested(&self) -> Option<(Option<u64>, u64)> {
        let certified = self.managed.in_force()?;
        let own = certified.cert.first()?;
        let identifier = CertificateIdentifier::try_from(own).ok()?;
        let account = self.attempt().account().await.ok()?;
        let (info, again) = account.renewal_info(&identifier).await.ok()?;

        let window = info.suggested_window;
        let start = u64::try_from(window.start.unix_timestamp()).ok()?;
        let end = u64::try_from(window.end.unix_timestamp()).ok()?;
        Some((Some(within(start, end, fastrand::f64())), again.as_secs()))
    }

    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            managed: &self.managed,
            tokens: &self.tokens,
            resolver: &self.resolver,
        }
    }
}

/// A Unix time as it is written in the log.
fn date(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    time::OffsetDateTime::from_unix_timestamp(seconds).map_or_else(
        |_| seconds.to_string(),
        |time| {
            format!(
                "{} {:02}:{:02} UTC",
                time.date(),
                time.hour(),
                time.minute()
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn suggestions_have_a_certificate_ordered_neither_without_end_nor_too_late() {
        let lifetime = Lifetime {
            from: 100 * DAY,
            until: 190 * DAY,
        };
        let order = |suggested| {
            let mut plan = Plan {
                order: 160 * DAY,
                look: None,
                earliest: 0,
            };
            plan.suggest(suggested, lifetime);
            plan.order
        };
        assert_eq!(order(150 * DAY), 150 * DAY);
        assert_eq!(order(0), 100 * DAY + KEPT);
        assert_eq!(order(u64::MAX), 175 * DAY);
    }

    #[test]
    fn a_life_without_a_length_is_no_panic() {
        let mut plan = Plan {
            order: 0,
            look: Some(0),
            earliest: 0,
        };
        plan.suggest(7, Lifetime { from: 9, until: 3 });
        assert_eq!(plan.order, 3);
    }

    #[test]
    fn certificates_that_are_old_when_they_are_issued_are_ordered_no_more_than_hourly() {
        let now = 1000 * DAY;
        let plan = Plan {
            order: 0,
            look: Some(0),
            earliest: 0,
        };
        // Its issuer says that it is a month old, and would always have had it renewed by now.
        let old = Lifetime {
            from: now - 30 * DAY,
            until: now + DAY,
        };
        let mut after = plan.after_order(Some(old), now);
        assert_eq!(after.order, now + KEPT);
        after.suggest(0, old);
        assert_eq!(after.order, now + KEPT);

        let moment = Lifetime {
            from: now - DAY,
            until: now + 1,
        };
        let after = plan.after_order(Some(moment), now);
        assert_eq!(after.order, now + PATIENCE);
        assert_eq!(plan.after_order(None, now).order, now + PATIENCE);
    }
}
