//! A sealed set, and the fingerprints of its ranges: docs/specs/negentropy.md, "Fingerprints".

use pyo3::pybacked::PyBackedBytes;
use sha2::{Digest, Sha256};

pub const ID_BYTES: usize = 32;
pub const FINGERPRINT_BYTES: usize = 16;

pub type Id = [u8; ID_BYTES];
const SUM_BYTES: usize = 32;
const TIMESTAMP_BYTES: usize = 8;

/// The bytes of `culm.negentropy.array.ArrayStorage`: timestamps (8 bytes each, in the byte order of the machine), ids,
/// and the sums of the first 0, 1, 2, ... ids modulo 2^256, little-endian.
pub type Buffers = (PyBackedBytes, PyBackedBytes, PyBackedBytes);

/// Records in the order of timestamp and id.
pub struct Sealed<'a> {
    timestamps: &'a [u8],
    ids: &'a [u8],
    sums: &'a [u8],
    pub length: usize,
}

impl<'a> Sealed<'a> {
    /// None if the buffers do not belong together.
    pub fn of((timestamps, ids, sums): &'a Buffers) -> Option<Self> {
        let length = timestamps.len() / TIMESTAMP_BYTES;
        let fit = ids.len() == length * ID_BYTES && sums.len() == (length + 1) * SUM_BYTES;
        fit.then_some(Self { timestamps, ids, sums, length })
    }

    /// The ids from `low` to before `high`.
    pub fn ids(&self, low: usize, high: usize) -> Option<&'a [u8]> {
        self.ids.get(low.checked_mul(ID_BYTES)?..high.checked_mul(ID_BYTES)?)
    }

    fn timestamp(&self, place: usize) -> Option<u64> {
        item(self.timestamps, place).map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// The first place from `low` on whose record is not below a bound. Bounds come in order, most of them close to the
    /// one before, so that steps from there, each twice as long, are quicker than halving the whole set.
    pub fn position(&self, timestamp: u64, prefix: &[u8], mut low: usize) -> usize {
        // A prefix stands for itself and zeros: an id is below it if and only if its own start is.
        let start = |place: usize| &self.ids[place * ID_BYTES..][..prefix.len()];
        let below = |place: usize| (self.timestamp(place), start(place)) < (Some(timestamp), prefix);
        let (mut high, mut step) = (low, 1);
        while high < self.length && below(high) {
            low = high + 1;
            high += step;
            step *= 2;
        }
        high = high.min(self.length);
        while low < high {
            let middle = low + (high - low) / 2;
            if below(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The shortest bound between a record and the one before it.
    pub fn bound(&self, place: usize) -> Option<(u64, &'a [u8])> {
        let before = place.checked_sub(1)?;
        let timestamp = self.timestamp(place)?;
        if self.timestamp(before)? != timestamp {
            return Some((timestamp, &[]));
        }
        let (before, id): (&Id, &Id) = (item(self.ids, before)?, item(self.ids, place)?);
        let shared = id.iter().zip(before).take_while(|(one, other)| one == other).count();
        Some((timestamp, id.get(..=shared)?))
    }

    /// The fingerprint of the records from `low` to before `high`.
    pub fn fingerprint(&self, low: usize, high: usize) -> Option<[u8; FINGERPRINT_BYTES]> {
        let count = high.checked_sub(low)?;
        let mut hash = Sha256::new();
        hash.update(difference(item(self.sums, high)?, item(self.sums, low)?));
        let (digits, at) = varint(count as u64);
        hash.update(&digits[at..]);
        hash.finalize().first_chunk().copied()
    }
}

fn item<const SIZE: usize>(items: &[u8], place: usize) -> Option<&[u8; SIZE]> {
    items.get(place.checked_mul(SIZE)?..)?.first_chunk()
}

fn difference(one: &[u8; SUM_BYTES], other: &[u8; SUM_BYTES]) -> [u8; SUM_BYTES] {
    let mut result = [0; SUM_BYTES];
    let mut borrow = false;
    for (lane, result) in result.chunks_exact_mut(8).enumerate() {
        let part = |sum: &[u8]| item(sum, lane).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (part, first) = part(one).overflowing_sub(part(other));
        let (part, second) = part.overflowing_sub(u64::from(borrow));
        borrow = first || second;
        result.copy_from_slice(&part.to_le_bytes());
    }
    result
}

/// A number in base 128, most significant digit first, at the end of the array; and where it begins.
pub fn varint(mut number: u64) -> ([u8; 10], usize) {
    let mut digits = [0; 10];
    let mut at = digits.len() - 1;
    digits[at] = (number & 0x7f) as u8;
    number >>= 7;
    while number > 0 {
        at -= 1;
        digits[at] = (number & 0x7f) as u8 | 0x80;
        number >>= 7;
    }
    (digits, at)
}
