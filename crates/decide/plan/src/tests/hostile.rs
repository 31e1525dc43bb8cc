//! Files that are wrong, or large.

use std::fmt::Write;

use super::{mistakes, plan, read, short};
use crate::documents::path_name;
use crate::{Planner, Unplanned, Verdict, Work};

#[test]
fn every_mistake_has_its_line_and_a_remedy() {
    let text = "version: 1\nattributes: [encrypted]\nplaces: { hub: {} }\nareas:\n  a: { at: hbu, has: [encripted] }\n  b: { at: hub, targets: [\"a:b:c\"] }\n\
        functions:\n  f: { adds: [encrypted], removes: [encrypted], at: [nowhere] }\npaths:\n  - { from: a, to: d }\n  - { from: a, to: d }\n";
    let told = mistakes(text);
    for expected in [
        "areas.yaml:5:12: areas.a.at: there is no place `hbu`; did you mean `hub`?",
        "areas.yaml:5:23: areas.a.has[0]: there is no attribute `encripted`; did you mean `encrypted`?",
        "areas.yaml:8:54: functions.f.at[0]",
        "functions.f.removes: it adds and removes `encrypted`",
        "paths[0].to: there is no area `d`",
        "paths[1]: the path from a to d stands twice",
        "areas.b.targets[0]",
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
}

#[test]
fn costs_below_zero_and_above_the_bound_are_refused() {
    for cost in [
        "-1",
        "1000001",
        "1e300",
        "99999999999999999999",
        "0.5",
        "null",
    ] {
        for key in [
            "functions: { f: { adds: [x], cost: COST } }",
            "links: [{ between: [a, a], cost: COST }]",
        ] {
            let text = format!("version: 1\nareas: {{ a: {{}} }}\n{key}\n").replace("COST", cost);
            let told = mistakes(&text);
            assert!(
                told.contains("areas.yaml:3") && told.contains("cost"),
                "{told}"
            );
        }
    }
}

#[test]
fn the_largest_costs_add_up() {
    let mut text = "version: 1\nplaces:\n".to_owned();
    for number in 0..2000 {
        writeln!(text, "  p{number}: {{}}").unwrap();
    }
    text.push_str("areas: { a: { at: p0, has: [x] }, b: { at: p1999 } }\nfunctions: { f: { adds: [x], cost: 1000000 } }\nlinks:\n");
    for number in 1..2000 {
        writeln!(
            text,
            "  - {{ between: [p{}, p{number}], cost: 1000000 }}",
            number - 1
        )
        .unwrap();
    }
    let found = plan(&text, "a", "b").unwrap();
    assert_eq!((found.cost, found.stops.len()), (2_000_000_000, 2000));
}

#[test]
fn names_that_stand_twice_are_refused() {
    for text in [
        "version: 1\nareas: { a: {}, a: {} }\n",
        "version: 1\nareas: { a: { has: [x, x] } }\n",
        "version: 1\nareas: { a: {} }\nfunctions: { f: { adds: [x] }, f: { adds: [y] } }\n",
    ] {
        assert!(mistakes(text).contains("areas.yaml:"), "{}", mistakes(text));
    }
}

#[test]
fn other_files_are_refused_with_the_first_line() {
    for text in [
        "",
        "# nothing",
        "version: 2\nareas: { a: {} }\n",
        "version: 1\nareas: {}\n",
        "a: 1\n---\nb: 2\n",
        "- 1\n",
        "version: 1\nareas: { \"\": {} }\n",
        "version: 1\nareas: { \"a b\\u001b[2J\": {} }\n",
    ] {
        let told = mistakes(text);
        assert!(
            !told.is_empty() && !told.contains('\u{1b}'),
            "{text:?}: {told}"
        );
    }
}

#[test]
fn circles_of_links_and_functions_end() {
    let text = "version: 1\nplaces: { a: {}, b: {}, c: {} }\nareas: { a: { has: [x] }, b: { has: [x, y] }, c: {} }\n\
        functions:\n  f: { adds: [x], needs: [z], removes: [w], cost: 0 }\n  g: { adds: [z], needs: [w], removes: [x], cost: 0 }\n  h: { adds: [w], needs: [x], cost: 0 }\n\
        links: [{ between: [a, b], cost: 0 }, { between: [b, c], cost: 0 }, { between: [c, a], cost: 0 }, { between: [a, a], cost: 0 }]\n";
    // The data has `x` at first, so that each of the three can run after the one before.
    let found = plan(text, "a", "c").unwrap();
    let names: Vec<&str> = found.steps().map(|step| step.function.as_str()).collect();
    assert_eq!(names, ["h", "g", "f"], "{}", short(&found));
    // Each waits for another one.
    let none = text.replace("h: { adds: [w], needs: [x]", "h: { adds: [w], needs: [v]");
    assert!(matches!(
        plan(&none, "a", "c"),
        Err(Unplanned::Unbridgeable { .. })
    ));
}

#[test]
fn a_hundred_thousand_attributes_are_planned() {
    let mut text = "version: 1\nareas:\n".to_owned();
    for area in 0..100 {
        let names: Vec<String> = (0..1000)
            .map(|number| format!("x{area}-{number}"))
            .collect();
        writeln!(text, "  a{area}: {{ has: [{}] }}", names.join(", ")).unwrap();
    }
    text.push_str("functions: { f: { adds: [x0-1] } }\n");
    let areas = read(&text);
    let mut verdicts = 0;
    let told = Planner::new(&areas).each_pair(&mut Work::default(), |_, verdict| {
        assert_eq!(verdict, Verdict::TooManyAttributes);
        verdicts += 1;
    });
    told.unwrap();
    assert_eq!(verdicts, 9900);

    // Each name is unknown, and near to thousands of others: that is not compared a hundred thousand times.
    let closed = text.replace("areas:", "attributes: [x]\nareas:");
    assert_eq!(mistakes(&closed).lines().count(), 100);

    let more = text.replace(
        "functions:",
        &format!(
            "  b: {{ has: [{}] }}\nfunctions:",
            (0..40_000)
                .map(|number| format!("y{number}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    );
    let told = mistakes(&more);
    assert!(
        told.contains("areas.b.has[") && told.contains("more than 131072 different attributes"),
        "{}",
        &told[..200.min(told.len())]
    );
}

#[test]
fn sections_have_bounds() {
    let areas: String = (0..1001)
        .map(|number| format!("  a{number}: {{}}\n"))
        .collect();
    let told = mistakes(&format!("version: 1\nareas:\n{areas}"));
    assert!(told.contains("1001 areas; a file may have 1000"), "{told}");
}

/// Twenty attributes in any order, at any of twenty places: a search has millions of states.
#[test]
fn a_search_that_takes_too_long_is_refused() {
    let mut text = "version: 1\nplaces:\n".to_owned();
    for number in 0..20 {
        writeln!(text, "  p{number}: {{}}").unwrap();
    }
    let names: Vec<String> = (0..20).map(|number| format!("x{number}")).collect();
    writeln!(
        text,
        "areas: {{ a: {{ at: p0, has: [{}] }}, b: {{ at: p1 }} }}\nfunctions:",
        names.join(", ")
    )
    .unwrap();
    for number in 0..20 {
        writeln!(
            text,
            "  f{number}: {{ adds: [x{number}], at: [p{number}, p{}] }}",
            (number * 7 + 3) % 20
        )
        .unwrap();
    }
    text.push_str("links:\n");
    for number in 0..20 {
        writeln!(
            text,
            "  - {{ between: [p{number}, p{}] }}",
            (number + 1) % 20
        )
        .unwrap();
    }
    let areas = read(&text);
    let pair = super::pair(&areas, "a", "b");
    let mut work = Work::new(200_000);
    let told = Planner::new(&areas).plan(pair, &mut work);
    assert_eq!(told, Err(Unplanned::TooMuchWork));
    assert_eq!(work.left(), 0);
}

#[test]
fn two_paths_never_share_a_name() {
    let text = "version: 1\nareas: { a: {}, a-b: {}, b-c: {}, c: {} }\n";
    let name = |from, to| path_name(&plan(text, from, to).unwrap());
    assert_ne!(name("a", "b-c"), name("a-b", "c"));
    assert!(mistakes("version: 1\nareas: { a~b: {}, c: {} }\n").contains("is no name"));
}
