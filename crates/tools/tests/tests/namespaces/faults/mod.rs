//! A chain of proxies over HTTP/3 that carries tunnels, messages and UDP sessions while something happens to its path.
//!
//! A client's node, a proxy that passes on and one where everything ends, each in a network of its own.

mod blocked;
mod changes;
mod load;
mod loss;
mod row;
