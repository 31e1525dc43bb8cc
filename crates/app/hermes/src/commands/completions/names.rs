//! The names that a shell offers: within a short time, and without a word where no one answers.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use hermes_control::service::NameKind;
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::admin;
use crate::commands::overlay::ask::ControllerSocket;

/// The longest that a user waits who has pressed a key.
#[doc(alias = "bound")]
const PATIENCE: Duration = Duration::from_millis(300);

/// Bytes of a name that is offered.
#[doc(alias = "bound")]
const LONGEST: usize = 256;

/// Kinds of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Completed {
    /// Nodes that run on this machine.
    Running,
    /// Nodes of the overlay.
    Nodes,
    /// Users and groups of the overlay.
    Users,
    /// Tokens that count.
    Tokens,
    /// Keys of resources.
    Keys,
    /// The names that users of the overlay, or of a node on this machine, may ask for.
    Targets,
}

impl Completed {
    /// The word by which scripts ask.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Nodes => NameKind::Nodes.word(),
            Self::Users => NameKind::Users.word(),
            Self::Tokens => NameKind::Tokens.word(),
            Self::Keys => NameKind::Keys.word(),
            Self::Targets => NameKind::Targets.word(),
        }
    }
}

/// The names of this kind that are known here.
pub async fn names(kind: Completed, controller: &ControllerSocket) -> Vec<String> {
    let of_overlay = |kind| within(of_controller(controller, kind));
    let mut names = match kind {
        Completed::Running => within(running()).await,
        Completed::Nodes => of_overlay(NameKind::Nodes).await,
        Completed::Users => of_overlay(NameKind::Users).await,
        Completed::Tokens => of_overlay(NameKind::Tokens).await,
        Completed::Keys => of_overlay(NameKind::Keys).await,
        Completed::Targets => {
            let of_controller = of_overlay(NameKind::Targets);
            let (names, routed) = tokio::join!(of_controller, within(routed()));
            with_others(names, routed)
        }
    };
    names.retain(|name| is_plain(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// Names, and others that are not the same in small letters, as nodes have them.
fn with_others(mut names: Vec<String>, others: Vec<String>) -> Vec<String> {
    let known: HashSet<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let is_new = |name: &String| !known.contains(&name.to_ascii_lowercase());
    names.extend(others.into_iter().filter(is_new));
    names
}

async fn within(asked: impl Future<Output = Option<Vec<String>>>) -> Vec<String> {
    let answered = timeout(PATIENCE, asked).await;
    answered.ok().flatten().unwrap_or_default()
}

async fn of_controller(controller: &ControllerSocket, kind: NameKind) -> Option<Vec<String>> {
    let answer = controller.get(&format!("/names?{}", kind.word())).await;
    serde_json::from_value(answer.ok()?).ok()
}

/// Nodes whose sockets are where nodes put them.
async fn running() -> Option<Vec<String>> {
    // A node that stands still may let a connection wait.
    let sockets = spawn_blocking(admin::all).await.ok()?;
    let stems = sockets.iter().filter_map(|path| path.file_stem()?.to_str());
    Some(stems.map(str::to_owned).collect())
}

/// Targets that routes of nodes on this machine name.
async fn routed() -> Option<Vec<String>> {
    let sockets = spawn_blocking(admin::all).await.ok()?;
    let mut targets = Vec::new();
    for socket in sockets {
        targets.extend(routes_of(&socket).await.unwrap_or_default());
    }
    Some(targets)
}

async fn routes_of(socket: &Path) -> Option<Vec<String>> {
    let answer = admin::ask(socket, "/config").await.ok()?;
    let routes = answer["document"]["routes"].as_array()?;
    let targets = routes
        .iter()
        .flat_map(|route| texts(&route["match"]["target"]));
    Some(targets.map(str::to_owned).collect())
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether a shell reads nothing into a name: bash expands the words that it is offered.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('-') && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_offered_as_the_controller_has_it() {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let offered = with_others(owned(&["VIDEO"]), owned(&["video", "db:5432"]));
        assert_eq!(offered, ["VIDEO", "db:5432"]);
    }

    #[test]
    fn names_in_which_a_shell_reads_something_are_not_offered() {
        for name in [
            "VIDEO",
            "DB:5432",
            "Name/default/web",
            "group:ops",
            "a@b.example",
        ] {
            assert!(is_plain(name), "{name}");
        }
        let long = "a".repeat(LONGEST + 1);
        for name in [
            "", "-rf", "$(id)", "`id`", "a b", "a;b", "*", "~x", "a\nb", "a'b", &long,
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
