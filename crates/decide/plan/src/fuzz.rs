//! Any bytes: a file of areas is read or refused, and each question is answered within its bound.

use std::path::Path;

use crate::ids::AreaPair;
use crate::{Areas, Planner, Work};

/// Reads any bytes as a file of areas, and asks for a plan from its first area to its last, and for all pairs.
///
/// # Panics
/// When a refusal has no reason, or a plan does not begin and end at the places of its areas: both are bugs.
pub(crate) fn fuzz_one(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let areas = match Areas::read(Path::new("areas.yaml"), &text) {
        Ok(areas) => areas,
        Err(problems) => {
            assert!(problems.0.iter().all(|problem| !problem.reason.is_empty()));
            return;
        }
    };

    let mut planner = Planner::new(&areas);
    let mut work = Work::new(100_000);
    let ends = areas.all().next().zip(areas.all().last());
    let Some((from, to)) = ends else { return };
    match planner.plan(AreaPair { from, to }, &mut work) {
        Ok(plan) => {
            let first = plan.stops.first().map(|stop| stop.place.as_str());
            let last = plan.stops.last().map(|stop| stop.place.as_str());
            assert_eq!(first, Some(areas.place_of(from)));
            assert_eq!(last, Some(areas.place_of(to)));
        }
        Err(unplanned) => assert!(!unplanned.to_string().is_empty()),
    }
    drop(planner.each_pair(&mut work, |_, _| {}));
}
