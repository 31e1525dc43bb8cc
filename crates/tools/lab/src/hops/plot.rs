//! Results as pictures: a figure over the number of hops, and over the number of transactions of one hop.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::network::Links;
use super::plan::{HopExperiment, HopResults, HopSystem, Point, Way};
use crate::report::number;
use crate::report::svg::{axes, curve, picture, placed, text};

/// A panel for each kind of links, side by side.
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 240.0;
/// Room around the lines of a panel.
const LEFT: f64 = 50.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 30.0;

/// The subject of a picture.
struct Picture {
    file: &'static str,
    experiment: HopExperiment,
    figure: &'static str,
    unit: &'static str,
    /// Over transactions, else over hops.
    transactions: bool,
}

const PICTURES: [Picture; 5] = [
    Picture {
        file: "hops-datagrams.svg",
        experiment: HopExperiment::Datagrams,
        figure: "rate",
        unit: "1000/s",
        transactions: false,
    },
    Picture {
        file: "transactions-datagrams.svg",
        experiment: HopExperiment::Datagrams,
        figure: "rate",
        unit: "1000/s",
        transactions: true,
    },
    Picture {
        file: "hops-latency.svg",
        experiment: HopExperiment::Latency,
        figure: "kept flow",
        unit: "us",
        transactions: false,
    },
    Picture {
        file: "hops-download.svg",
        experiment: HopExperiment::Download,
        figure: "throughput",
        unit: "Mbit/s",
        transactions: false,
    },
    Picture {
        file: "transactions-download.svg",
        experiment: HopExperiment::Download,
        figure: "throughput",
        unit: "Mbit/s",
        transactions: true,
    },
];

/// A line: its name, its colour, and its points by their place on the axis.
struct Line {
    name: String,
    colour: &'static str,
    points: Vec<(usize, f64)>,
}

/// Writes the pictures for which there are figures, and says which.
///
/// # Errors
/// When a file cannot be written.
pub fn save(results: &HopResults, folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut written = Vec::new();
    for shown in &PICTURES {
        let panels: Vec<_> = Links::ALL
            .iter()
            .filter_map(|links| panel(results, shown, *links))
            .collect();
        if panels.is_empty() {
            continue;
        }

        let places = (0..).map(|place| f64::from(place) * WIDTH);
        let content = panels
            .iter()
            .zip(places)
            .map(|(panel, x)| placed(x, 0.0, panel));
        let content: String = content.collect();
        let file = folder.join(shown.file);
        fs::write(
            &file,
            picture(WIDTH * panels.len() as f64, HEIGHT, &content),
        )
        .with_context(|| file.display().to_string())?;
        written.push(shown.file.to_owned());
    }

    Ok(written)
}

fn panel(results: &HopResults, shown: &Picture, links: Links) -> Option<String> {
    let axis = axis(results, shown, links);
    let lines = lines(results, shown, links, &axis);

    // The rate without a proxy may be twenty times the others': values far above the others are left out.
    let largest = |line: &&Line| line.points.iter().map(|point| point.1).reduce(f64::max);
    let proxies = lines
        .iter()
        .filter(|line| line.name != HopSystem::Direct.name())
        .filter_map(|line| largest(&line));
    let most = proxies.reduce(f64::max).or_else(|| {
        lines
            .iter()
            .filter_map(|line| largest(&line))
            .reduce(f64::max)
    })?;

    let x = |place: usize| {
        LEFT + (WIDTH - LEFT - RIGHT) * place as f64 / (axis.len() - 1).max(1) as f64
    };
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most;
    let over = if shown.transactions {
        "transactions at once, one hop"
    } else {
        "hops"
    };

    let title = format!(
        "{}, {} links: {} in {} over {over}",
        shown.experiment.name(),
        links.name(),
        shown.figure,
        shown.unit
    );

    let mut content = text(4.0, 16.0, "start", &title);
    let right = x(axis.len() - 1);
    content += &axes(LEFT, right, y(most), y(0.0), &number(most));

    for (place, value) in axis.iter().enumerate() {
        content += &text(x(place), HEIGHT - 14.0, "middle", &value.to_string());
    }
    for mut line in lines {
        line.points.retain(|point| point.1 <= most);
        content += &drawn(&line, x, y);
    }

    Some(content)
}

/// A line, a dot at each point, and its name at its end.
fn drawn(line: &Line, x: impl Fn(usize) -> f64, y: impl Fn(f64) -> f64) -> String {
    let Line {
        name,
        colour,
        points,
    } = line;
    if points.is_empty() {
        return String::new();
    }

    let places = points.iter();
    let places: Vec<_> = places
        .map(|(place, value)| [x(*place), y(*value)])
        .collect();
    let mut content = curve(places.iter().copied(), colour);

    for [x, y] in &places {
        content += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
    }
    if let Some([x, y]) = places.last() {
        content += &text(x + 6.0, y + 4.0, "start", name);
    }

    content
}

/// The numbers of hops or of transactions that there are figures of.
fn axis(results: &HopResults, shown: &Picture, links: Links) -> Vec<u32> {
    let own = results
        .series
        .iter()
        .map(|series| series.case)
        .filter(|point| wanted(shown, links, *point));
    let mut values: Vec<u32> = own.map(|point| value(shown, point)).collect();
    values.sort_unstable();
    values.dedup();

    values
}

fn wanted(shown: &Picture, links: Links, point: Point) -> bool {
    let fixed = if shown.transactions {
        point.hops <= 1
    } else {
        point.transactions == 1
    };
    point.experiment == shown.experiment && point.links == links && fixed
}

fn value(shown: &Picture, point: Point) -> u32 {
    if shown.transactions {
        point.transactions
    } else {
        u32::from(point.hops)
    }
}

/// One line for each system and way. Over hops, chains begin where there is no proxy.
fn lines(results: &HopResults, shown: &Picture, links: Links, axis: &[u32]) -> Vec<Line> {
    let kinds = [
        (HopSystem::Direct, Way::Direct, "#777777"),
        (HopSystem::Hermes, Way::Forwarded, "#d1495b"),
        (HopSystem::Hermes, Way::Nested, "#8d5a97"),
        (HopSystem::Envoy, Way::Forwarded, "#00798c"),
        (HopSystem::MasqueGo, Way::Forwarded, "#edae49"),
    ];

    let mut lines = Vec::new();
    for (system, way, colour) in kinds {
        let own = results.series.iter().filter(|series| {
            series.system == system && series.case.way == way && series.figure.name == shown.figure
        });
        let mut points: Vec<_> = own
            .filter(|series| wanted(shown, links, series.case))
            .filter_map(|series| {
                let place = axis
                    .iter()
                    .position(|value| *value == self::value(shown, series.case))?;
                Some((
                    place,
                    results.named(series.case, system, shown.figure)?.median,
                ))
            })
            .collect();

        points.sort_by_key(|point| point.0);
        if !points.is_empty() {
            let name = if way == Way::Nested {
                way.name()
            } else {
                system.name()
            };
            lines.push(Line {
                name: name.to_owned(),
                colour,
                points,
            });
        }
    }

    lines
}
