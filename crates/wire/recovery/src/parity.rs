//! Parity of a block of datagrams: Reed-Solomon codes, by which any so many lost ones can be computed from so many parities.

use bytes::{BufMut, Bytes, BytesMut};

use crate::frame::BLOCK;

/// The probability that a block loses more than its parity mends, where the parity follows the measured loss.
const RESIDUAL: f64 = 1e-5;

/// Bytes of the length before each datagram in its shard.
const LENGTH: usize = 2;

/// The parities of a block.
pub(crate) fn encode(block: &[Bytes], parities: usize) -> Vec<Bytes> {
    let longest = block.iter().map(Bytes::len).max().unwrap_or(0);
    let size = (LENGTH + longest).next_multiple_of(2);
    let shards = block.iter().map(|datagram| shard(datagram, size));
    // It fails for numbers and sizes that no block has.
    let encoded = reed_solomon_simd::encode(block.len(), parities, shards).unwrap_or_default();
    encoded.into_iter().map(Bytes::from).collect()
}

/// The received part of a block.
pub(crate) struct PartialBlock<'a> {
    /// Datagrams of the block.
    pub(crate) data: usize,
    /// Parities of the block.
    pub(crate) parity: usize,
    /// The datagrams that came, and their places.
    pub(crate) found: Vec<(usize, &'a Bytes)>,
    /// The parities that came, and their places.
    pub(crate) shards: &'a [(u8, Bytes)],
}

impl PartialBlock<'_> {
    /// The missing datagrams, and their places; none where too much is missing, or nothing fits together.
    pub(crate) fn decode(&self) -> Vec<(usize, Bytes)> {
        let missing = self.data.saturating_sub(self.found.len());
        let Some((_, first)) = self.shards.first() else {
            return Vec::new();
        };
        let size = first.len();
        let fits = self.shards.iter().all(|(_, shard)| shard.len() == size)
            && self
                .found
                .iter()
                .all(|(_, datagram)| LENGTH + datagram.len() <= size);
        if missing == 0 || self.shards.len() < missing || !fits {
            return Vec::new();
        }

        let found = self
            .found
            .iter()
            .map(|(place, datagram)| (*place, shard(datagram, size)));
        let shards = self
            .shards
            .iter()
            .map(|(place, shard)| (usize::from(*place), shard));
        let decoded = reed_solomon_simd::decode(self.data, self.parity, found, shards);
        let mut datagrams: Vec<_> = decoded
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(place, shard)| Some((place, unpack(shard)?)))
            .collect();
        datagrams.sort_unstable_by_key(|(place, _)| *place);
        datagrams
    }
}

/// A datagram as a shard of so many bytes.
fn shard(datagram: &Bytes, size: usize) -> Bytes {
    let mut shard = BytesMut::with_capacity(size);
    // UDP carries no datagram whose length does not fit.
    shard.put_u16(u16::try_from(datagram.len()).unwrap_or(u16::MAX));
    shard.put_slice(datagram);
    shard.resize(size, 0);
    shard.freeze()
}

/// The datagram of a shard; `None` if its length is not one.
fn unpack(shard: Vec<u8>) -> Option<Bytes> {
    let (length, _) = shard.split_first_chunk::<LENGTH>()?;
    let end = LENGTH + usize::from(u16::from_be_bytes(*length));
    (end <= shard.len()).then(|| Bytes::from(shard).slice(LENGTH..end))
}

/// The parity that a block of so many datagrams needs where this share of all datagrams is lost.
pub(crate) fn needed(data: usize, loss: f64) -> usize {
    let most = usize::from(BLOCK).min(data);
    (0..most)
        .find(|parity| excess(data + parity, *parity, loss) <= RESIDUAL)
        .unwrap_or(most)
}

/// The probability that more than `most` of `all` are lost: the tail of the binomial distribution.
fn excess(all: usize, most: usize, loss: f64) -> f64 {
    let mut term = (1.0 - loss).powi(i32::try_from(all).unwrap_or(i32::MAX));
    let mut within = 0.0;
    for lost in 0..=most {
        within += term;
        term *= (all - lost) as f64 / (lost + 1) as f64 * loss / (1.0 - loss);
    }
    (1.0 - within).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<Bytes> {
        (0..10_usize)
            .map(|number| Bytes::from(vec![number as u8; 100 + 37 * number]))
            .collect()
    }

    fn mended(block: &[Bytes], lost: &[usize], parities: &[(u8, Bytes)]) -> Vec<(usize, Bytes)> {
        let found = block
            .iter()
            .enumerate()
            .filter(|(place, _)| !lost.contains(place));
        PartialBlock {
            data: block.len(),
            parity: 3,
            found: found.collect(),
            shards: parities,
        }
        .decode()
    }

    #[test]
    fn as_many_lost_datagrams_come_back_as_parities_came() {
        let block = block();
        let parities: Vec<_> = (0..).zip(encode(&block, 3)).collect();
        assert_eq!(parities.len(), 3);
        for lost in [&[0, 4, 9][..], &[1, 2, 3], &[9]] {
            let expected: Vec<_> = lost.iter().map(|at| (*at, block[*at].clone())).collect();
            assert_eq!(mended(&block, lost, &parities), expected);
        }
        assert_eq!(
            mended(&block, &[2, 7], &parities[1..]).len(),
            2,
            "any two parities"
        );
        assert!(mended(&block, &[0, 1, 2, 3], &parities).is_empty());
    }

    #[test]
    fn shards_that_do_not_fit_mend_nothing() {
        let block = block();
        let short = Bytes::from_static(&[0; 20]);
        assert!(mended(&block, &[0], &[(0, short.clone())]).is_empty());
        let parities = encode(&block, 3);
        assert!(mended(&block, &[0, 1], &[(0, parities[0].clone()), (1, short)]).is_empty());
    }

    #[test]
    fn an_empty_datagram_comes_back_too() {
        let block = [Bytes::new(), Bytes::from_static(b"x")];
        let parities: Vec<_> = (0..).zip(encode(&block, 1)).collect();
        let partial = PartialBlock {
            data: 2,
            parity: 1,
            found: vec![(1, &block[1])],
            shards: &parities,
        };
        assert_eq!(partial.decode(), [(0, Bytes::new())]);
    }

    #[test]
    fn more_loss_needs_more_parity() {
        assert_eq!(needed(32, 0.0), 0);
        let parities: Vec<_> = [0.001, 0.01, 0.05, 0.1, 0.3]
            .into_iter()
            .map(|loss| needed(32, loss))
            .collect();
        assert!(parities.is_sorted() && parities[0] > 0, "{parities:?}");
        assert!(excess(32 + parities[2], parities[2], 0.05) <= RESIDUAL);
    }
}
