//! Systems that move no bytes between sockets by themselves: there is no pipe, and callers copy.

use std::io;
use std::os::fd::AsFd;

/// A pipe that cannot be made here.
#[derive(Debug)]
pub enum Pipe {}

impl Pipe {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn new(_size: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called: there is no pipe.
    ///
    /// # Errors
    /// Never.
    pub fn fill(&mut self, _socket: impl AsFd, _most: usize) -> io::Result<usize> {
        match *self {}
    }

    /// Never called: there is no pipe.
    ///
    /// # Errors
    /// Never.
    pub fn empty(&mut self, _socket: impl AsFd) -> io::Result<usize> {
        match *self {}
    }

    /// Never called: there is no pipe.
    #[must_use]
    pub fn held(&self) -> usize {
        match *self {}
    }
}
