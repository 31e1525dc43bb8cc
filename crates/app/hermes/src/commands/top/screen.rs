//! The screen: rates as tables that fit it.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::caches::CacheRate;
use super::rates::{Flow, NodeRate, Rate, Rates};
use crate::columns::{Column, cut, fit};
use crate::output::terminal_size;
use crate::table;

/// Another screen of the terminal and no cursor; and their end.
pub const ENTER: &str = "\x1b[?1049h\x1b[?25l";
pub const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Back to the top left corner.
const HOME: &str = "\x1b[H";
/// The rest of the line, and of the screen, is cleared.
const END_OF_LINE: &str = "\x1b[K\r\n";
const END_OF_SCREEN: &str = "\x1b[J";

/// The size without a terminal.
const SIZE: (usize, usize) = (120, 60);

/// Seconds that the curve of a node shows.
const CURVE: usize = 20;

/// Heights of the curve.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The order of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// The most bytes a second.
    #[default]
    Bytes,
    /// The most exchanges a second.
    Exchanges,
    /// The most failures a second.
    Failures,
    /// By name.
    Name,
}

impl Sort {
    /// The order after this one.
    pub fn next(self) -> Self {
        match self {
            Self::Bytes => Self::Exchanges,
            Self::Exchanges => Self::Failures,
            Self::Failures => Self::Name,
            Self::Name => Self::Bytes,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Exchanges => "exchanges",
            Self::Failures => "failures",
            Self::Name => "name",
        }
    }

    /// Larger rates come first; among equals, larger totals since the start.
    fn key(self, flow: &Flow) -> Reverse<(u64, u64)> {
        let rate = match self {
            Self::Bytes => flow.bytes_per_second(),
            Self::Exchanges => flow.exchanges_per_second,
            Self::Failures => flow.failures_per_second,
            Self::Name => return Reverse((0, 0)),
        };
        // Tenths are shown.
        Reverse(((rate * 10.0) as u64, flow.bytes))
    }
}

/// How it is shown.
#[derive(Debug, Default)]
pub struct Screen {
    /// Colours are seen.
    colours: bool,
    /// It stands still.
    pub paused: bool,
    /// The order of rows.
    pub sort: Sort,
    /// Bytes a second of each node, the latest last.
    curves: HashMap<String, VecDeque<f64>>,
}

impl Screen {
    /// A screen of its own, live.
    pub fn new(colours: bool) -> Self {
        Self {
            colours,
            ..Self::default()
        }
    }

    /// Adds a second to the curves.
    pub fn remember(&mut self, rates: &Rates) {
        for node in &rates.nodes {
            let curve = self.curves.entry(node.node.clone()).or_default();
            curve.push_back(node.flow.bytes_per_second());
            if curve.len() > CURVE {
                curve.pop_front();
            }
        }
    }

    /// The whole screen, to be written over the one before.
    pub fn frame(&self, rates: &Rates) -> String {
        let size = terminal_size();
        let text = self.text(rates, Some(size));
        let lines: Vec<&str> = text.lines().take(size.1).collect();
        format!("{HOME}{}\x1b[K{END_OF_SCREEN}", lines.join(END_OF_LINE))
    }

    /// As text. Without a size: everything that fits a page, without keys.
    pub fn text(&self, rates: &Rates, size: Option<(usize, usize)>) -> String {
        let (width, height) = size.unwrap_or(SIZE);
        let mut text = String::new();
        if size.is_some() {
            text.push_str(&self.title(rates, width));
        }

        text.push_str(&self.table("nodes", &NODES, &self.nodes(&rates.nodes), width));
        // Four tables share the remaining lines; each has an empty line, a title and a header.
        let rows = (height.saturating_sub(rates.nodes.len() + 4) / 4)
            .saturating_sub(3)
            .max(1);
        for (title, list) in [
            ("users", &rates.users),
            ("routes", &rates.routes),
            ("upstreams", &rates.upstreams),
        ] {
            let header = if title == "upstreams" {
                &UPSTREAMS[..]
            } else {
                &UPSTREAMS[..8]
            };
            text.push_str(&self.table(title, header, &self.rows(list, rows), width));
        }

        let caches: Vec<_> = rates.caches.iter().map(cache).collect();
        text.push_str(&self.table("caches", &CACHES, &caches, width));
        let longest: Vec<_> = rates.longest.iter().take(rows).map(open).collect();
        text.push_str(&self.table("open longest", &OPEN, &longest, width));
        text
    }

