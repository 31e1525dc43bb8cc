//! Parts of the API that need no node: requests, rules, bounds and files.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use hermes_config::model::FilePath;
use hermes_plan::{AreaPair, Areas, Plan, Planner, Work};
use http::Method;

use crate::api::{Call, NoCall};
use crate::authoriser::Authoriser;
use crate::domain::Domain;
use crate::ledger::{Full, Ledger, PATHS, PATHS_OF_USER};
use crate::settings::{Allowance, AreasSettings};
use crate::shelf::Shelf;

const AREAS: &str = "version: 1\nplaces: { a: {}, b: { reached: { endpoints: [\"10.0.0.2:80\"] } } }\n\
    areas: { a: { has: [x] }, b: { targets: [\"db:1\"] } }\nfunctions: { f: { adds: [x], at: [a] } }\n";

fn areas() -> Areas {
    Areas::read(Path::new("areas.yaml"), AREAS).unwrap()
}

fn plan() -> Plan {
    let areas = areas();
    let pair = AreaPair {
        from: areas.area("a").unwrap(),
        to: areas.area("b").unwrap(),
    };
    Planner::new(&areas)
        .plan(pair, &mut Work::default())
        .unwrap()
}

#[test]
fn each_request_has_one_spelling() {
    let call = |method: &str, path: &str| Call::of(&method.parse::<Method>().unwrap(), path);
    assert_eq!(call("POST", "/areas/v1/paths"), Ok(Call::Ask));
    assert_eq!(
        call("DELETE", "/areas/v1/paths/a~b"),
        Ok(Call::Withdraw("a~b".into()))
    );
    assert_eq!(
        call("PUT", "/areas/v1/parts/a~b"),
        Ok(Call::Provision("a~b".into()))
    );
    for path in [
        "/areas/v1/paths/a/b",
        "/areas/v1/paths/%61~b",
        "/areas/v1/paths/../parts",
        "/areas/v1/paths/a~b?x",
        "/areas/v1/PATHS",
        "/areas/v2/paths",
        "/",
    ] {
        assert_eq!(call("DELETE", path), Err(NoCall::NotFound), "{path}");
    }
    let long = format!("/areas/v1/paths/{}", "a".repeat(161));
    assert_eq!(call("GET", &long), Err(NoCall::NotFound));
    assert_eq!(
        call("PATCH", "/areas/v1/paths"),
        Err(NoCall::NotAllowed("GET, POST"))
    );
    assert_eq!(
        call("GET", "/areas/v1/parts/x"),
        Err(NoCall::NotAllowed("PUT, DELETE"))
    );
}

#[test]
fn without_a_rule_no_one_may_have_a_path() {
    let areas = areas();
    let allowance = |users: &str, from: &[&str]| Allowance {
        users: vec![users.to_owned()],
        from: from.iter().map(|&name| name.to_owned()).collect(),
        to: Vec::new(),
    };
    assert!(!Authoriser::default().allows("alice", "a", "b"));
    let some = Authoriser::new(&[allowance("*@amc", &["a"])], &areas).unwrap();
    assert!(some.allows("alice@amc", "a", "b"));
    assert!(!some.allows("alice@umc", "a", "b"));
    assert!(
        !some.allows("alice@AMC", "a", "b"),
        "users are compared letter by letter"
    );
    assert!(!some.allows("alice@amc", "b", "a"));

    let wrong = Authoriser::new(&[allowance("group:staff", &["c"])], &areas).unwrap_err();
    let told: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert!(
        told[0].contains("allow[0].from: there is no area `c`"),
        "{told:?}"
    );
    assert!(told[1].contains("`group:staff` is a group"), "{told:?}");
}

#[test]
fn a_path_ends_with_the_last_of_its_users() {
    let plan = plan();
    let ledger = Ledger::default().joined("p", &plan, "alice").unwrap();
    assert_eq!(
        ledger.joined("p", &plan, "alice").unwrap(),
        ledger,
        "the same again"
    );
    let both = ledger.joined("p", &plan, "bob").unwrap();
    assert!(both.path_of("p", "carol").is_none());

    let left = both.left("p", "alice");
    assert!(left.path_of("p", "alice").is_none() && !left.plans().is_empty());
    assert_eq!(
        both.left("p", "carol"),
        both,
        "a stranger has nothing to withdraw"
    );
    let ended = left.left("p", "bob");
    assert!(ended.plans().is_empty(), "no routes");
    assert!(
        ended.path_of("p", "bob").unwrap().ending,
        "he may ask again until all places know"
    );
    assert_eq!(ended.joined("p", &plan, "bob").unwrap().plans().len(), 1);
    assert_eq!(ended.without("p"), Ledger::default());
}

