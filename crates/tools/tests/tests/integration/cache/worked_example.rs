//! The example of docs/cache.md, as a reader follows it.

use std::path::Path;

use hermes_tests::{Node, curl, origins};

use super::{answer, is_hit};

#[test]
fn the_example_of_the_page_does_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/cache.md");
    let page = std::fs::read_to_string(page).unwrap();
    let yaml = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let yaml = yaml.replace("version: 1\n", "").replace(":3128", ":0");
    let origin = origins::scripted(&answer("Cache-Control: public, max-age=60\r\n", "hello"));

    let node = Node::start("example", &yaml);
    let url = format!("http://{}/", origin.address());
    let ask = || curl(&["-x", &node.url("web"), &url]);
    let first = ask();
    let stored = first.field("cache-status").unwrap();
    assert_eq!(
        (first.status, stored.as_str()),
        (200, "hermes; fwd=miss; stored")
    );
    assert!(page.contains(&stored));
    assert!(is_hit(&ask()));
    assert_eq!(node.status()["plugs"]["cache"]["hit"], 1);
    assert_eq!(node.status()["plugs"]["cache"]["memory"], 256 << 20);
}
