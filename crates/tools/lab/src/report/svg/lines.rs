//! For each case a panel with the time over the number of clients, one line for each system.

use super::{Results, colour, text};
use crate::experiment::Case;
use crate::peers::Name;
use crate::report::{Row, number};

/// Two panels side by side.
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 240.0;
const COLUMNS: usize = 2;
/// Room around the lines of a panel.
const LEFT: f64 = 50.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 26.0;
/// Height of a label.
const LABEL: f64 = 12.0;

/// Width, height and content of the picture of an experiment whose figures are named after a number of clients.
pub fn draw(results: &Results, rows: &[Row], systems: &[Name]) -> (f64, f64, String) {
    let mut cases: Vec<Case> = rows.iter().map(|(case, _)| *case).collect();
    cases.dedup();
    let mut content = String::new();

    for (index, case) in cases.iter().enumerate() {
        let x = (index % COLUMNS) as f64 * WIDTH;
        let y = (index / COLUMNS) as f64 * HEIGHT;
        let panel = panel(results, *case, rows, systems);
        content += &format!("<g transform=\"translate({x:.0} {y:.0})\">\n{panel}</g>\n");
    }

    (
        WIDTH * COLUMNS as f64,
        HEIGHT * cases.len().div_ceil(COLUMNS) as f64,
        content,
    )
}

/// Numbers of clients, and the medians of one system there.
fn points(results: &Results, case: Case, rows: &[Row], system: Name) -> Vec<(f64, f64)> {
    let own = rows.iter().filter(|(other, _)| *other == case);
    own.filter_map(|(_, figure)| {
        let clients = figure.name.strip_suffix(" clients")?.parse().ok()?;
        Some((clients, results.of(case, figure, system)?.median))
    })
    .collect()
}

fn panel(results: &Results, case: Case, rows: &[Row], systems: &[Name]) -> String {
    let lines: Vec<_> = systems
        .iter()
        .map(|system| (*system, points(results, case, rows, *system)))
        .collect();
    let largest = |part: fn(&(f64, f64)) -> f64| {
        lines
            .iter()
            .flat_map(|(_, line)| line)
            .map(part)
            .fold(1.0, f64::max)
    };

    let most_clients = largest(|point| point.0);
    let most_time = largest(|point| point.1);
    let x = |clients: f64| LEFT + (WIDTH - LEFT - RIGHT) * clients / most_clients;
    let y = |time: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * time / most_time;

    let title = format!(
        "{} over {}: ms until all have answers",
        case.kind.name(),
        case.link.name()
    );
    let mut content = text(LEFT, 16.0, "start", &title);
    content += &axes((x(most_clients), most_clients), (y(most_time), most_time));

    let ends: Vec<f64> = lines
        .iter()
        .filter_map(|(_, line)| line.last())
        .map(|last| y(last.1))
        .collect();
    let drawn = lines.into_iter().filter(|(_, line)| !line.is_empty());
    for ((system, line), label) in drawn.zip(apart(&ends)) {
        let at = line.iter().map(|point| (x(point.0), y(point.1)));
        content += &curve(at, colour(system));
        content += &text(x(most_clients) + 4.0, label + 4.0, "start", system.text());
    }

    content
}

/// The two axes: where each ends, and the value there.
fn axes((right, most_clients): (f64, f64), (top, most_time): (f64, f64)) -> String {
    let bottom = HEIGHT - BOTTOM;
    let lines = format!(
        "<path d=\"M{LEFT:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#999999\"/>\n"
    );

    let clients = format!("{most_clients:.0} clients");
    [
        lines,
        text(LEFT - 4.0, top + 4.0, "end", &number(most_time)),
        text(LEFT - 4.0, bottom, "end", "0"),
        text(right, HEIGHT - 10.0, "end", &clients),
    ]
    .concat()
}

/// A line through these places.
fn curve(places: impl Iterator<Item = (f64, f64)>, colour: &str) -> String {
    let path: Vec<_> = places.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    format!(
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
        path.join("L")
    )
}

/// Places for labels near these, in their order from top to bottom, none of which overlaps another.
fn apart(places: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|one, other| places[*other].total_cmp(&places[*one]));
    let mut apart = places.to_vec();
    let mut above = HEIGHT;

    // From the lowest upwards: the lines begin together at the bottom, and there is room above.
    for index in order {
        apart[index] = places[index].min(above - LABEL);
        above = apart[index];
    }

    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_do_not_lie_on_each_other() {
        assert_eq!(apart(&[200.0, 195.0, 100.0]), [200.0, 200.0 - LABEL, 100.0]);
        assert_eq!(apart(&[100.0, 200.0, 200.0]), [100.0, 200.0, 200.0 - LABEL]);
        assert_eq!(apart(&[]), Vec::<f64>::new());
    }
}
