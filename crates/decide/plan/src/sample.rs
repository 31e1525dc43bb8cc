//! Areas by chance, for measurements: the same for the same seed.

use hermes_config::Places;
use indexmap::IndexMap;

use crate::areas::Areas;
use crate::file::{AreaSpec, AreasFile, FunctionSpec, LinkSpec, PlaceSpec};

/// The size of a sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Areas.
    pub areas: usize,
    /// Places: a ring with as many chords.
    pub places: usize,
    /// Attributes in all.
    pub attributes: usize,
    /// Attributes of an area, at most.
    pub each: usize,
    /// Functions; each gives one attribute, and every fourth takes one away.
    pub functions: usize,
    /// Places where a function may run; 0: everywhere.
    pub at: usize,
}

impl Sample {
    /// A thousand areas with few attributes each, as organisations have them.
    pub const SPARSE: Self = Self {
        areas: 1000,
        places: 100,
        attributes: 200,
        each: 4,
        functions: 150,
        at: 4,
    };

    /// A thousand areas with many attributes of few, and functions that may run at many places: little is the same for two pairs, and
    /// much can be chosen.
    pub const DENSE: Self = Self {
        areas: 1000,
        places: 100,
        attributes: 24,
        each: 5,
        functions: 24,
        at: 5,
    };

    /// The areas.
    ///
    /// # Panics
    /// When a sample is larger than a file of areas may be.
    pub fn areas(self, seed: u64) -> Areas {
        let areas = Areas::of(self.file(seed), &Places::nowhere());
        areas.unwrap_or_else(|problems| panic!("a sample within the bounds: {problems}"))
    }

    /// The file of the areas.
    pub fn file(self, seed: u64) -> AreasFile {
        let mut chance = Chance(seed | 1);
        let areas = self.some_areas(&mut chance);
        let functions = self.some_functions(&mut chance);
        let links = self.some_links(&mut chance);
        let places = (0..self.places).map(|number| (place(number), PlaceSpec::default()));
        AreasFile {
            version: 1,
            attributes: Vec::new(),
            places: places.collect(),
            areas,
            functions,
            links: Some(links),
            paths: Vec::new(),
        }
    }

    fn some_areas(self, chance: &mut Chance) -> IndexMap<String, AreaSpec> {
        let areas = (0..self.areas).map(|number| {
            let count = chance.below(self.each + 1);
            let has = chance.some(count, self.attributes);
            let spec = AreaSpec {
                at: Some(place(chance.below(self.places))),
                has: has.into_iter().map(attribute).collect(),
                ..AreaSpec::default()
            };
            (format!("area-{number}"), spec)
        });
        areas.collect()
    }

    fn some_functions(self, chance: &mut Chance) -> IndexMap<String, FunctionSpec> {
        let functions = (0..self.functions).map(|number| {
            let gives = number % self.attributes;
            let takes = (gives + 1 + chance.below(self.attributes - 1)) % self.attributes;
            let at = chance.some(self.at, self.places);
            let spec = FunctionSpec {
                adds: vec![attribute(gives)],
                removes: match number % 4 {
                    0 => vec![attribute(takes)],
                    _ => Vec::new(),
                },
                cost: u32::try_from(1 + chance.below(20)).unwrap_or(1),
                at: (self.at > 0).then(|| at.into_iter().map(place).collect()),
                ..FunctionSpec::default()
            };
            (format!("function-{number}"), spec)
        });
        functions.collect()
    }

    /// A ring, and a chord from each place.
    fn some_links(self, chance: &mut Chance) -> Vec<LinkSpec> {
        let ring = (0..self.places).map(|number| (number + 1) % self.places);
        let chords: Vec<usize> = (0..self.places)
            .map(|_| chance.below(self.places))
            .collect();
        let ends = ring.zip(chords).enumerate();
        let links = ends.flat_map(|(from, (next, chord))| [(from, next), (from, chord)]);
        let links = links.map(|(one, other)| LinkSpec {
            between: vec![place(one), place(other)],
            cost: u32::try_from(1 + (one * 7 + other) % 9).unwrap_or(1),
        });
        links.collect()
    }
}

fn place(number: usize) -> String {
    format!("place-{number}")
}

fn attribute(number: usize) -> String {
    format!("attribute-{number}")
}

/// Numbers that look like chance: a linear congruential generator is enough.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound.max(1)
    }

    /// Different numbers.
    fn some(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut some: Vec<usize> = (0..count).map(|_| self.below(bound)).collect();
        some.sort_unstable();
        some.dedup();
        some
    }
}
