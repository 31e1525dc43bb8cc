//! Debian's apt, with a flat repository behind four nodes: its paths are `/deb/./Packages`.

use std::fs;
use std::path::Path;
use std::process::Command;

use hermes_tests::curl;

use crate::four::Four;
use crate::late::Server;

/// A server of the files of a folder.
const FILES: &str = "
import functools, http.server
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory='FOLDER')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
print(server.server_port, flush=True)
server.serve_forever()
";

/// Runs a program that has to succeed; what it said.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let ended = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = [ended.stdout, ended.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(ended.status.success(), "{program} {arguments:?}: {said}");
    said
}

/// A package with one file, and the index that `dpkg-scanpackages` would write.
pub fn repository(folder: &Path) {
    let (tree, deb) = (folder.join("tree"), folder.join("deb"));
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    fs::create_dir_all(&deb).unwrap();
    let control = "Package: greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: Tester <tester@example.org>\n\
                   Description: says hello\n";
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    fs::write(tree.join("hello"), "hello\n".repeat(10_000)).unwrap();
    let package = deb.join("greeting_1.0_all.deb");
    run(
        "dpkg-deb",
        &[
            "--build",
            "--root-owner-group",
            tree.to_str().unwrap(),
            package.to_str().unwrap(),
        ],
    );
    let sum = run("sha256sum", &[package.to_str().unwrap()]);
    let (sum, size) = (
        sum.split(' ').next().unwrap(),
        fs::metadata(&package).unwrap().len(),
    );
    let index =
        format!("{control}Filename: ./greeting_1.0_all.deb\nSize: {size}\nSHA256: {sum}\n\n");
    fs::write(deb.join("Packages"), index).unwrap();
}

/// What apt needs to leave the machine alone.
pub fn apt(root: &Path, proxy: &str, arguments: &[&str]) -> String {
    for folder in [
        "etc/apt/apt.conf.d",
        "etc/apt/preferences.d",
        "lib/lists/partial",
        "cache/archives/partial",
    ] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("status"), "").unwrap();
    let at = root.display();
    let options = [
        format!("Dir::Etc={at}/etc/apt"),
        format!("Dir::Etc::sourcelist={at}/etc/apt/sources.list"),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State={at}/lib"),
        format!("Dir::State::status={at}/status"),
        format!("Dir::Cache={at}/cache"),
        format!("Acquire::http::Proxy={proxy}"),
        "Acquire::Retries=0".to_owned(),
        "Acquire::Languages=none".to_owned(),
        // Its helpers would change to a user who may not read the folder of a test.
        "APT::Sandbox::User=root".to_owned(),
        "Debug::NoLocking=true".to_owned(),
    ];
    let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
    run("apt-get", &[&options[..], arguments].concat())
}

#[test]
fn apt_installs_from_a_flat_repository_through_four_nodes() {
    let folder = tempfile::tempdir().unwrap();
    repository(folder.path());
    let server = Server::python(&FILES.replace("FOLDER", folder.path().to_str().unwrap()));
    for version in [2, 3] {
        let four = Four::start(version, server.address, "");
        let (root, proxy) = (
            folder.path().join(format!("root{version}")),
            four.entry().url("web"),
        );
        fs::create_dir_all(root.join("etc/apt")).unwrap();
        fs::write(
            root.join("etc/apt/sources.list"),
            "deb [trusted=yes] http://REPO/deb ./\n",
        )
        .unwrap();
        apt(&root, &proxy, &["update"]);
        apt(
            &root,
            &proxy,
            &["install", "--yes", "--download-only", "greeting"],
        );
        let got = fs::read(root.join("cache/archives/greeting_1.0_all.deb")).unwrap();
        assert!(
            got == fs::read(folder.path().join("deb/greeting_1.0_all.deb")).unwrap(),
            "{version}: the package"
        );
        let flat = curl(&["-x", &proxy, "--path-as-is", "http://REPO/deb/./Packages"]);
        assert!(
            flat.status == 200 && flat.text().starts_with("Package: greeting"),
            "{flat:?}"
        );
    }
}
