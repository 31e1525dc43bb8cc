//! One verdict for each flow: rules are asked about its first packet only.

use std::net::IpAddr;

use hermes_proto::ip::IpFlow;

/// Flows that a cache may remember: about 5 MB. One that is forgotten is judged again.
#[doc(alias = "bound")]
pub const MAX_FLOWS: usize = 65_536;

/// How many flows share a place; the one that was not asked about last goes first.
const WAYS: usize = 2;

/// An odd number with bits all over: the golden ratio's.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Remembers verdicts by flow, up to a fixed number of them.
///
/// There are no chains of entries with equal hashes: a peer that finds colliding flows makes us
/// judge again, and no more.
#[derive(Debug, Clone)]
pub struct FlowCache<V> {
    sets: Vec<[Option<Entry<V>>; WAYS]>,
    capacity: usize,
    seed: u64,
    /// Entries of an earlier generation hold no more.
    generation: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry<V> {
    flow: IpFlow,
    generation: u32,
    verdict: V,
}

impl<V: Copy> FlowCache<V> {
    /// A cache of up to `flows`, rounded up to a power of two. Memory is taken with the first. `seed` is any number that peers do not
    /// know.
    pub fn new(flows: usize, seed: u64) -> Self {
        Self {
            sets: Vec::new(),
            // A power of two, so that a mask finds the set.
            capacity: flows.clamp(WAYS, MAX_FLOWS).next_power_of_two() / WAYS,
            seed,
            generation: 0,
        }
    }

    /// The remembered verdict on a flow, or that of `judge`, which is then remembered.
    pub fn verdict(&mut self, flow: &IpFlow, judge: impl FnOnce(&IpFlow) -> V) -> V {
        // A hit is one hash and at most two comparisons; rules are asked only on a miss.
        if let Some(known) = self.known(flow) {
            return known;
        }
        let verdict = judge(flow);
        self.remember(flow, verdict);
        verdict
    }

    /// The verdict on a flow, if it is remembered.
    pub fn known(&mut self, flow: &IpFlow) -> Option<V> {
        let generation = self.generation;
        let is_it = |entry: &Entry<V>| entry.generation == generation && entry.flow == *flow;
        let set = self.set(flow);

        // The one asked about last stands first.
        if !set[0].as_ref().is_some_and(is_it) {
            set.swap(0, 1);
        }
        let entry = set[0].as_ref().filter(|entry| is_it(entry));
        entry.map(|entry| entry.verdict)
    }

    /// Remembers a verdict on a flow that is [not known](Self::known).
    pub fn remember(&mut self, flow: &IpFlow, verdict: V) {
        let generation = self.generation;
        let set = self.set(flow);
        // The entry used longer ago was swapped to the front by `known`: it is the one to be replaced.
        set[0] = Some(Entry {
            flow: *flow,
            generation,
            verdict,
        });
    }

    fn set(&mut self, flow: &IpFlow) -> &mut [Option<Entry<V>>; WAYS] {
        // Most tunnels carry a few flows or none: idle ones have no table.
        if self.sets.is_empty() {
            self.sets.resize_with(self.capacity, || [None, None]);
        }
        // Seeded: a client that knew the hash could aim all its flows, and others', at one set.
        let at = hash(self.seed, flow) as usize & (self.capacity - 1);
        &mut self.sets[at]
    }

    /// Forgets all verdicts: rules, addresses or routes have changed.
    pub fn forget(&mut self) {
        // Forgets all in one step: a change of rules must not wait for 65,536 entries to be emptied.
        self.generation = self.generation.wrapping_add(1);
        // Else entries of long ago would hold again.
        if self.generation == 0 {
            self.sets.clear();
        }
    }
}

/// Mixes the words of a flow.
pub(crate) fn hash(seed: u64, flow: &IpFlow) -> u64 {
    let [source, destination] = [flow.source, flow.destination].map(|address| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    });
    let ports = u64::from(flow.source_port) << 16 | u64::from(flow.destination_port);
    let words = [
        source as u64,
        (source >> 64) as u64,
        destination as u64,
        (destination >> 64) as u64,
        ports | u64::from(flow.protocol) << 32,
    ];

    words.into_iter().fold(seed, |state, word| {
        // A folded multiplication: all bits of a word reach the low bits that choose the set, for one instruction.
        let product = u128::from(state ^ word) * u128::from(MIX);
        (product as u64) ^ ((product >> 64) as u64)
    })
}
