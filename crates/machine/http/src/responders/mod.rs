//! The ways to answer an exchange, one for each version.

mod h1;
mod h2;
mod h3;
mod responder;

pub use h1::ConnectionResponder;
pub use h2::StreamResponder;
pub use h3::RequestStreamResponder;
pub use responder::{Adding, Responder};
