//! Areas, functions and links, checked and numbered.

use std::collections::HashMap;

use crate::file::AreasFile;
use crate::ids::{AreaId, AreaPair};

/// The content of a file of areas whose names all exist.
///
/// Data may move from an area to another if each attribute of the first is one of the second, or is given by a function on the way and
/// not removed again. What an area `needs` counts for both directions: of data that leaves it as its own attributes do, of data that
/// enters it as something that the data has to have on arrival.
#[derive(Debug, Clone)]
pub struct Areas {
    pub(crate) file: AreasFile,
    pub(crate) attributes: Vec<String>,
    pub(crate) places: Vec<String>,
    pub(crate) areas: Vec<Area>,
    pub(crate) functions: Vec<Function>,
    /// Links of each place; `None`: all places are joined at no cost.
    pub(crate) links: Option<Vec<Vec<Link>>>,
    pub(crate) paths: Vec<AreaPair>,
    pub(crate) area_numbers: HashMap<String, usize>,
    /// Functions that give an attribute, by its number.
    pub(crate) givers: Vec<Vec<usize>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Area {
    pub(crate) name: String,
    pub(crate) place: usize,
    /// Numbers of attributes, sorted.
    pub(crate) has: Vec<usize>,
    pub(crate) needs: Vec<usize>,
    /// The attributes of data that leaves it, which the other area has to have: its own and those that it needs, sorted.
    pub(crate) guards: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) adds: Vec<usize>,
    pub(crate) removes: Vec<usize>,
    pub(crate) needs: Vec<usize>,
    pub(crate) cost: u64,
    pub(crate) runs: Runs,
    pub(crate) capacity: Option<u32>,
}

/// Where a function may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Runs {
    Everywhere,
    /// Numbers of places, sorted.
    At(Vec<usize>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) to: usize,
    pub(crate) cost: u64,
}

impl Areas {
    /// The area of this name.
    pub fn area(&self, name: &str) -> Option<AreaId> {
        self.area_numbers.get(name).copied().map(AreaId)
    }

    /// The name of an area.
    pub fn name(&self, area: AreaId) -> &str {
        self.areas.get(area.0).map_or("", |area| &area.name)
    }

    /// The name of the place of an area.
    pub fn place_of(&self, area: AreaId) -> &str {
        let area = self.areas.get(area.0);
        let place = area.and_then(|area| self.places.get(area.place));
        place.map_or("", String::as_str)
    }

    /// All areas, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = AreaId> {
        (0..self.areas.len()).map(AreaId)
    }

    /// Names of all areas, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.areas.iter().map(|area| area.name.as_str())
    }

    /// The paths that the file wants, in its order.
    pub fn paths(&self) -> &[AreaPair] {
        &self.paths
    }

    /// The file.
    pub fn file(&self) -> &AreasFile {
        &self.file
    }

    pub(crate) fn attribute_names(&self, numbers: &[usize]) -> Vec<String> {
        let names = numbers
            .iter()
            .filter_map(|number| self.attributes.get(*number));
        names.cloned().collect()
    }
}
