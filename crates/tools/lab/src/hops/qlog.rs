//! Figures of a node's QUIC connections, from its qlog files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::experiment::Measured;
use crate::report::Figure;
use crate::report::median;

/// The separator of records in a file (RFC 7464, 2.2).
const SEPARATOR: char = '\u{1e}';
/// A connection that has sent fewer packets carried nothing.
const FEW: usize = 100;

/// The figures of one file.
#[derive(Debug, Default)]
struct Connection {
    /// Milliseconds.
    round_trips: Vec<f64>,
    /// Bytes.
    windows: Vec<f64>,
    sent: usize,
    lost: usize,
    /// Milliseconds from the first packet to the first that came under the final keys.
    ready: Option<f64>,
}

/// Reads the files of a folder. Of several connections the one with the longest round trips counts: it reaches furthest.
///
/// # Errors
/// When there are no connections that carried something.
pub fn read(folder: &Path) -> Result<Measured> {
    let mut connections = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let text = fs::read_to_string(entry?.path())?;
        connections.push(connection(&text));
    }

    let used = connections
        .into_iter()
        .filter(|connection| connection.sent >= FEW);
    let furthest = used.max_by(|a, b| median(&a.round_trips).total_cmp(&median(&b.round_trips)));
    let furthest = furthest.context("no connection is in the qlog files")?;
    ensure!(
        !furthest.round_trips.is_empty(),
        "the qlog files have no round trips"
    );

    let mut measured = vec![
        (
            Figure::less("QUIC jitter", "us"),
            jitter(&furthest.round_trips) * 1e3,
        ),
        (
            Figure::less("QUIC round trip", "us"),
            median(&furthest.round_trips) * 1e3,
        ),
        (
            Figure::more("congestion window", "kB"),
            median(&furthest.windows) / 1e3,
        ),
        (
            Figure::less("packets lost", "%"),
            100.0 * furthest.lost as f64 / furthest.sent as f64,
        ),
    ];

    measured.extend(
        furthest
            .ready
            .map(|ready| (Figure::less("QUIC first byte", "ms"), ready)),
    );

    Ok(measured)
}

/// How much one time differs from the one before, in the mean.
pub(crate) fn jitter(times: &[f64]) -> f64 {
    let differences = times.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let count = times.len().saturating_sub(1).max(1);
    differences.sum::<f64>() / count as f64
}

fn connection(text: &str) -> Connection {
    let mut found = Connection::default();
    let mut begin = None;
    for record in text.split(SEPARATOR) {
        // The last record of a node that was ended may be cut off.
        let Ok(record) = serde_json::from_str::<Value>(record.trim()) else {
            continue;
        };
        let data = &record["data"];
        let event = record["name"]
            .as_str()
            .and_then(|name| name.rsplit(':').next())
            .unwrap_or_default();

        match event {
            "metrics_updated" | "recovery_metrics_updated" => {
                found.round_trips.extend(data["latest_rtt"].as_f64());
                found.windows.extend(data["congestion_window"].as_f64());
            }
            "packet_sent" => {
                found.sent += 1;
                begin = begin.or(record["time"].as_f64());
            }
            "packet_lost" => found.lost += 1,
            "packet_received"
                if found.ready.is_none() && data["header"]["packet_type"] == "1RTT" =>
            {
                found.ready = record["time"]
                    .as_f64()
                    .zip(begin)
                    .map(|(now, begin)| now - begin);
            }
            _ => {}
        }
    }

    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_reaches_furthest_counts() {
        let folder = tempfile::tempdir().unwrap();
        for (name, round_trip) in [("near", 1.0), ("far", 4.0)] {
            let mut text = format!(
                "\u{1e}{{\"time\":2.0,\"name\":\"recovery:metrics_updated\",\"data\":{{\"latest_rtt\":{round_trip},\"congestion_window\":9000}}}}\n"
            );
            text += &"\u{1e}{\"time\":1.0,\"name\":\"transport:packet_sent\",\"data\":{}}\n"
                .repeat(FEW);
            text += "\u{1e}{\"time\":1.5,\"name\":\"transport:packet_received\",\"data\":{\"header\":{\"packet_type\":\"1RTT\"}}}\n\u{1e}{\"ti";
            fs::write(folder.path().join(name), text).unwrap();
        }
        let found: Vec<f64> = read(folder.path())
            .unwrap()
            .iter()
            .map(|(_, value)| *value)
            .collect();
        assert_eq!(found, [0.0, 4000.0, 9.0, 0.0, 0.5]);
        assert_eq!(jitter(&[1.0, 3.0, 2.0]), 1.5);
    }
}
