//! Plans of small files, as a reader would make them.

use std::path::Path;

use super::{pair, plan, read, short};
use crate::documents::documents;
use crate::{FunctionUse, Planner, Unplanned, Usage, Verdict, Work};

const HOSPITALS: &str = include_str!("../../corpus/hospitals.yaml");

fn gaps(text: &str, from: &str, to: &str) -> String {
    match plan(text, from, to) {
        Err(unplanned) => unplanned.to_string(),
        Ok(plan) => panic!("{}", short(&plan)),
    }
}

/// The paper's equation 4.
#[test]
fn data_moves_without_functions_where_all_attributes_are() {
    let text = "version: 1\nareas: { a: { has: [x] }, b: { has: [x, y] } }\n";
    assert_eq!(short(&plan(text, "a", "b").unwrap()), "a b: 0");
    assert_eq!(gaps(text, "b", "a"), "`y`: no function gives it");
}

#[test]
fn functions_come_in_an_order_in_which_each_has_its_attributes() {
    // `scan` needs what `open` gives, and `encrypt` ends that.
    let found = plan(HOSPITALS, "amc", "umc").unwrap();
    assert_eq!(
        short(&found),
        "amc[allow-ports open] hub[scan encrypt] umc: 26"
    );
    assert!(short(&plan(HOSPITALS, "umc", "amc").unwrap()).starts_with("umc["));
}

#[test]
fn a_function_runs_where_way_and_cost_are_least() {
    let text = |near: u32| {
        format!(
            "version: 1\nplaces: {{ a: {{}}, b: {{}}, far: {{}}, between: {{}} }}\n\
             areas: {{ a: {{ has: [x] }}, b: {{}} }}\n\
             functions: {{ cheap: {{ adds: [x], cost: 1, at: [far] }}, near: {{ adds: [x], cost: {near}, at: [between] }} }}\n\
             links: [{{ between: [a, between] }}, {{ between: [between, b] }}, {{ between: [a, far], cost: 5 }}, {{ between: [b, far], cost: 5 }}]\n"
        )
    };
    let chosen = |near| short(&plan(&text(near), "a", "b").unwrap());
    assert_eq!(chosen(8), "a between[near] b: 10");
    // The way back from `far` is shorter over `b` itself than by `between`.
    assert_eq!(chosen(10), "a far[cheap] b: 11");
}

#[test]
fn a_full_function_is_passed_over_and_named() {
    let text = "version: 1\nareas: { a: { has: [x] }, b: {}, c: { has: [x] } }\n\
        functions: { first: { adds: [x], at: [a], capacity: 1 }, second: { adds: [x], at: [b], cost: 3, capacity: 1 } }\n\
        paths: [{ from: a, to: b }, { from: c, to: b }]\n";
    let areas = read(text);
    let mut planner = Planner::new(&areas);
    let plans = planner.wanted(&mut Work::default());
    let plans: Vec<String> = plans
        .iter()
        .map(|plan| short(plan.as_ref().unwrap()))
        .collect();
    assert_eq!(plans, ["a[first] b: 1", "c b[second]: 3"]);

    let third = planner.plan(pair(&areas, "a", "b"), &mut Work::default());
    let third = third.unwrap_err().to_string();
    assert!(
        third.contains("first: each place has 1 paths through it, its capacity"),
        "{third}"
    );
}

#[test]
fn an_ended_path_gives_its_share_back() {
    let text = "version: 1\nareas: { a: { has: [x] }, b: {} }\nfunctions: { f: { adds: [x], capacity: 1 } }\n";
    let areas = read(text);
    let ways = pair(&areas, "a", "b");
    let first = Planner::new(&areas)
        .plan(ways, &mut Work::default())
        .unwrap();
    let mut usage = Usage::default();
    usage.add(&first);
    let used = FunctionUse {
        function: "f".into(),
        place: "a".into(),
    };
    assert_eq!(usage.count(&used), 1);
    let beside = |usage: &Usage| {
        let mut planner = Planner::new(&areas).beside(usage.clone());
        planner.plan(ways, &mut Work::default())
    };
    assert_eq!(
        short(&beside(&usage).unwrap()),
        "a b[f]: 1",
        "the other place has room"
    );
    usage.add(&beside(&usage).unwrap());
    assert!(beside(&usage).is_err());
    usage.remove(&first);
    assert_eq!(short(&beside(&usage).unwrap()), "a[f] b: 1");
    assert_eq!(usage.count(&used), 0);
}

