//! Names of the configuration that no plug has.

use hermes_example_plugs::broker::Broker;
use hermes_node::check_with;
use hermes_plug::Plugs;
use http::uri::Authority;

use super::node::document;

/// What is wrong with a node of this configuration.
fn problems(yaml: &str, plugs: &Plugs) -> String {
    let folder = tempfile::tempdir().unwrap();
    let checked = check_with(document("names", yaml, folder.path()), plugs);
    checked.map_or_else(
        |problems| {
            let said: Vec<_> = problems
                .0
                .iter()
                .map(|problem| {
                    let remedy = problem.remedy.as_deref().unwrap_or_default();
                    format!("{}: {}; {remedy}", problem.path, problem.reason)
                })
                .collect();
            said.join("\n")
        },
        |()| String::new(),
    )
}

#[test]
fn a_name_that_no_plug_has_is_a_mistake() {
    let broker = || Broker::new(Authority::from_static("FEED"));
    let plugs = Plugs::new().handler("relay", broker());
    let routes = |name: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes:\n  - {{ handle: {name} }}\n"
        )
    };
    assert_eq!(problems(&routes("relay"), &plugs), "");
    assert_eq!(
        problems(&routes("rely"), &plugs),
        "routes[0].handle: there is no handler `rely`; did you mean `relay`?"
    );
    assert_eq!(
        problems(&routes("something"), &plugs.handler("cache", broker())),
        "routes[0].handle: there is no handler `something`; handler: this program has cache, custody, relay"
    );
    let through = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: true, through: [compres, compress] } ]\n";
    assert_eq!(
        problems(through, &Plugs::new()),
        "routes[0].through[0]: there is no transform `compres`; did you mean `compress`?\n\
         routes[0].through[1]: nothing undoes `compress` where the overlay ends; remove it here: transforms of the previous node are undone anyway"
    );
    let by = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: { by: ndn } } ]\n";
    assert_eq!(
        problems(by, &Plugs::new()),
        "routes[0].terminate.by: there is no connector `ndn`; this program has no connector: use one that has, or remove it"
    );
    assert_eq!(
        problems(&routes("relay"), &Plugs::new()),
        "routes[0].handle: there is no handler `relay`; handler: this program has custody"
    );
}

#[test]
fn a_store_is_there_by_its_name_and_memory_always() {
    let of = |store: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes:\n  \
             - {{ terminate: \"127.0.0.1:9\", broadcast: {{ users: [a]{store} }} }}\n"
        )
    };
    let plugs = Plugs::new();
    assert_eq!(problems(&of(""), &plugs), "");
    assert_eq!(problems(&of(", store: memory"), &plugs), "");
    assert_eq!(
        problems(&of(", store: files"), &plugs),
        "routes[0].broadcast.store: there is no store `files`; store: this program has memory"
    );
}
