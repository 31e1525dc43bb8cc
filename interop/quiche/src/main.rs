//! An HTTP/3 client and server over quiche, and hand-made frames by h3i. `../README.md` says what the arguments and the
//! answers mean.

mod client;
mod link;
mod raw;
mod server;

/// What stops the program.
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["version"] => println!("0.24.9"),
        ["client", _, address, "raw", ref steps @ ..] => println!("{}", raw::run(address, steps)?),
        ["client", ca, address, action, ref more @ ..] => println!("{}", client::run(ca, address, action, more)?),
        ["server", cert, key, ref more @ ..] => server::run(cert, key, !more.contains(&"capsules"))?,
        _ => return Err("see interop/README.md".into()),
    }
    Ok(())
}