#[test]
fn users_and_places_have_bounds() {
    let plan = plan();
    let mut ledger = Ledger::default();
    for number in 0..PATHS_OF_USER {
        ledger = ledger
            .joined(&format!("p{number}"), &plan, "alice")
            .unwrap();
    }
    assert_eq!(ledger.joined("more", &plan, "alice"), Err(Full::User));
    assert!(ledger.joined("p0", &plan, "alice").is_ok());
    let mut number = PATHS_OF_USER;
    while number < PATHS {
        let user = format!("user{}", number / PATHS_OF_USER);
        ledger = ledger.joined(&format!("p{number}"), &plan, &user).unwrap();
        number += 1;
    }
    assert_eq!(ledger.joined("more", &plan, "late"), Err(Full::Place));
}

#[test]
fn consent_that_is_gone_takes_its_paths_along() {
    let plan = plan();
    let ledger = Ledger::default().joined("p", &plan, "alice").unwrap();
    let ledger = ledger.joined("q", &plan, "bob").unwrap();
    let kept = ledger.kept(|_, user| user == "bob");
    assert!(kept.path("p").is_none() && kept.path("q").is_some());
}

#[test]
fn files_are_as_before_if_the_node_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("routes.yaml"), "version: 1\n").unwrap();
    let shelf = Shelf::new(folder.path().to_owned());
    let ledger = Ledger::default().joined("a~b", &plan(), "alice").unwrap();

    let refused = Cell::new(0);
    let refuse = || {
        refused.set(refused.get() + 1);
        // The second time the old file is read again, which is sound.
        (refused.get() > 1)
            .then_some(())
            .ok_or_else(|| "no such function".to_owned())
    };
    let told = shelf.put(&areas(), "a", &ledger, &refuse);
    assert_eq!(told, Err("no such function".to_owned()));
    assert_eq!(
        fs::read_to_string(file("routes.yaml")).unwrap(),
        "version: 1\n"
    );
    assert_eq!(shelf.read(), Ok(Ledger::default()));

    shelf.put(&areas(), "a", &ledger, &|| Ok(())).unwrap();
    let routes = fs::read_to_string(file("routes.yaml")).unwrap();
    assert!(
        routes.contains("through: [f]") || routes.contains("through: f"),
        "{routes}"
    );
    assert_eq!(shelf.read(), Ok(ledger));
}

#[test]
fn a_file_of_paths_that_is_broken_or_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(folder.path().to_owned());
    for content in ["", "{", "[]", "{\"paths\": {}, \"more\": 1}", "\u{0}"] {
        fs::write(folder.path().join("paths.json"), content).unwrap();
        assert!(
            shelf.read().unwrap_err().contains("paths.json"),
            "{content:?}"
        );
    }
    fs::remove_file(folder.path().join("paths.json")).unwrap();
    fs::create_dir(folder.path().join("paths.json")).unwrap();
    assert!(shelf.read().is_err());
}

#[test]
fn settings_name_places_and_hosts_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("areas.yaml");
    fs::write(&file, AREAS).unwrap();
    let settings = |at: &str, partner: &str| AreasSettings {
        file: FilePath(file.clone()),
        at: at.to_owned(),
        folder: FilePath(folder.path().to_owned()),
        partners: [("b".to_owned(), partner.to_owned())].into(),
        allow: Vec::new(),
    };
    assert!(Domain::new(&settings("a", "areas.b:80")).is_ok());
    for (at, partner) in [
        ("c", "areas.b:80"),
        ("a", "areas.b"),
        ("a", "user@areas.b:80"),
        ("a", "http://b:80/"),
    ] {
        let told = Domain::new(&settings(at, partner)).unwrap_err();
        assert_eq!(told.len(), 1, "{at} {partner}: {told:?}");
    }
    let missing = AreasSettings {
        file: FilePath("/nowhere/areas.yaml".into()),
        ..settings("a", "areas.b:80")
    };
    assert!(
        Domain::new(&missing).unwrap_err()[0]
            .reason
            .contains("/nowhere/areas.yaml")
    );
}
