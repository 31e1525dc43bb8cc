//! Signed URLs: anyone who holds one gets the one stored response, until its time is over; nothing else passes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hermes_tests::curl::Output;
use hermes_tests::origins::{self, Origin};
use hermes_tests::{Node, curl, program};
use serde_json::Value;

use super::{answer, is_hit};

const PUBLIC: &str = "Cache-Control: public, max-age=60\r\n";

/// The program of docs/signed-urls.md, and a call of it.
const SIGN: &str = "import sys\nprint(sign(open(sys.argv[1]).read().strip(), sys.argv[2], sys.argv[3], int(sys.argv[4])))\n";

/// A gateway whose paths below `/film/` need a signature, and the origin behind it.
struct Shop {
    origin: Origin<String>,
    node: Node,
}

impl Shop {
    /// `more` are further keys of `signed`.
    fn open(more: &str) -> Self {
        let origin = origins::scripted(&answer(PUBLIC, "film"));
        let folder = tempfile::tempdir().unwrap();
        make_key(&folder.path().join("film.key"));
        let yaml = Self::yaml(&origin, &format!("key_file: film.key, {more}"));
        let node = Node::start_in(folder, "shop", &yaml, &[]);
        Self { origin, node }
    }

    fn yaml(origin: &Origin<String>, signed: &str) -> String {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}\n\
             log: {{ access: {{ file: access.json }}, decisions: {{ file: decisions.json }} }}\n\
             policy: {{ default: allow, rules: [ {{ match: {{ path: /film/secret }}, deny: {{ reason: no }} }} ] }}\n\
             routes:\n  - {{ match: {{ path: /film/* }}, signed: {{ {signed} }}, terminate: films, through: [cache] }}\n\
             \x20 - {{ respond: {{ status: 404 }} }}\n\
             upstreams: {{ films: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        )
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.node.url("web"))
    }

    fn sign(&self, path: &str, arguments: &[&str]) -> String {
        sign(
            &self.url(path),
            &self.node.folder().join("film.key"),
            arguments,
        )
    }

    /// The status, and the reason of a refusal.
    fn refused(&self, url: &str, arguments: &[&str]) -> (u16, String) {
        let got = curl(&[&["--path-as-is", url], arguments].concat());
        (got.status, got.field("proxy-status").unwrap_or_default())
    }
}

fn sign(url: &str, key: &Path, arguments: &[&str]) -> String {
    let key = key.to_str().unwrap();
    let said = program::run(&[&["sign", url, "--key", key], arguments].concat());
    assert_eq!(said.code, 0, "{said:?}");
    said.stdout.trim().to_owned()
}

fn make_key(file: &Path) {
    sign("http://any/", file, &[]);
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn get(url: &str) -> Output {
    curl(&["--path-as-is", url])
}

#[test]
fn holders_of_signed_urls_share_one_response_and_the_origin_sees_no_signature() {
    let shop = Shop::open("");
    let holders = ["1h", "2h", "3h"].map(|time| shop.sign("/film/1?part=2", &["--for", time]));
    let hits = holders.each_ref().map(|url| {
        let got = get(url);
        assert_eq!((got.status, got.text().as_str()), (200, "film"), "{url}");
        is_hit(&got)
    });
    assert_eq!(hits, [false, true, true]);
    let seen = shop.origin.seen();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].starts_with("GET /film/1?part=2 HTTP/1.1"),
        "{seen:?}"
    );

    // Other spellings of the signed URL are the same URL.
    let url = &holders[0];
    for (from, to) in [
        ("/film/1", "/film/%31"),
        ("/film/1", "/x/../film/1"),
        ("signature", "%73ignature"),
    ] {
        assert_eq!(get(&url.replace(from, to)).status, 200, "{to}");
    }
    let head = curl(&["-I", url]);
    assert_eq!(head.status, 200);
    assert_eq!(curl(&["-r", "1-2", url]).text(), "il");
}

#[test]
fn nothing_passes_that_was_not_signed_and_the_reason_is_said() {
    let shop = Shop::open("");
    let good = shop.sign("/film/1", &[]);
    let (_, signature) = good.split_once("?signature=").unwrap();
    let old = format!("1.{}", signature.split_once('.').unwrap().1);
    let film = |query: &str| shop.url(&format!("/film/1{query}"));
    for (url, reason) in [
        (film(""), "the URL is not signed"),
        (film("?Signature=1"), "the URL is not signed"),
        (film("?signature="), "malformed"),
        (film(&format!("?signature={old}")), "has expired"),
        (film(&format!("?signature={signature}&a")), "is wrong"),
        (good.replace("film/1", "film/2"), "is wrong"),
        (good.replace("film/1", "film/x/..;/1"), "dot segment"),
        (format!("{good}&signature={signature}"), "more than one"),
        (good.replace("signature=", "signature=9"), "is wrong"),
    ] {
        let (status, said) = shop.refused(&url, &[]);
        assert!(matches!(status, 400 | 403), "{url}");
        assert!(said.contains(reason), "{url}: {said}");
    }
    for arguments in [
        &["-X", "PUT"][..],
        &["-X", "DELETE"],
        &["-d", "content"],
        &["-H", "Upgrade: websocket", "-H", "Connection: upgrade"],
    ] {
        assert_eq!(shop.refused(&good, arguments).0, 403, "{arguments:?}");
    }
    // The host is signed, too: this name leads here as well.
    let elsewhere = ["-H", "Host: other.example"];
    assert!(shop.refused(&good, &elsewhere).1.contains("is wrong"));
    assert_eq!(shop.origin.seen().len(), 0);
    assert_eq!(get(&good).status, 200);
}

#[test]
fn keys_are_changed_without_a_gap() {
    let shop = Shop::open("parameter: token");
    let parameter = ["--parameter", "token"];
    let old = shop.sign("/film/1", &parameter);
    let other = shop.node.folder().join("new.key");
    make_key(&other);
    let new = sign(&shop.url("/film/1"), &other, &parameter);
    let statuses = || [&old, &new].map(|url| get(url).status);
    assert_eq!(statuses(), [200, 403]);
    for (keys, expected) in [("[film.key, new.key]", [200, 200]), ("new.key", [403, 200])] {
        let signed = format!("key_file: {keys}, parameter: token");
        let (status, said) = shop.node.reload(&Shop::yaml(&shop.origin, &signed));
        assert_eq!(status, 200, "{said}");
        assert_eq!(statuses(), expected);
    }
}

#[test]
fn a_signature_that_is_kept_reaches_the_next_hop() {
    let shop = Shop::open("keep: true");
    let url = shop.sign("/film/1", &[]);
    assert!(!is_hit(&get(&url)) && is_hit(&get(&url)));
    assert!(!is_hit(&get(&shop.sign("/film/1", &["--for", "2h"]))));
    assert!(shop.origin.last().contains("/film/1?signature="));
}

#[test]
fn what_is_written_down_has_no_signature() {
    let shop = Shop::open("");
    let good = shop.sign("/film/1", &[]);
    assert_eq!(
        curl(&["-H", &format!("Referer: {good}"), &good]).status,
        200
    );
    let secret = shop.sign("/film/secret", &[]);
    assert_eq!(get(&secret).status, 403);
    let wrong = good.replace("film/1", "film/2");
    let refused = get(&wrong);
    assert_eq!(refused.status, 403);

    let record = shop.node.record(|record| {
        let target = record["target"].as_str().unwrap();
        target.ends_with("/film/2")
    });
    let id = record["refusal"].as_str().unwrap();
    let ask = |path: &str| shop.node.ask("GET", path, "").1;
    let refusals = ask("/refusals");
    assert!(refusals.contains("is wrong"), "{refusals}");
    let socket = shop.node.socket();
    let why = Command::new(program::path())
        .args(["why", id, "--admin"])
        .arg(&socket)
        .output()
        .unwrap();
    let why = String::from_utf8([why.stdout, why.stderr].concat()).unwrap();
    assert!(why.contains("signed"), "{why}");

    let file = |name: &str| fs::read_to_string(shop.node.folder().join(name)).unwrap();
    let decisions = file("decisions.json");
    let lines: Vec<Value> = decisions
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        lines
            .iter()
            .any(|line| line["erased"].to_string().contains("/input/query")),
        "{decisions}"
    );
    let shown = program::run(&[
        "cache",
        "show",
        "--json",
        "--admin",
        socket.to_str().unwrap(),
    ]);
    for (place, text) in [
        ("records", file("access.json")),
        ("decisions", decisions),
        ("log", shop.node.log()),
        ("refusals", refusals),
        ("why", why),
        ("exchanges", ask("/exchanges")),
        ("stored", format!("{shown:?}")),
        ("config", ask("/config")),
    ] {
        for url in [&good, &secret] {
            let mac = url.rsplit_once('.').unwrap().1;
            assert!(!text.contains(mac), "{place}: {text}");
        }
    }
}

#[test]
fn a_configuration_that_signs_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(folder.path().join("short.key"), "0123456789").unwrap();
    fs::set_permissions(
        folder.path().join("short.key"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    for (signed, reason) in [
        ("key_file: short.key", "shorter than 32 characters"),
        ("key_file: none.key", "cannot read"),
        ("key_file: []", "the list is empty"),
        ("key_file: [a, b, c, d, e]", "name one to 4 files"),
        (
            "key_file: short.key, parameter: \"a b\"",
            "no name of a parameter",
        ),
    ] {
        let yaml = format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ signed: {{ {signed} }}, terminate: true }} ]\n"
        );
        fs::write(&file, yaml).unwrap();
        let said = program::run(&["check", file.to_str().unwrap()]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(format!("{said:?}").contains(reason), "{said:?}");
    }
}

/// docs/signed-urls.md, as a reader follows it.
#[test]
fn the_page_does_as_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/signed-urls.md");
    let page = fs::read_to_string(page).unwrap();
    let block = |language: &str| {
        let block = page.split(&format!("```{language}\n")).nth(1).unwrap();
        block.split("```").next().unwrap().to_owned()
    };
    let origin = origins::scripted(&answer(PUBLIC, "film"));
    let yaml = block("yaml")
        .replace("version: 1\n", "")
        .replace(":8080", ":0");
    let yaml = yaml.replace("127.0.0.1:9000", &origin.address().to_string());
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("film.key");
    make_key(&key);
    let program = folder.path().join("sign.py");
    fs::write(&program, block("python") + SIGN).unwrap();
    let node = Node::start_in(folder, "example", &yaml, &[]);
    assert_eq!(
        get(&sign(&format!("{}/film/1", node.url("web")), &key, &[])).status,
        200
    );

    let host = node.address("web").to_string();
    let path = "/film/1?part=%C3%A9";
    let ran = Command::new("python3")
        .arg(&program)
        .arg(&key)
        .args([&host, path, "60"])
        .output()
        .unwrap();
    let signed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(
        get(&format!("{}{}", node.url("web"), signed.trim())).status,
        200,
        "{signed}"
    );
}
