//! Members that move, all of one place at once: so two of them can change places.

use indexmap::IndexMap;

use super::walk::{each_around, insert, remove};
use crate::json::Json;
use crate::member_path::MemberPath;

/// Members that move within the objects at a place.
#[derive(Debug, Clone)]
pub(crate) struct Moves {
    /// The place: the value itself, or each element of an array.
    pub(crate) around: MemberPath,
    moves: Vec<Move>,
}

#[derive(Debug, Clone)]
struct Move {
    from: Vec<String>,
    to: Vec<String>,
}

/// Groups moves by their places, the innermost first: paths are those of the value as it came.
///
/// # Errors
/// A member would leave its array.
pub(super) fn grouped(moves: &[(MemberPath, MemberPath)]) -> Result<Vec<Moves>, String> {
    let mut groups: IndexMap<MemberPath, Vec<Move>> = IndexMap::new();
    for (from, to) in moves {
        let (around, from_names) = from.divided();
        let (around_to, to_names) = to.divided();
        if around != around_to {
            return Err(format!(
                "`{from}` cannot move to `{to}`, which is not in the same array"
            ));
        }
        if from_names.is_empty() || to_names.is_empty() {
            return Err(format!("`{from}` names no member that could move"));
        }
        groups.entry(around).or_default().push(Move {
            from: from_names,
            to: to_names,
        });
    }

    let mut groups: Vec<Moves> = groups
        .into_iter()
        .map(|(around, moves)| Moves { around, moves })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.around.steps().len()));
    Ok(groups)
}

impl Moves {
    /// The same, for each element of the array that they are in.
    pub(super) fn of_element(&self) -> Option<Self> {
        Some(Self {
            around: self.around.within_element()?,
            moves: self.moves.clone(),
        })
    }

    /// Moves the members.
    ///
    /// # Errors
    /// Something is in the way.
    pub(super) fn apply(&self, value: &mut Json) -> Result<(), String> {
        each_around(value, self.around.steps(), &mut |value| {
            // All are taken before the first is put back, else one would overwrite another that has yet to move.
            let taken: Vec<_> = self
                .moves
                .iter()
                .map(|one| remove(value, &one.from))
                .collect();
            for (one, taken) in self.moves.iter().zip(taken) {
                if let Some(taken) = taken {
                    let moved = insert(value, &one.to, taken, true);
                    moved.map_err(|reason| format!("{}: {reason}", one.to.join(".")))?;
                }
            }
            Ok(())
        })
    }
}
