//! The segments of a tunnel, made along the functions of its route.

use hermes_observe::{Counters, FunctionCount};
use hermes_plug::{Altering, Detour};

use super::segments::{CarriedSegment, FunctionEnd, Segment, SegmentEnd, SegmentFlags};
use crate::stage::Stage;

/// Makes the segments of a tunnel, from its client on.
pub(crate) struct SegmentMaker<'a> {
    /// The end of the next segment on the client's side.
    client: SegmentEnd<'a>,
    client_function: Option<FunctionEnd<'a>>,
    to_target: Vec<Stage<'a>>,
    to_client: Vec<Stage<'a>>,
    made: Vec<CarriedSegment<'a>>,
    /// One of each segment.
    flags: &'a [SegmentFlags],
    counters: &'a Counters,
}

impl<'a> SegmentMaker<'a> {
    /// Begins at the client; there are flags for as many segments as will be made.
    pub(crate) fn new(
        client: SegmentEnd<'a>,
        flags: &'a [SegmentFlags],
        counters: &'a Counters,
    ) -> Self {
        Self {
            client,
            client_function: None,
            to_target: Vec::new(),
            to_client: Vec::new(),
            made: Vec::with_capacity(flags.len()),
            flags,
            counters,
        }
    }

    /// Bytes are changed here.
    pub(crate) fn stage(
        &mut self,
        name: &'a str,
        altering: &'a mut Altering,
        count: Option<&'a FunctionCount>,
    ) {
        self.to_target.push(Stage {
            name,
            alter: &mut *altering.to_target,
            count: count.map(|count| &count.to_target),
        });
        self.to_client.push(Stage {
            name,
            alter: &mut *altering.to_client,
            count: count.map(|count| &count.to_client),
        });
    }

    /// Bytes go outside here.
    pub(crate) fn detour(&mut self, detour: &'a mut Detour, count: &'a FunctionCount) {
        let at = self.made.len();
        let near = FunctionEnd {
            name: &count.name,
            beyond: &self.flags[at + 1],
            taken: &count.to_target.taken,
            given: &count.to_client.given,
        };
        let far = FunctionEnd {
            name: &count.name,
            beyond: &self.flags[at],
            taken: &count.to_client.taken,
            given: &count.to_target.given,
        };
        let next = SegmentEnd {
            incoming: &mut detour.far.incoming,
            outgoing: &mut detour.far.outgoing,
        };
        let client = std::mem::replace(&mut self.client, next);
        let client_function = self.client_function.replace(far);
        let target = SegmentEnd {
            incoming: &mut detour.near.incoming,
            outgoing: &mut detour.near.outgoing,
        };
        let segment = Segment {
            client,
            target,
            to_target: std::mem::take(&mut self.to_target),
            to_client: std::mem::take(&mut self.to_client),
            client_function,
            target_function: Some(near),
            flags: &self.flags[at],
            moved_to_target: &self.counters.client_to_target,
            moved_to_client: &self.counters.target_to_client,
        };
        self.made.push(segment.carry());
    }

    /// The last segment ends at the target.
    pub(crate) fn end(self, target: SegmentEnd<'a>) -> Vec<CarriedSegment<'a>> {
        let Self { mut made, .. } = self;
        let segment = Segment {
            client: self.client,
            target,
            to_target: self.to_target,
            to_client: self.to_client,
            client_function: self.client_function,
            target_function: None,
            flags: &self.flags[made.len()],
            moved_to_target: &self.counters.client_to_target,
            moved_to_client: &self.counters.target_to_client,
        };
        made.push(segment.carry());
        made
    }
}
