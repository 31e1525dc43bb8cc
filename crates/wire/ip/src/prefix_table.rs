//! A table of prefixes that does not change: the longest that has an address, by one binary search.

use std::net::IpAddr;

use hermes_proto::ip::IpPrefix;

/// Prefixes of one table: a machine's own split of the address space. Each is a route of the kernel's as well.
#[doc(alias = "bound")]
pub const MAX_PREFIXES: usize = 16_384;

/// From prefixes to values, compiled into intervals that are in order and apart, each with the value of its longest prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixTable<T> {
    v4: Vec<Segment<u32, T>>,
    v6: Vec<Segment<u128, T>>,
}

/// A prefix was not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixTableError {
    /// The prefix is listed twice.
    #[error("{0} is there twice")]
    Twice(IpPrefix),
    /// There are too many.
    #[error("a table has up to {MAX_PREFIXES} prefixes")]
    TooMany,
}

/// From here on, until the next one begins, addresses have this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment<A, T> {
    start: A,
    value: Option<T>,
}

/// A prefix as the interval that it is.
#[derive(Debug, Clone, Copy)]
struct Span<A, T> {
    start: A,
    end: A,
    value: T,
}

impl<T: Copy + PartialEq> PrefixTable<T> {
    /// Compiles a table.
    ///
    /// # Errors
    /// [`PrefixTableError`]
    pub fn new(prefixes: &[(IpPrefix, T)]) -> Result<Self, PrefixTableError> {
        if prefixes.len() > MAX_PREFIXES {
            return Err(PrefixTableError::TooMany);
        }
        let mut sorted = prefixes.to_vec();
        // A prefix comes before those within it.
        sorted.sort_by_key(|(prefix, _)| (prefix.address(), prefix.length()));
        let twice = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(pair) = twice {
            return Err(PrefixTableError::Twice(pair[0].0));
        }

        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for (prefix, value) in sorted {
            match prefix.address() {
                IpAddr::V4(address) => {
                    let start = address.to_bits();
                    // A shift by the whole width overflows: a prefix of all bits has no bits for hosts.
                    let hosts = u32::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
                    let end = start | hosts;
                    v4.push(Span { start, end, value });
                }
                IpAddr::V6(address) => {
                    let start = address.to_bits();
                    let hosts = u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
                    let end = start | hosts;
                    v6.push(Span { start, end, value });
                }
            }
        }
        Ok(Self {
            v4: compile(&v4, |end| end.checked_add(1)),
            v6: compile(&v6, |end| end.checked_add(1)),
        })
    }

    /// The value of the longest prefix that has this address.
    pub fn find(&self, address: IpAddr) -> Option<T> {
        match address {
            IpAddr::V4(address) => value_at(&self.v4, address.to_bits()),
            IpAddr::V6(address) => value_at(&self.v6, address.to_bits()),
        }
    }
}

/// Makes segments of spans, of which each lies within another one or apart from it, the outer one first.
fn compile<A: Ord + Copy, T: Copy + PartialEq>(
    spans: &[Span<A, T>],
    after: impl Fn(A) -> Option<A>,
) -> Vec<Segment<A, T>> {
    let mut segments = Vec::new();
    let mut open: Vec<Span<A, T>> = Vec::new();
    for span in spans {
        // A sweep over starts: prefixes nest or are apart, so a stack of open ones is enough.
        close(&mut segments, &mut open, Some(span.start), &after);
        begin(&mut segments, span.start, Some(span.value));
        open.push(*span);
    }
    close(&mut segments, &mut open, None, &after);
    segments
}

/// Ends the spans that end before this one begins: the addresses behind them belong to the
/// surrounding span.
fn close<A: Ord + Copy, T: Copy + PartialEq>(
    segments: &mut Vec<Segment<A, T>>,
    open: &mut Vec<Span<A, T>>,
    before: Option<A>,
    after: &impl Fn(A) -> Option<A>,
) {
    while let Some(last) = open.pop_if(|last| before.is_none_or(|start| last.end < start)) {
        // Behind a prefix, the one around it holds again.
        let around = open.last().map(|around| around.value);
        // The last address has none behind it.
        if let Some(next) = after(last.end) {
            begin(segments, next, around);
        }
    }
}

/// Begins a segment; one of no length gives way, and one that says the same goes on.
fn begin<A: Ord + Copy, T: Copy + PartialEq>(
    segments: &mut Vec<Segment<A, T>>,
    start: A,
    value: Option<T>,
) {
    // A segment that would be empty, as an inner prefix begins where the outer one does.
    segments.pop_if(|last| last.start == start);
    let before = segments.last().and_then(|last| last.value);
    // Neighbours with one value become one segment: less to search.
    if before != value {
        segments.push(Segment { start, value });
    }
}

fn value_at<A: Ord + Copy, T: Copy>(segments: &[Segment<A, T>], address: A) -> Option<T> {
    let following = segments.partition_point(|segment| segment.start <= address);
    segments.get(following.checked_sub(1)?)?.value
}
