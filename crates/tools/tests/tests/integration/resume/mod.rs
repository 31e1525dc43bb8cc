//! UDP sessions whose way breaks: they go on on another, and keep their socket.

mod chain;
mod pieces;
mod token;