#[test]
fn each_obstacle_is_named_with_the_nearest_functions() {
    let with = |functions: &str| {
        format!(
            "version: 1\nplaces: {{ a: {{}}, b: {{}}, away: {{}} }}\nareas: {{ a: {{ has: [encrypted] }}, b: {{}} }}\n\
             functions: {{ {functions} }}\nlinks: [{{ between: [a, b] }}]\n"
        )
    };
    for (functions, expected) in [
        (
            "f: { adds: [encryptd] }",
            "no function gives it; f: it gives `encryptd`: is that meant?",
        ),
        (
            "f: { adds: [encrypted], at: [] }",
            "no function that gives it can be used; f: it may run nowhere",
        ),
        (
            "f: { adds: [encrypted], at: [away] }",
            "no function that gives it can be used; f: no links lead to where it may run: away",
        ),
        (
            "f: { adds: [encrypted], needs: [key] }",
            "no function that gives it can be used; f: it needs `key`, which it cannot get",
        ),
        (
            "f: { adds: [encrypted], capacity: 0 }",
            "no function that gives it can be used; f: each place has 0 paths through it, its capacity",
        ),
    ] {
        assert_eq!(
            gaps(&with(functions), "a", "b"),
            format!("`encrypted`: {expected}")
        );
    }
}

#[test]
fn attributes_that_exclude_each_other_are_named_together() {
    let text = "version: 1\nareas: { a: { has: [x, y] }, b: {} }\n\
        functions: { f: { adds: [x], removes: [y] }, g: { adds: [y], removes: [x] } }\n";
    assert_eq!(
        gaps(text, "a", "b"),
        "`x`: it can be given, but not together with the others; g: it removes `x`, and \
         `y`: it can be given, but not together with the others; f: it removes `y`"
    );
}

#[test]
fn an_area_takes_only_data_that_has_its_needs() {
    let text = "version: 1\nareas: { a: { has: [scanned] }, b: { needs: [scanned] }, c: {} }\n\
        functions: { scan: { adds: [scanned], cost: 9 }, loosen: { adds: [loose], removes: [scanned] } }\n";
    // Data of `a` was scanned there, but `b` does not guard that.
    assert_eq!(short(&plan(text, "c", "b").unwrap()), "c[scan] b: 9");
    assert_eq!(short(&plan(text, "a", "b").unwrap()), "a[scan] b: 9");
    let guarded = text.replace("b: { needs", "b: { has: [scanned], needs");
    assert_eq!(short(&plan(&guarded, "a", "b").unwrap()), "a b: 0");
}

#[test]
fn places_without_links_between_them_have_no_way() {
    let text = "version: 1\nareas: { a: {}, b: {}, c: {} }\nlinks: [{ between: [a, b] }]\n";
    assert!(matches!(plan(text, "a", "c"), Err(Unplanned::NoWay { .. })));
    assert_eq!(short(&plan(text, "a", "b").unwrap()), "a b: 1");
}

#[test]
fn all_pairs_have_the_verdicts_of_single_questions() {
    let areas = crate::sample::Sample {
        areas: 40,
        places: 12,
        attributes: 9,
        each: 4,
        functions: 8,
        at: 2,
    }
    .areas(7);
    let mut verdicts = Vec::new();
    let mut planner = Planner::new(&areas);
    let told = planner.each_pair(&mut Work::default(), |pair, verdict| {
        verdicts.push((pair, verdict))
    });
    told.unwrap();
    assert_eq!(verdicts.len(), 40 * 39);
    let mut seen = [0; 3];
    for (pair, verdict) in verdicts {
        let single = planner.plan(pair, &mut Work::default());
        let kind = match (single, verdict) {
            (Ok(plan), Verdict::Direct(cost)) if plan.steps().count() == 0 && plan.cost == cost => {
                0
            }
            (Ok(plan), Verdict::Bridged(cost)) if plan.steps().count() > 0 && plan.cost == cost => {
                1
            }
            (Err(_), Verdict::Unbridgeable) => 2,
            (single, verdict) => panic!("{pair:?}: {single:?}, but {verdict:?}"),
        };
        seen[kind] += 1;
    }
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}

#[test]
fn documents_lead_through_the_functions_of_each_place() {
    let areas = read(HOSPITALS);
    let plan = plan(HOSPITALS, "amc", "umc").unwrap();
    let documents = documents(&areas, &[plan]).unwrap();
    let texts: Vec<String> = documents
        .iter()
        .map(|document| format!("# {}\n{}", document.place, document.yaml()))
        .collect();
    assert_eq!(texts.join(""), include_str!("hospitals.documents.yaml"));
    for document in &documents {
        // As a file of the node that includes it.
        let text = format!(
            "{}listeners: {{ web: {{ http: 127.0.0.1:8080 }} }}\n",
            document.yaml()
        );
        let loaded = hermes_config::parse(Path::new("node.yaml"), &text, &|_| None).unwrap();
        let told = hermes_rules::lint(&loaded.document);
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn a_document_needs_services_and_the_address_of_each_next_place() {
    let text = "version: 1\nareas: { a: {}, b: {} }\n";
    let areas = read(text);
    let told = documents(&areas, &[plan(text, "a", "b").unwrap()]);
    let told = told.unwrap_err().to_string();
    assert!(
        told.contains("areas.b.targets: no route can lead to area `b`"),
        "{told}"
    );
    assert!(told.contains("places.b: nodes at other places"), "{told}");
}
