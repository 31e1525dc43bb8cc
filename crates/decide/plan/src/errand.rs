//! A question in bits: the attributes that matter to it, and the functions that change them.

use std::collections::HashMap;

use crate::areas::{Areas, Function, Runs};
use crate::demand::Demand;
use crate::usage::{FunctionUse, Usage};

/// Attributes that matter to one question.
#[doc(alias = "bound")]
pub(crate) const BITS: usize = 128;

/// A search for the functions that meet a demand.
///
/// A bit stands for an attribute that a function has given, or for one that data has, from a function or from its area. Both are kept for an attribute
/// that matters in both ways.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) start: usize,
    /// Bits that are set at the start.
    pub(crate) begin: u128,
    /// Bits that have to be set at the end.
    pub(crate) goal: u128,
    pub(crate) candidates: Vec<Effect>,
}

/// A function that matters, and its effects.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) function: usize,
    pub(crate) adds: u128,
    pub(crate) removes: u128,
    pub(crate) needs: u128,
    pub(crate) cost: u64,
    pub(crate) runs: Runs,
}

/// More attributes matter than there are bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyBits(pub(crate) usize);

/// Data that begins at a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) place: usize,
    /// Its attributes, sorted.
    pub(crate) has: &'a [usize],
}

impl Errand {
    pub(crate) fn new(
        areas: &Areas,
        usage: &Usage,
        origin: Origin<'_>,
        demand: &Demand,
    ) -> Result<Self, TooManyBits> {
        let useful = Useful::of(areas, demand);
        let bits = Bits::new(demand, &useful)?;
        let has = |number: &&usize| origin.has.binary_search(number).is_ok();
        let begin = bits.present(useful.tracked.iter().filter(has));
        let goal = bits.given(&demand.given) | bits.present(&demand.present);
        let candidates = useful.functions.iter().map(|number| {
            let function = &areas.functions[*number];
            Effect {
                function: *number,
                adds: bits.given(&function.adds) | bits.present(&function.adds),
                removes: bits.given(&function.removes) | bits.present(&function.removes),
                needs: bits.present(&function.needs),
                cost: function.cost,
                runs: free_places(areas, usage, function),
            }
        });
        Ok(Self {
            start: origin.place,
            begin,
            goal,
            candidates: candidates.collect(),
        })
    }
}

/// Functions that can help to meet a demand, and attributes that matter to these.
pub(crate) struct Useful {
    /// In the order of the file.
    pub(crate) functions: Vec<usize>,
    /// Attributes that the data has to have somewhere, from a function or from its area.
    tracked: Vec<usize>,
}

impl Useful {
    pub(crate) fn of(areas: &Areas, demand: &Demand) -> Self {
        let mut is_useful = vec![false; areas.functions.len()];
        let mut tracked = demand.present.clone();
        let mut open: Vec<usize> = demand
            .given
            .iter()
            .chain(&demand.present)
            .copied()
            .collect();
        // A function that helps may need an attribute itself, which another function gives.
        while let Some(attribute) = open.pop() {
            for giver in &areas.givers[attribute] {
                if std::mem::replace(&mut is_useful[*giver], true) {
                    continue;
                }
                for needed in &areas.functions[*giver].needs {
                    if !tracked.contains(needed) {
                        tracked.push(*needed);
                        open.push(*needed);
                    }
                }
            }
        }

        let functions = is_useful.iter().enumerate();
        let functions = functions.filter_map(|(number, is_useful)| is_useful.then_some(number));
        Self {
            functions: functions.collect(),
            tracked,
        }
    }
}

/// The bits of attributes, in both meanings.
struct Bits {
    given: HashMap<usize, u32>,
    present: HashMap<usize, u32>,
}

impl Bits {
    fn new(demand: &Demand, useful: &Useful) -> Result<Self, TooManyBits> {
        let count = demand.given.len() + useful.tracked.len();
        if count > BITS {
            return Err(TooManyBits(count));
        }
        let given = demand.given.iter().copied();
        let present = useful.tracked.iter().copied();
        // A shift of u128 takes a u32.
        let first = u32::try_from(demand.given.len()).unwrap_or(u32::MAX);
        Ok(Self {
            given: given.zip(0..).collect(),
            present: present.zip(first..).collect(),
        })
    }

    fn given<'n>(&self, numbers: impl IntoIterator<Item = &'n usize>) -> u128 {
        mask(&self.given, numbers)
    }

    fn present<'n>(&self, numbers: impl IntoIterator<Item = &'n usize>) -> u128 {
        mask(&self.present, numbers)
    }
}

fn mask<'n>(bits: &HashMap<usize, u32>, numbers: impl IntoIterator<Item = &'n usize>) -> u128 {
    let numbers = numbers.into_iter();
    let found = numbers.filter_map(|number| bits.get(number));
    found.fold(0, |mask, bit| mask | 1 << bit)
}

/// Where a function may run that has room for one more path.
pub(crate) fn free_places(areas: &Areas, usage: &Usage, function: &Function) -> Runs {
    let Some(capacity) = function.capacity else {
        return function.runs.clone();
    };
    let is_free = |place: &usize| {
        let used = FunctionUse {
            function: function.name.clone(),
            place: areas.places[*place].clone(),
        };
        usage.count(&used) < capacity
    };
    match &function.runs {
        Runs::At(places) => Runs::At(places.iter().copied().filter(is_free).collect()),
        // Few functions are in use: as long as none is full, nothing is listed.
        Runs::Everywhere => {
            let mut counts = usage.each();
            let is_full =
                counts.any(|(used, count)| used.function == function.name && count >= capacity);
            match is_full || capacity == 0 {
                true => Runs::At((0..areas.places.len()).filter(is_free).collect()),
                false => Runs::Everywhere,
            }
        }
    }
}
