//! The relay on the command line: `hermes subscribe URL` and `hermes publish URL`.
//!
//! Both speak plain HTTP, to the relay itself or through a node beside the user (`--proxy`), which carries it on over TLS. The client itself is
//! `hermes-relay-client`.

mod address;
pub mod publish;
pub mod subscribe;
