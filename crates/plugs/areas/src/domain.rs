//! One place as its settings have it: areas, authoriser, partners and files.

use std::fs;
use std::io::Read;
use std::path::Path;

use hermes_config::{Problem, Problems};
use hermes_plan::{AreaPair, Areas, Plan, Planner, Unplanned, Work};
use http::uri::Authority;
use indexmap::IndexMap;

use crate::authoriser::Authoriser;
use crate::ledger::Ledger;
use crate::settings::AreasSettings;
use crate::shelf::Shelf;

/// Steps that the plan of one request may take: some milliseconds, on no worker.
#[doc(alias = "bound")]
const STEPS: u64 = 2_000_000;

/// Bytes of the file of areas.
#[doc(alias = "bound")]
const FILE: u64 = 32 << 20;

/// The settings of a place, read and checked.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) areas: Areas,
    pub(crate) place: String,
    pub(crate) authoriser: Authoriser,
    partners: IndexMap<String, Authority>,
    pub(crate) shelf: Shelf,
}

impl Domain {
    /// The domain of these settings, or their mistakes with paths from the settings on. Reads the file of areas.
    pub(crate) fn new(settings: &AreasSettings) -> Result<Self, Vec<Problem>> {
        let file: &Path = &settings.file.0;
        let text = read(file).map_err(|reason| vec![Problem::new("file", reason)])?;
        let areas = Areas::read(file, &text).map_err(|Problems(found)| {
            let found = found.into_iter();
            found
                .map(|problem| Problem::new("file", problem.to_string()))
                .collect::<Vec<_>>()
        })?;

        let mut problems = Vec::new();
        let known: Vec<&String> = areas.file().places.keys().collect();
        for (path, place) in std::iter::once(("at".to_owned(), &settings.at)).chain(
            settings
                .partners
                .keys()
                .map(|place| (hermes_config::child("partners", place), place)),
        ) {
            if !known.contains(&place) {
                let reason = format!("there is no place `{place}`");
                problems.push(
                    Problem::new(path, reason)
                        .remedy("name it under `places` of the file of areas"),
                );
            }
        }
        let mut partners = IndexMap::new();
        for (place, target) in &settings.partners {
            match target.parse::<Authority>() {
                Ok(authority) if authority.port_u16().is_some() && !target.contains('@') => {
                    partners.insert(place.clone(), authority);
                }
                _ => {
                    let path = hermes_config::child("partners", place);
                    let reason = format!("`{target}` is no host with a port");
                    problems.push(Problem::new(path, reason).remedy("such as `areas.umc:80`"));
                }
            }
        }
        let authoriser = Authoriser::new(&settings.allow, &areas);
        match (authoriser, problems.is_empty()) {
            (Ok(authoriser), true) => Ok(Self {
                areas,
                place: settings.at.clone(),
                authoriser,
                partners,
                shelf: Shelf::new(settings.folder.0.clone()),
            }),
            (authoriser, _) => {
                problems.extend(authoriser.err().into_iter().flatten());
                Err(problems)
            }
        }
    }

    /// The plan of a path beside those that exist; `None` if an area is unknown.
    pub(crate) fn plan(
        &self,
        ledger: &Ledger,
        from: &str,
        to: &str,
    ) -> Option<Result<Plan, Unplanned>> {
        let pair = AreaPair {
            from: self.areas.area(from)?,
            to: self.areas.area(to)?,
        };
        let mut planner = Planner::new(&self.areas).beside(ledger.usage());
        Some(planner.plan(pair, &mut Work::new(STEPS)))
    }

    /// The other places of a plan, each once, the last first: a place is provisioned before those that send to it.
    pub(crate) fn others(&self, plan: &Plan) -> Vec<String> {
        let mut others: Vec<String> = Vec::new();
        for stop in plan.stops.iter().rev() {
            if stop.place != self.place && !others.contains(&stop.place) {
                others.push(stop.place.clone());
            }
        }
        others
    }

    pub(crate) fn partner(&self, place: &str) -> Option<&Authority> {
        self.partners.get(place)
    }

    /// Whether a user may still have a path, and all its areas and functions still exist.
    pub(crate) fn keeps(&self, plan: &Plan, user: &str) -> bool {
        let exist = self.areas.area(&plan.from).is_some() && self.areas.area(&plan.to).is_some();
        let functions = &self.areas.file().functions;
        exist
            && plan
                .steps()
                .all(|step| functions.contains_key(&step.function))
            && self.authoriser.allows(user, &plan.from, &plan.to)
    }
}

fn read(file: &Path) -> Result<String, String> {
    let failed = |error| format!("{}: {error}", file.display());
    let found = fs::metadata(file).map_err(failed)?;
    if !found.is_file() {
        return Err(format!("{}: it is no file", file.display()));
    }
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(failed)?;
    opened
        .take(FILE)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}
