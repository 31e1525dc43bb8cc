//! Who gains and who loses what by a change of a random overlay.

use fastrand::Rng;

use super::super::{Access, Accessible, Compiled, Compiler, Recipient, access_changes};
use super::overlay::{Fate, TARGETS, USERS};
use super::walk::{is_sound, network, overlay, seeds};
use super::{DOMAIN, documents};
use crate::resources::Tree;

/// A state and its documents.
fn state<'a>(tree: &'a Tree, documents: &'a [(Recipient, Compiled)]) -> Accessible<'a> {
    Accessible {
        tree,
        network: network(documents),
    }
}

#[test]
fn access_is_gained_and_lost_exactly_where_resources_say_so() {
    let mut found = [0; 3];
    for seed in seeds() {
        let mut random = Rng::with_seed(seed);
        let (sketch, tree) = overlay(&mut random);
        let next = sketch.changed(&mut random);
        let after = next.tree();
        let is_taken =
            Compiler::new(&after, DOMAIN).is_ok_and(|compiler| is_sound(&compiler, &after));
        if !is_taken {
            continue;
        }
        let documents = [documents(&tree), documents(&after)];
        let before = state(&tree, &documents[0]);
        let after = state(&after, &documents[1]);
        let users = || USERS.map(str::to_owned);
        assert!(access_changes(&before, &before, users(), 0).is_empty());

        let changes = access_changes(&before, &after, users(), 0);
        assert_eq!(changes.left_out, 0);
        for (user, target) in USERS
            .into_iter()
            .flat_map(|user| TARGETS.map(|target| (user, target)))
        {
            let has = |list: &[Access]| {
                list.iter()
                    .any(|access| access.user == user && access.target == target)
            };
            let lists = [&changes.gained, &changes.lost, &changes.moved];
            let listed = lists.map(|list| has(list));
            let fates = [&sketch, &next].map(|sketch| sketch.fate(user, target));
            let expected = match fates {
                [Fate::Refused, Fate::Reaches(_)] => [true, false, false],
                [Fate::Reaches(_), Fate::Refused] => [false, true, false],
                [Fate::Reaches(old), Fate::Reaches(new)] => [false, false, old != new],
                [Fate::Refused, Fate::Refused] => [false; 3],
            };
            assert_eq!(listed, expected, "seed {seed}: {user} {target} {fates:?}");
            for (count, listed) in found.iter_mut().zip(listed) {
                *count += u32::from(listed);
            }
        }
    }
    assert!(found.iter().all(|count| *count > 5), "{found:?}");
}
