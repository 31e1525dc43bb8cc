//! `hermes why`: why an exchange was refused, or what would become of one that is only supposed, step by step.
//!
//! - `hermes why FILE GET http://VIDEO/one`: what a node with this file would decide
//! - `hermes why GET http://VIDEO/one`: what the running node would decide
//! - `hermes why --overlay VIDEO --user alice`: the way of an exchange through an overlay with a controller
//! - `hermes why kdmqbtrfhcsp`: why the running node refused; that is the `refusal` of `Proxy-Status` and of access records

mod file;
mod running;
mod show;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use hermes_admit::refusals::account::Account;
use hermes_node::why::SupposedExchange;
use hermes_node::why::question::parse_time;
use hermes_node::why::supposed_claims::parse_claim;
use hermes_proto::refusal_id::RefusalId;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::overlay::explain;
use crate::admin::Which;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes why`.
#[derive(Debug, Args)]
pub struct Why {
    /// A configuration and an exchange, to ask what a node with this file would do: a URL, a method and a URL, CONNECT,
    /// CONNECT-TCP or CONNECT-UDP and host:port, CONNECT-IP with what the packets are for, UPGRADE with a protocol and a URL, or
    /// PACKET or PACKET-TO-CLIENT with a protocol and where it goes; none for a `tcp`, `udp` or `tun` listener. The exchange alone, to
    /// ask the running node. Or what was refused: the `refusal` of Proxy-Status, or the `id` of an access record.
    #[arg(num_args = 0..=4, value_name = "FILE METHOD TARGET | METHOD TARGET | ID")]
    words: Vec<String>,
    /// Listener where it enters, or LISTENER/TUNNEL where its device has several. Default: the first for HTTP.
    #[arg(long)]
    listener: Option<String>,
    /// User whom authentication found.
    #[arg(long)]
    user: Option<String>,
    /// Group that this user's token claims.
    #[arg(long = "claim-group", value_name = "NAME", requires = "user")]
    claim_groups: Vec<String>,
    /// What else this token claims, for policies in Rego: the value is JSON, or a text where it is none.
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = parse_claim)]
    claims: Vec<(String, Value)>,
    /// Peer that hands it over, by its name in `peers`.
    #[arg(long)]
    peer: Option<String>,
    #[command(flatten)]
    origin: Origin,
    /// A field of it, `name: value`.
    #[arg(short = 'H', long = "field", value_name = "NAME: VALUE")]
    fields: Vec<String>,
    /// Have the running node ask its filters, too.
    #[arg(long)]
    ask: bool,
    #[command(flatten)]
    following: Following,
    #[command(flatten)]
    overlay: explain::OfOverlay,
    #[command(flatten)]
    which: Which,
}

/// Whether further nodes are asked.
#[derive(Debug, Args)]
struct Following {
    /// Follow a refusal over the nodes of its path: those that run here, and those of --also.
    #[arg(long)]
    all: bool,
    /// Admin socket of a further node to ask, such as one of another machine that a tunnel brings here; may be repeated.
    #[arg(long, value_name = "PATH", requires = "all")]
    also: Vec<PathBuf>,
}

/// Where an exchange comes from, and when.
#[derive(Debug, Args)]
struct Origin {
    /// Address of its client, or where a packet comes from. Default: 127.0.0.1, of a `tun` listener that of its device.
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// When it arrives, for rules with `hours`, and for a file's policies in Rego: 2026-11-27T18:30:00Z, of UTC. Default: now.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<u64>,
}

/// The question.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    /// The decision of a node with this file.
    File(PathBuf, &'a [String]),
    /// The decision of the running node.
    Running(&'a [String]),
    /// A refusal.
    Refused(&'a str),
}

impl Why {
    fn asked(&self) -> Result<Wanted<'_>, Failure> {
        let is_running = self.which.admin.is_some() || self.which.node.is_some();
        asked(&self.words, is_running)
    }

    fn supposed(&self, words: &[String]) -> SupposedExchange {
        SupposedExchange {
            words: words.to_vec(),
            listener: self.listener.clone(),
            user: self.user.clone(),
            claim_groups: self.claim_groups.clone(),
            claims: self.claims.iter().cloned().collect(),
            peer: self.peer.clone(),
            source: self.origin.source,
            at: self.origin.at,
            fields: self.fields.clone(),
            ask: self.ask,
        }
    }
}

/// The question of these words; `is_running` if they name a running node.
fn asked(words: &[String], is_running: bool) -> Result<Wanted<'_>, Failure> {
    match words {
        [id] if is_id(id) && !Path::new(id).exists() => Ok(Wanted::Refused(id)),
        words if is_running => Ok(Wanted::Running(words)),
        [first, ..] if first.contains("://") => Ok(Wanted::Running(words)),
        [verb, ..] if is_verb(verb) => Ok(Wanted::Running(words)),
        [_, target] if !is_file(&words[0]) && !target.is_empty() => Ok(Wanted::Running(words)),
        [file, words @ ..] => Ok(Wanted::File(file.into(), words)),
        [] => Err(Failure::invalid("name a request, a refusal or an exchange")
            .remedy("hermes why FILE GET http://VIDEO/one, or the `refusal` of a Proxy-Status")),
    }
}

/// Kinds of exchanges that one, two or three words ask for, and packets.
const VERBS: [&str; 4] = ["CONNECT-IP", "UPGRADE", "PACKET", "PACKET-TO-CLIENT"];

fn is_verb(word: &str) -> bool {
    VERBS.iter().any(|verb| word.eq_ignore_ascii_case(verb)) && !Path::new(word).exists()
}

/// Whether a word can be a file and no method: it is there, or looks like one.
fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    path.exists() || path.extension().is_some() || word.contains('/')
}

/// Whether a word is the name of a refusal, or the identifier of an exchange, `xxxxxxxx-N`.
fn is_id(word: &str) -> bool {
    let is_exchange = word.split_once('-').is_some_and(|(prefix, number)| {
        let is_hex = prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        prefix.len() == 8 && is_hex && number.parse::<u64>().is_ok()
    });
    is_exchange || word.parse::<RefusalId>().is_ok()
}

/// Prints the decision, real or supposed, and each step with its line in the file.
///
/// # Errors
/// With exit code 2 if the file is not valid or the question is none, with 3 if the node cannot be reached, with 1 if the exchange
/// is refused or what was refused is not known.
pub async fn run(why: &Why, output: Output) -> Result<(), Failure> {
    if why.overlay.overlay {
        let user = why.user.as_deref().unwrap_or_default();
        return explain::run(&why.overlay, &why.words, user, output).await;
    }
    let accounts = match why.asked()? {
        Wanted::File(file, words) => {
            let supposed = why.supposed(words);
            let account = spawn_blocking(move || file::account(&file, &supposed, output));
            vec![
                account
                    .await
                    .map_err(|error| Failure::failed(error.to_string()))??,
            ]
        }
        Wanted::Running(words) => {
            let socket = why.which.socket()?;
            vec![running::suppose(&socket, &why.supposed(words)).await?]
        }
        Wanted::Refused(id) if why.following.all => {
            running::follow(&why.which, &why.following.also, id).await?
        }
        Wanted::Refused(id) => vec![running::refused(&why.which, id).await?],
    };

    show_all(&accounts, why.following.all, output);
    // To be told why something was refused is a success.
    let refused = |account: &Account| !account.allowed && account.happened.is_none();
    if accounts.iter().any(refused) {
        Err(Failure::told(1))
    } else {
        Ok(())
    }
}

fn show_all(accounts: &[Account], several: bool, output: Output) {
    match accounts {
        [account] if output.json && !several => output.value(account),
        accounts if output.json => output.value(&json!({ "path": accounts })),
        accounts => accounts
            .iter()
            .for_each(|account| show::show(account, output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_what_is_asked() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let get = words("GET http://VIDEO/one");
        let of_file = words("edge.yaml GET http://VIDEO/one");
        let connect = words("CONNECT DB:5432");
        let packet = words("packet tcp 10.0.2.1:443");
        let of_device = words("edge.yaml CONNECT-IP 10.0.0.0/8 udp");
        let refused = words("kdmqbtrfhcsp");
        let exchange = words("0a1b2c3d-17");

        let file = Wanted::File("edge.yaml".into(), &get);
        assert_eq!(asked(&of_file, false).unwrap(), file);
        assert_eq!(asked(&get, false).unwrap(), Wanted::Running(&get));
        assert_eq!(asked(&connect, false).unwrap(), Wanted::Running(&connect));
        assert_eq!(asked(&packet, false).unwrap(), Wanted::Running(&packet));
        assert_eq!(
            asked(&of_device, false).unwrap(),
            Wanted::File("edge.yaml".into(), &of_device[1..])
        );
        assert_eq!(asked(&[], true).unwrap(), Wanted::Running(&[]));
        assert_eq!(
            asked(&refused, false).unwrap(),
            Wanted::Refused("kdmqbtrfhcsp")
        );
        assert_eq!(
            asked(&exchange, true).unwrap(),
            Wanted::Refused("0a1b2c3d-17")
        );
        assert!(asked(&[], false).is_err());
    }
}
