//! Metrics of the process, read from the system when someone asks.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use hermes_net::background::pieces_lost;
use hermes_net::descriptors::ceiling;
use hermes_net::memory::{Memory, Purpose};
use hermes_net::os::process_stats;
use hermes_net::shared_socket::forward_counts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use hermes_net::shares::Shares;

/// Reads the resources that the process uses.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    began: SystemTime,
    since: Instant,
    shares: Arc<Shares>,
}

impl ProcessCollector {
    /// Its up-time counts from now.
    pub fn new(shares: &Arc<Shares>) -> Self {
        Self {
            began: SystemTime::now(),
            since: Instant::now(),
            shares: shares.clone(),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let began = self
            .began
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let stats = process_stats();
        let held = descriptors(self.shares.taken());
        let open = descriptors(stats.open_files);
        let most = descriptors(stats.open_files_limit);

        let values = [
            (
                "process_start_time_seconds",
                "Start, in Unix time",
                Some(began.as_secs_f64()),
            ),
            (
                "process_uptime_seconds",
                "Time since the start",
                Some(self.since.elapsed().as_secs_f64()),
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory",
                resident_bytes(),
            ),
            (
                "hermes_memory_held_bytes",
                "Contents held on their way",
                bytes(Memory::node().held()),
            ),
            (
                "hermes_memory_total_bytes",
                "Contents that may be held",
                bytes(Memory::node().budget()),
            ),
            (
                "hermes_log_lines_lost",
                "Lines of the log, of qlog and of TLS secrets that what takes them was too slow for",
                descriptors(pieces_lost()),
            ),
            (
                "hermes_descriptors_held",
                "Descriptors of clients' connections and of exchanges",
                held,
            ),
            (
                "hermes_descriptors_max",
                "Descriptors that these may hold",
                descriptors(ceiling()),
            ),
            ("process_open_fds", "Open file descriptors", open),
            ("process_max_fds", "File descriptors that may be open", most),
        ];

        for (name, help, value) in values {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }

        encode_forwarded(&mut encoder)?;
        encode_charges(&mut encoder)
    }
}

/// Datagrams of sockets that other processes have too.
fn encode_forwarded(encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let counts = forward_counts();
    let outcomes = [("forwarded", counts.forwarded), ("dropped", counts.dropped)];
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor(
        "hermes_shared_socket_datagrams",
        "Datagrams that were received for another process that has the socket, by whether it took them",
        None,
        kind,
    )?;
    for outcome in outcomes {
        let labels = [("outcome", outcome.0)];
        ConstCounter::new(outcome.1).encode(family.encode_family(&labels)?)?;
    }

    Ok(())
}

/// Memory that is charged to owners, and refused charges, by purpose.
fn encode_charges(encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let memory = Memory::node();
    let kind = ConstGauge::new(0.0).metric_type();
    let mut charged = encoder.encode_descriptor(
        "hermes_memory_charged_bytes",
        "Memory that is charged to users and sources",
        None,
        kind,
    )?;
    for purpose in Purpose::ALL {
        let Some(value) = bytes(memory.charged_for(purpose)) else {
            continue;
        };
        let labels = [("purpose", purpose.name())];
        ConstGauge::new(value).encode(charged.encode_family(&labels)?)?;
    }

    let kind = ConstCounter::new(0_u64).metric_type();
    let mut refused = encoder.encode_descriptor(
        "hermes_memory_charges_refused",
        "Charges that were refused because the user or source has its share",
        None,
        kind,
    )?;
    for purpose in Purpose::ALL {
        let count = u64::try_from(memory.refused_for(purpose)).unwrap_or(u64::MAX);
        let labels = [("purpose", purpose.name())];
        ConstCounter::new(count).encode(refused.encode_family(&labels)?)?;
    }

    Ok(())
}

/// As a gauge, which is exact up to 2^53.
fn bytes(count: usize) -> Option<f64> {
    u32::try_from(count / 1024)
        .ok()
        .map(|kib| f64::from(kib) * 1024.0)
}

/// Resident memory; `None` where the system has no `/proc`.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kib) * 1024.0)
}

/// As a gauge; `None` where there is no bound, or nothing is known.
fn descriptors(count: impl TryInto<u32>) -> Option<f64> {
    count.try_into().ok().map(f64::from)
}
