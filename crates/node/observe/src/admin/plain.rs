//! Metrics in the text format of Prometheus, version 0.0.4, for those who do not ask for OpenMetrics.

use std::fmt::Write as _;

/// The same metrics in the older format: the described name of a counter ends in `_total`, too, an
/// `info` metric of the node is a gauge, and neither units nor the end are marked.
pub(super) fn text(openmetrics: &str) -> String {
    let mut plain = String::with_capacity(openmetrics.len());
    let mut help = None;

    for line in openmetrics.lines() {
        let described = line.strip_prefix("# ").map(|line| line.splitn(3, ' '));
        let words: Vec<&str> = described.into_iter().flatten().collect();
        match words.as_slice() {
            ["HELP", name, said] => help = Some((*name, *said)),
            ["TYPE", name, kind] => {
                let (suffix, kind) = match *kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                // Writing to a string does not fail.
                if let Some((_, said)) = help.take().filter(|(of, _)| of == name) {
                    let _ = writeln!(plain, "# HELP {name}{suffix} {said}");
                }
                let _ = writeln!(plain, "# TYPE {name}{suffix} {kind}");
            }
            [] => {
                plain.push_str(line);
                plain.push('\n');
            }
            _ => {}
        }
    }

    plain
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn names_are_as_their_samples_and_marks_are_left_out() {
        let openmetrics = "# HELP a_bytes Content.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"#\"} 1\n\
             # HELP build Version.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n# HELP up Up.\n# TYPE up gauge\nup 1\n# EOF\n";
        let plain = "# HELP a_bytes_total Content.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"#\"} 1\n\
             # HELP build_info Version.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n# HELP up Up.\n# TYPE up gauge\nup 1\n";
        assert_eq!(text(openmetrics), plain);
    }
}
