//! Tests of the whole: files, plans and their reasons.

mod against_all_ways;
mod hostile;
mod plans;

use std::path::Path;

use crate::{AreaPair, Areas, Plan, Planner, Unplanned, Work};

fn read(text: &str) -> Areas {
    let read = Areas::read(Path::new("areas.yaml"), text);
    read.unwrap_or_else(|problems| panic!("{problems}"))
}

/// The mistakes of a file, one a line.
fn mistakes(text: &str) -> String {
    let read = Areas::read(Path::new("areas.yaml"), text);
    read.map(|_| ()).unwrap_err().to_string()
}

fn pair(areas: &Areas, from: &str, to: &str) -> AreaPair {
    AreaPair {
        from: areas.area(from).unwrap(),
        to: areas.area(to).unwrap(),
    }
}

fn plan(text: &str, from: &str, to: &str) -> Result<Plan, Unplanned> {
    let areas = read(text);
    let pair = pair(&areas, from, to);
    Planner::new(&areas).plan(pair, &mut Work::default())
}

/// A plan in short: `amc[encrypt] hub[scan] umc: 24`.
fn short(plan: &Plan) -> String {
    let stops = plan.stops.iter().map(|stop| {
        let names: Vec<&str> = stop
            .functions
            .iter()
            .map(|step| step.function.as_str())
            .collect();
        match names.is_empty() {
            true => stop.place.clone(),
            false => format!("{}[{}]", stop.place, names.join(" ")),
        }
    });
    format!("{}: {}", stops.collect::<Vec<_>>().join(" "), plan.cost)
}