    fn title(&self, rates: &Rates, width: usize) -> String {
        let count = rates.nodes.len();
        let nodes = if count == 1 {
            "1 node".to_owned()
        } else {
            format!("{count} nodes")
        };

        let state = if self.paused { "paused" } else { "live" };
        let text = format!(
            " hermes top   {nodes}, {state}   q quit   s sort: {}   p pause ",
            self.sort.word()
        );
        let bar = format!("{:<width$}", cut(&text, width));

        format!(
            "{}\n",
            if self.colours {
                format!("\x1b[7m{bar}\x1b[0m")
            } else {
                bar
            }
        )
    }

    fn table(&self, title: &str, columns: &[Column], rows: &[Vec<String>], width: usize) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let (bold, dim, off) = if self.colours {
            ("\x1b[1;36m", "\x1b[2m", "\x1b[0m")
        } else {
            ("", "", "")
        };

        let mut text = format!("\n{bold} {title}{off}\n");
        for (number, line) in fit(columns, rows, width).lines.iter().enumerate() {
            let line = if number == 0 {
                format!("{dim}{line}{off}")
            } else {
                self.mark(line)
            };
            text.push_str(&line);
            text.push('\n');
        }

        text
    }

    /// Lines that speak of failures stand out.
    fn mark(&self, line: &str) -> String {
        let bad = line.contains(DOWN) || line.contains(FAILING);
        if bad && self.colours {
            format!("\x1b[31m{line}\x1b[0m")
        } else {
            line.to_owned()
        }
    }

    fn nodes(&self, nodes: &[NodeRate]) -> Vec<Vec<String>> {
        let row = |node: &NodeRate| {
            let mut row = vec![node.node.clone()];
            row.extend(flow(&node.flow));
            let curve = self.curves.get(&node.node).map(curve).unwrap_or_default();
            row.extend([
                node.live.to_string(),
                node.error
                    .as_ref()
                    .map_or(curve, |error| format!("{DOWN} {error}")),
            ]);

            row
        };
        nodes.iter().map(row).collect()
    }

    fn rows(&self, list: &[Rate], count: usize) -> Vec<Vec<String>> {
        let mut list: Vec<&Rate> = list.iter().collect();
        list.sort_by(|one, two| {
            let by_flow = self.sort.key(&one.flow).cmp(&self.sort.key(&two.flow));
            by_flow.then_with(|| (&one.name, &one.node).cmp(&(&two.name, &two.node)))
        });
        let row = |rate: &&Rate| {
            let name = if rate.name.is_empty() {
                "-"
            } else {
                &rate.name
            };

            let mut row = vec![name.to_owned(), rate.node.clone()];
            row.extend(flow(&rate.flow));
            row.extend([
                rate.flow.exchanges.to_string(),
                table::bytes(rate.flow.bytes),
            ]);
            row.extend(rate.endpoints.map(|(well, all)| match all - well {
                0 => format!("{well} of {all} well"),
                _ => format!("{well} of {all} well {FAILING}"),
            }));

            row
        };

        list.iter().take(count).map(row).collect()
    }
}

/// A node that does not answer.
const DOWN: &str = "✗";

/// An upstream of which an endpoint does not work.
const FAILING: &str = "!";

const NODES: [Column; 7] = [
    Column::text("node", 0),
    Column::figure("exch/s", 0),
    Column::figure("failed/s", 0),
    Column::figure("in/s", 0),
    Column::figure("out/s", 0),
    Column::figure("live", 0),
    Column::text("bytes/s, the last 20 s", 0),
];

const UPSTREAMS: [Column; 9] = [
    Column::text("name", 0),
    Column::text("node", 0),
    Column::figure("exch/s", 0),
    Column::figure("failed/s", 0),
    Column::figure("in/s", 0),
    Column::figure("out/s", 0),
    Column::figure("exchanges", 2),
    Column::figure("bytes", 1),
    Column::text("endpoints", 0),
];

const CACHES: [Column; 7] = [
    Column::text("node", 0),
    Column::figure("hits/s", 0),
    Column::figure("misses/s", 0),
    Column::figure("hit %", 0),
    Column::figure("since the start", 1),
    Column::figure("responses", 0),
    Column::figure("bytes", 0),
];

