//! The name of a node: as its file says, by the name of the file, or by that of the machine.

use hermes_config::Loaded;
use hermes_net::os;

/// Stands for the machine's name in `node`.
const HOST: &str = "{host}";

/// Stands for the file's name, without its ending.
const FILE: &str = "{file}";

/// Names that machines have which were given none.
const NAMELESS: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// The node's name: as configured, or that of its file. Characters that can stand in no name become `-`.
///
/// # Errors
/// It is to have the machine's name, and that has none of its own.
pub fn node_name(loaded: &Loaded) -> Result<String, String> {
    let stem = loaded.files.first().and_then(|file| file.file_stem());
    let file = stem.map_or("hermes".into(), |stem| stem.to_string_lossy());
    let written = loaded.document.node.as_deref();
    named(written, &file, os::host_name)
}

fn named(
    written: Option<&str>,
    file: &str,
    host: impl FnOnce() -> Option<String>,
) -> Result<String, String> {
    let mut name = written.unwrap_or(FILE).replace(FILE, file);
    if name.contains(HOST) {
        let own = host().filter(|own| !NAMELESS.contains(&&**own));
        let own = own.ok_or("this machine has no usable host name")?;
        name = name.replace(HOST, &own);
    }

    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let kept = |letter| if allowed(letter) { letter } else { '-' };
    Ok(name.chars().map(kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(written: Option<&str>, host: &str) -> Result<String, String> {
        named(written, "dp 1", || Some(host.to_owned()))
    }

    #[test]
    fn nodes_of_one_file_are_told_apart_by_their_hosts() {
        assert_eq!(of(None, "berlin").as_deref(), Ok("dp-1"));
        assert_eq!(of(Some("sap"), "berlin").as_deref(), Ok("sap"));
        assert_eq!(of(Some("{host}"), "berlin").as_deref(), Ok("berlin"));
        assert_eq!(
            of(Some("{file}.{host}"), "berlin").as_deref(),
            Ok("dp-1.berlin")
        );
        // The system lets a machine be called as it likes.
        assert_eq!(
            of(Some("{host}"), "a b\n{file}").as_deref(),
            Ok("a-b--file-")
        );
    }

    #[test]
    fn a_machine_without_a_name_of_its_own_gives_none() {
        for host in NAMELESS {
            assert!(of(Some("{host}"), host).is_err(), "{host}");
            assert!(of(Some("a"), host).is_ok());
        }
        assert!(named(Some("{host}"), "a", || None).is_err());
    }
}
