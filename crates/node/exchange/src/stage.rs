//! One change on the way of the bytes of a direction.

use hermes_observe::FunctionBytes;
use hermes_plug::Alter;

/// A change of one direction, in the order of the route.
pub(crate) struct Stage<'a> {
    pub(crate) name: &'a str,
    pub(crate) alter: &'a mut dyn Alter,
    pub(crate) count: Option<&'a FunctionBytes>,
}
