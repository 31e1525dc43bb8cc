//! From the text of a file to areas, or to all of its mistakes.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;

use hermes_config::model::scalar::TargetMatch;
use hermes_config::{
    Places, Problem, Problems, child, element, from_json, nearest, read_documents, schema_of,
};
use indexmap::{IndexMap, IndexSet};
use serde_json::Value as Json;

use crate::areas::{Area, Areas, Function, Link, Runs};
use crate::file::{AreaSpec, AreasFile, FunctionSpec};
use crate::ids::{AreaId, AreaPair};

/// Areas of a file: a million pairs.
#[doc(alias = "bound")]
const AREAS: usize = 1_000;

/// Places of a file: ways between all of them are kept.
#[doc(alias = "bound")]
const PLACES: usize = 2_000;

/// Functions of a file.
#[doc(alias = "bound")]
const FUNCTIONS: usize = 1_000;

/// Links of a file.
#[doc(alias = "bound")]
const LINKS: usize = 20_000;

/// Paths that a file wants.
#[doc(alias = "bound")]
const PATHS: usize = 10_000;

/// Different attributes of a file.
#[doc(alias = "bound")]
const ATTRIBUTES: usize = 131_072;

/// Bytes of a name, so that a table can be read.
#[doc(alias = "bound")]
const NAME: usize = 64;

/// Mistakes that are told; in a file with more, later ones are not sought.
#[doc(alias = "bound")]
const MISTAKES: usize = 100;

/// Known names that an unknown one is compared with: each comparison costs the product of their lengths.
#[doc(alias = "bound")]
const COMPARED: usize = 1_000;

impl Areas {
    /// Reads a file of areas; `name` is its name in mistakes.
    ///
    /// # Errors
    /// All mistakes, with file, line, reason and, where it is known, the remedy.
    pub fn read(name: &Path, text: &str) -> Result<Self, Problems> {
        static SCHEMA: OnceLock<Json> = OnceLock::new();
        let schema = SCHEMA.get_or_init(schema_of::<AreasFile>);

        let read = read_documents(name, text);
        if !read.problems.is_empty() {
            return Err(Problems(read.problems));
        }
        let [document] = read.documents.as_slice() else {
            let reason = format!(
                "{}: a file of areas is one document, this has {}",
                name.display(),
                read.documents.len()
            );
            let problem = Problem::new("", reason).remedy("begin with `version: 1`");
            return Err(Problems(vec![problem]));
        };

        let json = document.check(schema).map_err(Problems)?;
        let places = document.places();
        let file = from_json::<AreasFile>(&json)
            .map_err(|problem| Problems(vec![places.placed(problem)]))?;
        Self::of(file, &places)
    }

    /// The areas of a file that was read; `places` says where its parts are written.
    ///
    /// # Errors
    /// All mistakes in its meaning.
    pub fn of(file: AreasFile, places: &Places) -> Result<Self, Problems> {
        let mut reader = Reader::new(&file);
        reader.bounds();
        if reader.problems.is_empty() {
            let areas = reader.areas();
            let functions = reader.functions();
            let links = reader.links();
            let paths = reader.paths();
            if reader.problems.is_empty() {
                return Ok(reader.finish(Parts {
                    areas,
                    functions,
                    links,
                    paths,
                }));
            }
        }

        let problems = reader.problems.into_iter();
        let placed = problems.map(|problem| places.placed(problem));
        Err(Problems(placed.collect()).in_order(&[]))
    }
}

/// What a reader made of the sections of a file.
struct Parts {
    areas: Vec<Area>,
    functions: Vec<Function>,
    links: Option<Vec<Vec<Link>>>,
    paths: Vec<AreaPair>,
}

