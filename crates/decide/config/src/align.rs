//! Aligns two lists: pairs their equal and similar elements, for differences between documents.

use std::collections::HashMap;

use serde_json::Value as Json;

/// Pairs of elements compared to align two lists, or pieces of long ones; a piece with more counts as replaced.
#[doc(alias = "bound")]
const PAIRS: usize = 1 << 18;

/// Points for a pair of equal elements, and the most for a pair of similar ones, so that equal ones are found first.
const EQUAL: u32 = 1000;
const SIMILAR: u32 = 100;

/// Points of two elements with the same keys and other values: the least for which they count as one element that changed.
const SAME_KEYS: u32 = 30;

/// An element of one list, or two that belong together, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aligned {
    Both(usize, usize),
    Old(usize),
    New(usize),
}

impl Aligned {
    /// The same in lists that have this many elements before them.
    fn behind(self, old: usize, new: usize) -> Self {
        match self {
            Self::Both(one, two) => Self::Both(old + one, new + two),
            Self::Old(index) => Self::Old(old + index),
            Self::New(index) => Self::New(new + index),
        }
    }
}

/// Pairs the elements of two lists, as many equal ones as possible, then similar ones.
pub(crate) fn align(old: &[Json], new: &[Json]) -> Vec<Aligned> {
    let same = |(one, two): &(&Json, &Json)| one == two;
    let head = old.iter().zip(new).take_while(same).count();
    let old_rest = &old[head..];
    let new_rest = &new[head..];
    let reversed = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = reversed.take_while(same).count();
    // Most documents differ in one place: only the part between the equal ends costs time.
    let old_middle = &old_rest[..old_rest.len() - tail];
    let new_middle = &new_rest[..new_rest.len() - tail];

    let mut steps: Vec<Aligned> = (0..head).map(|index| Aligned::Both(index, index)).collect();
    let between = middle(old_middle, new_middle).into_iter();
    steps.extend(between.map(|step| step.behind(head, head)));
    let ends = (0..tail)
        .rev()
        .map(|back| Aligned::Both(old.len() - 1 - back, new.len() - 1 - back));
    steps.extend(ends);

    steps
}

/// The alignment of the part between equal ends: of long lists piece by piece, from one common
/// element to the next.
fn middle(old: &[Json], new: &[Json]) -> Vec<Aligned> {
    // Quadratic in time and memory, hence only below a bound.
    if old.len().saturating_mul(new.len()) <= PAIRS {
        return closely(old, new);
    }
    let mut steps = Vec::new();
    let mut one = 0;
    let mut two = 0;

    for (anchor_one, anchor_two) in anchors(old, new) {
        let piece = piece(&old[one..anchor_one], &new[two..anchor_two]);
        steps.extend(piece.into_iter().map(|step| step.behind(one, two)));
        steps.push(Aligned::Both(anchor_one, anchor_two));
        one = anchor_one + 1;
        two = anchor_two + 1;
    }

    let last = piece(&old[one..], &new[two..]);
    steps.extend(last.into_iter().map(|step| step.behind(one, two)));
    steps
}

/// A piece without anchors; one that is too long for a closer look counts as replaced.
fn piece(old: &[Json], new: &[Json]) -> Vec<Aligned> {
    if old.len().saturating_mul(new.len()) <= PAIRS {
        return closely(old, new);
    }
    let gone = (0..old.len()).map(Aligned::Old);
    gone.chain((0..new.len()).map(Aligned::New)).collect()
}

/// Elements that each list has exactly once, in the longest row that has one order in both.
fn anchors(old: &[Json], new: &[Json]) -> Vec<(usize, usize)> {
    let mut indices: HashMap<String, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for (index, value) in old.iter().enumerate() {
        indices.entry(value.to_string()).or_default().0.push(index);
    }

    for (index, value) in new.iter().enumerate() {
        indices.entry(value.to_string()).or_default().1.push(index);
    }
    let single = |(one, two): (Vec<usize>, Vec<usize>)| match (one.as_slice(), two.as_slice()) {
        ([one], [two]) => Some((*one, *two)),
        _ => None,
    };

    let mut pairs: Vec<(usize, usize)> = indices.into_values().filter_map(single).collect();
    // In the order of the old list, so that only the order in the new one is left to decide.
    pairs.sort_unstable();
    longest_row(&pairs)
}

