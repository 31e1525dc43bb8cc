//! A bound on the work of questions.

/// Steps of a search that a command may take: some seconds.
#[doc(alias = "bound")]
pub const WORK: u64 = 300_000_000;

/// Steps that questions may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    left: u64,
}

/// The steps are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Work {
    /// A number of steps, each of some ten nanoseconds.
    pub fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// Steps that are left.
    pub fn left(self) -> u64 {
        self.left
    }

    pub(crate) fn take(&mut self, steps: u64) -> Result<(), Exhausted> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Exhausted)
            }
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Self::new(WORK)
    }
}