struct Reader<'a> {
    file: &'a AreasFile,
    attributes: IndexSet<String>,
    /// Whether the file names the attributes that there are.
    is_closed: bool,
    /// Whether it has more of them than it may have, which is told once.
    is_full: bool,
    places: IndexSet<String>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a AreasFile) -> Self {
        let mut places: IndexSet<String> = file.places.keys().cloned().collect();
        if file.places.is_empty() {
            let named = file.areas.iter();
            places.extend(named.map(|(name, area)| area.at.clone().unwrap_or(name.clone())));
        }
        Self {
            file,
            attributes: file.attributes.iter().cloned().collect(),
            is_closed: !file.attributes.is_empty(),
            is_full: false,
            places,
            problems: Vec::new(),
        }
    }

    fn finish(self, parts: Parts) -> Areas {
        let numbers = parts.areas.iter().enumerate();
        let area_numbers = numbers
            .map(|(number, area)| (area.name.clone(), number))
            .collect();
        let mut givers = vec![Vec::new(); self.attributes.len()];
        for (number, function) in parts.functions.iter().enumerate() {
            for attribute in &function.adds {
                givers[*attribute].push(number);
            }
        }

        Areas {
            file: self.file.clone(),
            attributes: self.attributes.into_iter().collect(),
            places: self.places.into_iter().collect(),
            areas: parts.areas,
            functions: parts.functions,
            links: parts.links,
            paths: parts.paths,
            area_numbers,
            givers,
        }
    }

    fn bounds(&mut self) {
        let file = self.file;
        let links = file.links.as_ref().map_or(0, Vec::len);
        for (path, number, most) in [
            ("areas", file.areas.len(), AREAS),
            ("places", self.places.len(), PLACES),
            ("functions", file.functions.len(), FUNCTIONS),
            ("links", links, LINKS),
            ("paths", file.paths.len(), PATHS),
            ("attributes", file.attributes.len(), ATTRIBUTES),
        ] {
            if number > most {
                let reason = format!("{number} {path}; a file may have {most}");
                self.problem(
                    path,
                    reason,
                    "divide it: areas that share no path need no common file",
                );
            }
        }
        if file.areas.is_empty() {
            self.problem("areas", "there is no area".into(), "name two areas");
        }
        self.names("places", &file.places);
        self.names("areas", &file.areas);
        self.names("functions", &file.functions);
    }

    fn names<T>(&mut self, path: &str, named: &IndexMap<String, T>) {
        let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        for name in named.keys() {
            if name.is_empty() || name.len() > NAME || !name.chars().all(is_usual) {
                let reason = format!("{name:?} is no name");
                let remedy = format!("take letters, digits, `-`, `_` and `.`, {NAME} at most");
                self.problem(&child(path, name), reason, &remedy);
            }
        }
    }

    fn areas(&mut self) -> Vec<Area> {
        let file = self.file;
        let areas = file.areas.iter();
        areas.map(|(name, spec)| self.area(name, spec)).collect()
    }

    fn area(&mut self, name: &str, spec: &AreaSpec) -> Area {
        let path = child("areas", name);
        let (place, place_path) = match &spec.at {
            Some(place) => (place.as_str(), child(&path, "at")),
            None => (name, path.clone()),
        };
        let place = self.place(&place_path, place);
        let has = self.attributes(&child(&path, "has"), &spec.has);
        let needs = self.attributes(&child(&path, "needs"), &spec.needs);
        for (index, target) in spec.targets.iter().enumerate() {
            if let Err(error) = target.parse::<TargetMatch>() {
                let path = element(&child(&path, "targets"), index);
                let remedy = error.remedy.unwrap_or("such as `ehr.example:443`".into());
                self.problem(&path, error.reason, &remedy);
            }
        }

        let mut guards: Vec<usize> = has.iter().chain(&needs).copied().collect();
        guards.sort_unstable();
        guards.dedup();
        Area {
            name: name.to_owned(),
            place,
            has,
            needs,
            guards,
        }
    }

    fn functions(&mut self) -> Vec<Function> {
        let file = self.file;
        let functions = file.functions.iter();
        functions
            .map(|(name, spec)| self.function(name, spec))
            .collect()
    }

    fn function(&mut self, name: &str, spec: &FunctionSpec) -> Function {
        let path = child("functions", name);
        let adds = self.attributes(&child(&path, "adds"), &spec.adds);
        let removes = self.attributes(&child(&path, "removes"), &spec.removes);
        let needs = self.attributes(&child(&path, "needs"), &spec.needs);
        if let Some(both) = adds.iter().find(|added| removes.contains(added)) {
            let reason = format!("it adds and removes `{}`", self.attributes[*both]);
            self.problem(&child(&path, "removes"), reason, "keep one of them");
        }

        let runs = match &spec.at {
            None => Runs::Everywhere,
            Some(at) => Runs::At(self.runs_at(&child(&path, "at"), at)),
        };
        Function {
            name: name.to_owned(),
            adds,
            removes,
            needs,
            cost: u64::from(spec.cost),
            runs,
            capacity: spec.capacity,
        }
    }

    fn runs_at(&mut self, path: &str, at: &[String]) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for (index, place) in at.iter().enumerate() {
            places.push(self.place(&element(path, index), place));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn links(&mut self) -> Option<Vec<Vec<Link>>> {
        let file = self.file;
        let written = file.links.as_ref()?;
        let mut links = vec![Vec::new(); self.places.len()];
        for (index, link) in written.iter().enumerate() {
            let path = child(&element("links", index), "between");
            // The schema demands two.
            let [one, other] = link.between.as_slice() else {
                self.problem(&path, "a link joins two places".into(), "name two places");
                continue;
            };
            let one = self.place(&element(&path, 0), one);
            let other = self.place(&element(&path, 1), other);
            let cost = u64::from(link.cost);
            for (from, to) in [(one, other), (other, one)] {
                if let Some(links) = links.get_mut(from) {
                    links.push(Link { to, cost });
                }
            }
        }
        Some(links)
    }

    fn paths(&mut self) -> Vec<AreaPair> {
        let file = self.file;
        let numbers: HashMap<&str, usize> = file
            .areas
            .keys()
            .enumerate()
            .map(|(number, name)| (name.as_str(), number))
            .collect();
        let mut paths = Vec::new();
        let mut known = HashSet::new();
        for (index, path) in file.paths.iter().enumerate() {
            let place = element("paths", index);
            let from = self.area_number(&child(&place, "from"), &path.from, &numbers);
            let to = self.area_number(&child(&place, "to"), &path.to, &numbers);
            let pair = AreaPair {
                from: AreaId(from),
                to: AreaId(to),
            };
            if !known.insert((&path.from, &path.to)) {
                let reason = format!("the path from {} to {} stands twice", path.from, path.to);
                self.problem(&place, reason, "keep one of them");
            }
            paths.push(pair);
        }
        paths
    }

    fn area_number(&mut self, path: &str, name: &str, numbers: &HashMap<&str, usize>) -> usize {
        if let Some(number) = numbers.get(name) {
            return *number;
        }
        self.unknown(path, Noun::Area, name);
        0
    }

    /// The number of a place; that of the first, with a problem, if it is unknown.
    fn place(&mut self, path: &str, name: &str) -> usize {
        if let Some(number) = self.places.get_index_of(name) {
            return number;
        }
        self.unknown(path, Noun::Place, name);
        0
    }

    /// Numbers of attributes, sorted.
    fn attributes(&mut self, path: &str, names: &[String]) -> Vec<usize> {
        let mut numbers = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let known = self.attributes.get_index_of(name.as_str());
            match known {
                Some(number) => numbers.push(number),
                None if self.is_closed => {
                    self.unknown(&element(path, index), Noun::Attribute, name)
                }
                None => numbers.extend(self.new_attribute(&element(path, index), name)),
            }
        }

        numbers.sort_unstable();
        let before = numbers.len();
        numbers.dedup();
        if numbers.len() < before {
            let reason = "an attribute stands twice".to_owned();
            self.problem(path, reason, "name each once");
        }
        numbers
    }

    fn new_attribute(&mut self, path: &str, name: &str) -> Option<usize> {
        if self.attributes.len() == ATTRIBUTES {
            if self.is_full {
                return None;
            }
            self.is_full = true;
            let reason = format!("more than {ATTRIBUTES} different attributes");
            self.problem(path, reason, "divide the file");
            return None;
        }
        if name.is_empty() || name.len() > NAME || name.chars().any(char::is_control) {
            let remedy = format!("take a word, {NAME} bytes at most");
            self.problem(path, format!("{name:?} is no attribute"), &remedy);
            return None;
        }
        Some(self.attributes.insert_full(name.to_owned()).0)
    }

    fn problem(&mut self, path: &str, reason: String, remedy: &str) {
        if self.problems.len() < MISTAKES {
            let problem = Problem::new(path, reason).remedy(remedy);
            self.problems.push(problem);
        }
    }

    /// Tells of a name that stands for nothing, with the one that was probably meant.
    fn unknown(&mut self, path: &str, noun: Noun, name: &str) {
        if self.problems.len() >= MISTAKES {
            return;
        }
        let known: Box<dyn Iterator<Item = &String>> = match noun {
            Noun::Area => Box::new(self.file.areas.keys()),
            Noun::Place => Box::new(self.places.iter()),
            Noun::Attribute => Box::new(self.attributes.iter()),
        };
        let meant = nearest(name, known.map(String::as_str).take(COMPARED));
        let word = noun.word();
        let problem = Problem::new(path, format!("there is no {word} `{name}`"));
        let remedy = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("name it under `{word}s`, or correct it"),
        };
        self.problems.push(problem.remedy(remedy));
    }
}

/// The things that have names.
#[derive(Debug, Clone, Copy)]
enum Noun {
    Area,
    Place,
    Attribute,
}

impl Noun {
    fn word(self) -> &'static str {
        match self {
            Self::Area => "area",
            Self::Place => "place",
            Self::Attribute => "attribute",
        }
    }
}