/// The longest sequence of pairs in which both numbers grow.
fn longest_row(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // Patience sorting: `ends` has for each length the row with the least second number at its end, as the index of its last pair;
    // `before` has the predecessor of each pair.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, two)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *two);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }

    let mut row = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        row.push(pairs[index]);
        next = before[index];
    }

    row.reverse();
    row
}

/// The alignment with the most points.
fn closely(old: &[Json], new: &[Json]) -> Vec<Aligned> {
    let table = Table::new(old, new);
    let mut steps = Vec::new();
    let mut one = 0;
    let mut two = 0;

    while one < old.len() && two < new.len() {
        let step = table.step(one, two);
        steps.push(step);
        one += usize::from(!matches!(step, Aligned::New(_)));
        two += usize::from(!matches!(step, Aligned::Old(_)));
    }

    steps.extend((one..old.len()).map(Aligned::Old));
    steps.extend((two..new.len()).map(Aligned::New));
    steps
}

/// The best score of the rest behind each pair of positions, by dynamic programming.
struct Table {
    /// Elements of the new list.
    width: usize,
    /// Points of each pair of elements, row by row of the old list.
    pairs: Vec<u32>,
    /// The most points from each pair of positions on, the ends of the lists included.
    best: Vec<u32>,
}

impl Table {
    fn new(old: &[Json], new: &[Json]) -> Self {
        let pairs = old
            .iter()
            .flat_map(|one| new.iter().map(move |two| points(one, two)));
        let mut table = Self {
            width: new.len(),
            pairs: pairs.collect(),
            best: vec![0; (old.len() + 1) * (new.len() + 1)],
        };

        // From the ends, as each position needs the positions behind it.
        for one in (0..old.len()).rev() {
            for two in (0..new.len()).rev() {
                let apart = table.from(one + 1, two).max(table.from(one, two + 1));
                let together = table.together(one, two).unwrap_or_default();
                table.best[one * (new.len() + 1) + two] = apart.max(together);
            }
        }

        table
    }

    fn from(&self, one: usize, two: usize) -> u32 {
        self.best[one * (self.width + 1) + two]
    }

    /// The most points if these two belong together; `None` if they do not.
    fn together(&self, one: usize, two: usize) -> Option<u32> {
        let points = self.pairs[one * self.width + two];
        (points > 0).then(|| points + self.from(one + 1, two + 1))
    }

    fn step(&self, one: usize, two: usize) -> Aligned {
        let most = self.from(one, two);
        if self.together(one, two) == Some(most) {
            Aligned::Both(one, two)
        } else if self.from(one + 1, two) == most {
            Aligned::Old(one)
        } else {
            Aligned::New(two)
        }
    }
}

/// How much two elements have in common; 0 for those that do not belong together.
fn points(old: &Json, new: &Json) -> u32 {
    if old == new {
        return EQUAL;
    }
    let (Json::Object(old), Json::Object(new)) = (old, new) else {
        return 0;
    };

    // A name is an identity: an entry that keeps it is the same entry, however much of it changed.
    let named = old
        .get("name")
        .is_some_and(|name| new.get("name") == Some(name));
    if named {
        return SIMILAR;
    }

    let shared = old
        .iter()
        .filter(|(key, value)| new.get(*key) == Some(value))
        .count();
    let missing = new.keys().filter(|key| !old.contains_key(*key)).count();
    let keys = old.len() + missing;
    let share = u32::try_from(shared * 90 / keys.max(1)).unwrap_or(0);
    let same_keys = missing == 0 && old.len() == new.len();
    let least = if same_keys { SAME_KEYS } else { 0 };
    let points = share.max(least);

    if points >= SAME_KEYS { points } else { 0 }
}