const OPEN: [Column; 7] = [
    Column::text("target", 0),
    Column::text("nodes", 1),
    Column::text("kind", 2),
    Column::text("user", 0),
    Column::figure("in", 0),
    Column::figure("out", 0),
    Column::figure("age", 0),
];

fn flow(flow: &Flow) -> [String; 4] {
    let rate = |rate: f64| {
        if rate == 0.0 {
            "-".to_owned()
        } else {
            format!("{rate:.1}")
        }
    };

    // Whole bytes are shown.
    let bytes = |rate: f64| {
        if rate == 0.0 {
            "-".to_owned()
        } else {
            table::bytes(rate as u64)
        }
    };

    [
        rate(flow.exchanges_per_second),
        rate(flow.failures_per_second),
        bytes(flow.client_to_target_per_second),
        bytes(flow.target_to_client_per_second),
    ]
}

fn cache(cache: &CacheRate) -> Vec<String> {
    let percent = |percent: f64| format!("{percent:.1} %");
    vec![
        cache.node.clone(),
        format!("{:.1}", cache.hits_per_second),
        format!("{:.1}", cache.misses_per_second),
        cache.hit_percent.map_or_else(|| "-".to_owned(), percent),
        percent(cache.hit_percent_since_start),
        cache.responses.to_string(),
        table::bytes(cache.bytes),
    ]
}

fn open(open: &super::rates::Open) -> Vec<String> {
    vec![
        cut(&open.target, 40),
        open.nodes.join(", "),
        open.kind.clone(),
        open.user.clone().unwrap_or_else(|| "-".to_owned()),
        table::bytes(open.client_to_target),
        table::bytes(open.target_to_client),
        table::age(Duration::from_millis(open.age_ms)),
    ]
}

/// Bars as high as their share of the highest.
fn curve(values: &VecDeque<f64>) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        // From 0 to 7: a share is never above 1.
        let height = if highest > 0.0 {
            (value / highest * 7.0).round() as usize
        } else {
            0
        };
        BARS[height.min(BARS.len() - 1)]
    };

    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(name: &str, exchanges: f64, bytes: f64) -> Rate {
        let flow = Flow {
            exchanges_per_second: exchanges,
            target_to_client_per_second: bytes,
            bytes: 10,
            ..Flow::default()
        };
        Rate {
            node: "core".into(),
            name: name.into(),
            endpoints: Some((1, 2)),
            flow,
        }
    }

    fn rates() -> Rates {
        let node = NodeRate {
            node: "core".into(),
            error: None,
            live: 2,
            flow: rate("", 1.5, 2048.0).flow,
        };
        let users = vec![
            rate("alice", 1.0, 10.0),
            rate("bob", 3.0, 5.0),
            rate("", 0.0, 0.0),
        ];
        Rates {
            nodes: vec![node],
            users,
            upstreams: vec![rate("next", 1.0, 1.0)],
            ..Rates::default()
        }
    }

    #[test]
    fn the_order_of_rows_can_be_chosen() {
        let mut screen = Screen::default();
        let first = |screen: &Screen| screen.rows(&rates().users, 1)[0][0].clone();
        assert_eq!(first(&screen), "alice");
        screen.sort = screen.sort.next();
        assert_eq!(first(&screen), "bob");
        screen.sort = Sort::Name;
        assert_eq!(first(&screen), "-");
        assert_eq!(screen.sort.next(), Sort::Bytes);
    }

    #[test]
    fn a_screen_fits_its_size() {
        let screen = Screen::new(false);
        let text = screen.text(&rates(), Some((80, 24)));
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.starts_with(" hermes top   1 node, live "), "{text}");
        assert!(
            text.contains("1 of 2 well !") && text.contains("2.0 KiB"),
            "{text}"
        );
    }

    #[test]
    fn curves_show_the_last_seconds() {
        let mut screen = Screen::default();
        assert_eq!(curve(&[0.0, 1.0, 2.0].into()), "▁▅█");
        assert_eq!(curve(&[0.0].into()), "▁");
        (0..30).for_each(|_| screen.remember(&rates()));
        assert_eq!(screen.curves["core"].len(), CURVE);
    }
}
