//! An HTTP/3 client and server over h3 and h3-quinn. `../README.md` says what the arguments and the answers mean.

mod client;
mod link;
mod server;

use std::time::Duration;

/// What stops the program.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["version"] => println!("0.0.8 (h3-quinn 0.0.10)"),
        ["client", ca, address, action, ref more @ ..] => {
            let done = tokio::time::timeout(PATIENCE, client::run(ca, address, action, more)).await;
            println!("{}", done??);
        }
        ["server", cert, key, ref more @ ..] => server::run(cert, key, !more.contains(&"capsules")).await?,
        _ => return Err("see ../README.md".into()),
    }
    Ok(())
}
