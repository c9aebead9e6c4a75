//! Fingerprints of many ranges of a sealed set: docs/specs/negentropy.md, "Fingerprints".

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sha2::{Digest, Sha256};

const SUM_BYTES: usize = 32;
const FINGERPRINT_BYTES: usize = 16;
/// Places in `sums` are 64-bit numbers in the byte order of the machine, as numpy has them.
const PLACE_BYTES: usize = 8;

/// The fingerprints of the ranges from each of `low` to before the same one of `high`, one behind the other.
///
/// `sums` has the sum of the first 0, 1, 2, ... ids modulo 2^256, 32 little-endian bytes each.
#[pyfunction]
pub fn fingerprints<'py>(py: Python<'py>, sums: &[u8], low: &[u8], high: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let found = py.detach(|| of_ranges(sums, low, high));
    let found = found.ok_or_else(|| PyValueError::new_err("a range lies outside of the sums"))?;
    Ok(PyBytes::new(py, &found))
}

/// None if the numbers of places differ, or a place lies outside.
fn of_ranges(sums: &[u8], low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let (sums, _) = sums.as_chunks::<SUM_BYTES>();
    let ((low, rest), (high, other_rest)) = (low.as_chunks::<PLACE_BYTES>(), high.as_chunks::<PLACE_BYTES>());
    if low.len() != high.len() || rest.len() + other_rest.len() > 0 {
        return None;
    }
    let mut found = Vec::with_capacity(low.len() * FINGERPRINT_BYTES);
    for (low, high) in low.iter().zip(high) {
        let (low, high) = (u64::from_ne_bytes(*low), u64::from_ne_bytes(*high));
        let count = high.checked_sub(low)?;
        let before = sums.get(usize::try_from(low).ok()?)?;
        let behind = sums.get(usize::try_from(high).ok()?)?;
        let mut hash = Sha256::new();
        hash.update(difference(behind, before));
        let (digits, at) = varint(count);
        hash.update(&digits[at..]);
        found.extend_from_slice(&hash.finalize()[..FINGERPRINT_BYTES]);
    }
    Some(found)
}

fn difference(one: &[u8; SUM_BYTES], other: &[u8; SUM_BYTES]) -> [u8; SUM_BYTES] {
    let mut result = [0; SUM_BYTES];
    let mut borrow = false;
    for (result, (one, other)) in result.as_chunks_mut().0.iter_mut().zip(one.as_chunks().0.iter().zip(other.as_chunks().0)) {
        let (part, first) = u64::from_le_bytes(*one).overflowing_sub(u64::from_le_bytes(*other));
        let (part, second) = part.overflowing_sub(u64::from(borrow));
        borrow = first || second;
        *result = part.to_le_bytes();
    }
    result
}

/// A number in base 128, most significant digit first, at the end of the array; and where it begins.
fn varint(mut number: u64) -> ([u8; 10], usize) {
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
