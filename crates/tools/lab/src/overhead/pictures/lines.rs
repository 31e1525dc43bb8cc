//! For each case a panel with the time over the number of clients, one line for each system.

use super::super::figures::{CaseResults, Section};
use super::colours::colour;
use crate::experiment::Case;
use crate::peers::Name;
use crate::report::number;
use crate::report::svg::{axes, curve, placed, text};

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
pub fn draw(results: &CaseResults, section: &Section) -> (f64, f64, String) {
    let mut cases: Vec<Case> = section.rows.iter().map(|(case, _)| *case).collect();
    cases.dedup();
    let mut content = String::new();

    for (index, case) in cases.iter().enumerate() {
        let x = (index % COLUMNS) as f64 * WIDTH;
        let y = (index / COLUMNS) as f64 * HEIGHT;
        let panel = panel(results, *case, section);
        content += &placed(x, y, &panel);
    }

    (
        WIDTH * COLUMNS as f64,
        HEIGHT * cases.len().div_ceil(COLUMNS) as f64,
        content,
    )
}

/// Numbers of clients, and the medians of one system there.
fn points(results: &CaseResults, case: Case, section: &Section, system: Name) -> Vec<(f64, f64)> {
    let own = section.rows.iter().filter(|(other, _)| *other == case);
    own.filter_map(|(_, figure)| {
        let clients = figure.name.strip_suffix(" clients")?.parse().ok()?;
        Some((clients, results.of(case, figure, system)?.median))
    })
    .collect()
}

fn panel(results: &CaseResults, case: Case, section: &Section) -> String {
    let lines: Vec<_> = section
        .systems
        .iter()
        .map(|system| (*system, points(results, case, section, *system)))
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
    let bottom = HEIGHT - BOTTOM;
    let right = x(most_clients);
    content += &axes(LEFT, right, y(most_time), bottom, &number(most_time));
    let clients = format!("{most_clients:.0} clients");
    content += &text(right, HEIGHT - 10.0, "end", &clients);

    let ends: Vec<f64> = lines
        .iter()
        .filter_map(|(_, line)| line.last())
        .map(|last| y(last.1))
        .collect();
    let drawn = lines.into_iter().filter(|(_, line)| !line.is_empty());
    for ((system, line), label) in drawn.zip(apart(&ends)) {
        let at = line.iter().map(|point| [x(point.0), y(point.1)]);
        content += &curve(at, colour(system));
        content += &text(x(most_clients) + 4.0, label + 4.0, "start", system.text());
    }

    content
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
