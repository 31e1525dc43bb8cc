//! Metrics as OTLP writes them in JSON, from the text that Prometheus gets: so there is one source
//! of them.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::encode::{nanoseconds, resource, scope, text as attribute};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

/// One line of the text: a sample.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
}

/// A metric and its samples.
struct Metric<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

/// An `ExportMetricsServiceRequest` of OpenMetrics text of our own.
pub(super) fn request(node: &str, openmetrics: &str, began: SystemTime, now: SystemTime) -> Value {
    let times = [nanoseconds(began), nanoseconds(now)];
    let metrics: Vec<Value> = read(openmetrics)
        .iter()
        .filter_map(|metric| metric.value(&times))
        .collect();
    let scoped = json!({ "scope": scope(), "metrics": metrics });
    json!({ "resourceMetrics": [{ "resource": resource(node), "scopeMetrics": [scoped] }] })
}

fn read(openmetrics: &str) -> Vec<Metric<'_>> {
    let mut metrics: Vec<Metric<'_>> = Vec::new();
    for line in openmetrics.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (Some(what), Some(name), rest) =
                (words.next(), words.next(), words.next().unwrap_or_default())
            else {
                continue;
            };

            if metrics.last().is_none_or(|last| last.name != name) {
                metrics.push(Metric {
                    name,
                    help: "",
                    kind: "",
                    samples: Vec::new(),
                });
            }

            match (what, metrics.last_mut()) {
                ("HELP", Some(metric)) => metric.help = rest.trim_end_matches('.'),
                ("TYPE", Some(metric)) => metric.kind = rest,
                _ => {}
            }
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), sample(line)) {
            metric.samples.push(sample);
        }
    }

    metrics
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (head, value) = line.rsplit_once(' ')?;
    let Some((name, mut rest)) = head.split_once('{') else {
        return Some(Sample {
            name: head,
            labels: Vec::new(),
            value,
        });
    };

    let mut labels = Vec::new();
    while let Some((key, quoted)) = rest.split_once("=\"") {
        let (value, after) = unquote(quoted)?;
        labels.push((key, value));
        rest = after.trim_start_matches(',');
    }

    Some(Sample {
        name,
        labels,
        value,
    })
}

/// A label's value and the text behind its closing quote.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }

    None
}

impl Metric<'_> {
    fn value(&self, times: &[String; 2]) -> Option<Value> {
        let (key, data) = match self.kind {
            "counter" => {
                let points = self.points(times);
                (
                    "sum",
                    json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true }),
                )
            }
            "gauge" | "info" => ("gauge", json!({ "dataPoints": self.points(times) })),
            "histogram" => {
                let points = self.histograms(times);
                (
                    "histogram",
                    json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }),
                )
            }
            _ => return None,
        };
        Some(json!({ "name": self.name, "description": self.help, key: data }))
    }

    fn points(&self, times: &[String; 2]) -> Vec<Value> {
        let point = |sample: &Sample<'_>| {
            let mut point = base(&sample.labels, times);
            match sample.value.parse::<u64>() {
                Ok(number) => point.insert("asInt".into(), json!(number.to_string())),
                Err(_) => point.insert("asDouble".into(), json!(sample.value.parse::<f64>().ok()?)),
            };
            Some(Value::Object(point))
        };
        self.samples.iter().filter_map(point).collect()
    }

    /// One point for each run of samples that ends with the bucket `+Inf`; sum and count stand before the buckets.
    fn histograms(&self, times: &[String; 2]) -> Vec<Value> {
        let mut points = Vec::new();
        let mut sum = 0.0;
        let mut below = 0;
        let (mut counts, mut bounds): (Vec<u64>, Vec<f64>) = Default::default();

        for sample in &self.samples {
            if sample.name.ends_with("_sum") {
                sum = sample.value.parse().unwrap_or_default();
            }
            let Some((_, bound)) = sample.labels.iter().find(|(key, _)| *key == "le") else {
                continue;
            };

            // Prometheus counts up to each bound, OTLP between two of them.
            let cumulative: u64 = sample.value.parse().unwrap_or_default();
            counts.push(cumulative.saturating_sub(below));
            below = cumulative;

            if bound != "+Inf" {
                bounds.extend(bound.parse::<f64>());
                continue;
            }

            let labels: Vec<_> = sample
                .labels
                .iter()
                .filter(|(key, _)| *key != "le")
                .cloned()
                .collect();

            let mut point = base(&labels, times);
            let buckets: Vec<String> = std::mem::take(&mut counts)
                .iter()
                .map(u64::to_string)
                .collect();
            point.insert("count".into(), json!(cumulative.to_string()));
            point.insert("sum".into(), json!(sum));
            point.insert("bucketCounts".into(), json!(buckets));
            point.insert("explicitBounds".into(), json!(std::mem::take(&mut bounds)));
            points.push(Value::Object(point));
            below = 0;
        }

        points
    }
}

fn base(labels: &[(&str, String)], [began, now]: &[String; 2]) -> Map<String, Value> {
    let attributes: Vec<Value> = labels
        .iter()
        .map(|(key, value)| attribute(key, value))
        .collect();
    let pairs = [
        ("attributes", json!(attributes)),
        ("startTimeUnixNano", json!(began)),
        ("timeUnixNano", json!(now)),
    ];

    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}
