//! Many ranges of a negentropy message at once: docs/specs/negentropy.md. Twin: `culm.negentropy.batches`.

use crate::columns::places;
use crate::fingerprints::{Buffers, FINGERPRINT_BYTES, ID_BYTES, Id, Sealed, varint};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

const SKIP: u8 = 0;
const FINGERPRINT: u8 = 1;
const ID_LIST: u8 = 2;
/// A longer list is read by Python.
const MOST_IDS: usize = 31;

/// A range as it stands in the message, up to its bound.
struct Parsed {
    /// Of its timestamp to that of the bound before.
    difference: u64,
    /// Where the prefix of the bound begins in the message, and where it ends.
    prefix: (usize, usize),
    mode: u8,
    /// Where its fingerprint begins, or its first id; and where the range ends.
    body: (usize, usize),
}

impl Parsed {
    /// None if it is cut or malformed, reaches up to infinity, or has a long list.
    fn pull(message: &[u8], mut at: usize) -> Option<Self> {
        let begin = at;
        let mut number = 0;
        loop {
            let digit = *message.get(at)?;
            number = number << 7 | u64::from(digit & 0x7f);
            at += 1;
            if number == 0 || at - begin > 8 {
                return None;
            }
            if digit < 0x80 {
                break;
            }
        }
        let size = usize::from(*message.get(at)?);
        let prefix = (at + 1, at + 1 + size);
        let mode = *message.get(prefix.1)?;
        let body = prefix.1 + 1;
        let body = match mode {
            SKIP => (body, body),
            FINGERPRINT => (body, body + FINGERPRINT_BYTES),
            ID_LIST => {
                let count = usize::from(*message.get(body)?);
                (count <= MOST_IDS).then_some((body + 1, body + 1 + count * ID_BYTES))?
            }
            _ => return None,
        };
        let whole = size <= ID_BYTES && body.1 <= message.len();
        whole.then_some(Self { difference: number - 1, prefix, mode, body })
    }
}

struct Range {
    timestamp: u64,
    parsed: Parsed,
    low: usize,
    high: usize,
    unequal: bool,
}

/// Ranges of a message, one behind the other, and the records of a sealed set in them.
#[pyclass(frozen)]
struct Ranges {
    set: Buffers,
    message: PyBackedBytes,
    before: (u64, PyBackedBytes),
    ranges: Vec<Range>,
}

#[pymethods]
impl Ranges {
    /// The ranges from the offset `at` on: at most so many, and none from the offset `stop` on.
    ///
    /// `before` is the bound in front of them, with the position `low`.
    #[new]
    fn new(
        py: Python<'_>,
        set: Buffers,
        message: PyBackedBytes,
        at: (usize, usize, usize),
        before: (u64, PyBackedBytes),
        low: usize,
    ) -> PyResult<Self> {
        let mut found = Self { set, message, before, ranges: Vec::new() };
        let read = py.detach(|| found.read(at, low));
        found.ranges = read.ok_or_else(|| outside("the set"))?;
        Ok(found)
    }

    fn __len__(&self) -> usize {
        self.ranges.len()
    }

    /// Where the last range ends in the message; `ValueError` if there is none.
    fn end(&self) -> PyResult<usize> {
        self.ranges.last().map(|range| range.parsed.body.1).ok_or_else(|| outside("the message"))
    }

    /// A byte for each range: its mode; whether it has a list or a fingerprint other than ours. Then numbers of 8 bytes:
    /// the position of our first record in it, and of the first one behind.
    fn columns<'py>(&self, py: Python<'py>) -> [Bound<'py, PyBytes>; 4] {
        let bytes = |field: fn(&Range) -> u8| self.ranges.iter().map(field).collect::<Vec<_>>();
        let numbers = |field: fn(&Range) -> usize| {
            self.ranges.iter().flat_map(|range| (field(range) as u64).to_ne_bytes()).collect::<Vec<_>>()
        };
        let columns = [
            bytes(|range| range.parsed.mode),
            bytes(|range| range.unequal.into()),
            numbers(|range| range.low),
            numbers(|range| range.high),
        ];
        columns.map(|column| PyBytes::new(py, &column))
    }

    /// The bound of a range; of the one in front of them all for -1.
    fn bound<'py>(&self, py: Python<'py>, row: isize) -> PyResult<(u64, Bound<'py, PyBytes>)> {
        let behind = row.checked_add(1).and_then(|row| usize::try_from(row).ok());
        let (timestamp, prefix) = behind.and_then(|row| self.bound_before(row)).ok_or_else(|| outside("the ranges"))?;
        Ok((timestamp, PyBytes::new(py, prefix)))
    }

    /// The ids of all lists that stand in ours alone, and those that stand in theirs alone, one behind the other.
    fn alone<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let found = py.detach(|| {
            let set = Sealed::of(&self.set)?;
            let (mut have, mut need) = (Vec::new(), Vec::new());
            for range in self.ranges.iter().filter(|range| range.parsed.mode == ID_LIST) {
                let theirs = &self.message[range.parsed.body.0..range.parsed.body.1];
                compare(set.ids(range.low, range.high)?, theirs, &mut have, &mut need);
            }
            Some((have, need))
        });
        let (have, need) = found.ok_or_else(|| outside("the set"))?;
        Ok((PyBytes::new(py, &have), PyBytes::new(py, &need)))
    }

    /// The answers to some ranges, in a row, and where each ends in it.
    ///
    /// `rows` are their numbers; `parts` says into how many parts our records are divided, 0 for a list: columns of 8
    /// bytes. `skips`: a byte that is not 0 if a Skip goes in front. `last` is the timestamp of the last bound written.
    fn answers<'py>(
        &self,
        py: Python<'py>,
        rows: &[u8],
        parts: &[u8],
        skips: &[u8],
        last: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let asked = places(rows, parts)?;
        let (written, ends) = py.detach(|| self.write(asked, skips, last)).ok_or_else(|| outside("the set"))?;
        Ok((PyBytes::new(py, &written), PyBytes::new(py, &ends)))
    }
}

impl Ranges {
    /// None if the set or the place is no such.
    fn read(&self, (mut at, stop, most): (usize, usize, usize), mut low: usize) -> Option<Vec<Range>> {
        let (set, message) = (Sealed::of(&self.set)?, &self.message[..]);
        let (mut timestamp, mut before) = (self.before.0, &self.before.1[..]);
        let mut ranges = Vec::new();
        if low > set.length {
            return None;
        }
        while at < stop && ranges.len() < most {
            let Some(parsed) = Parsed::pull(message, at) else { break };
            let prefix = &message[parsed.prefix.0..parsed.prefix.1];
            let next = timestamp.checked_add(parsed.difference).filter(|next| *next < u64::MAX);
            let Some(next) = next.filter(|_| parsed.difference > 0 || padded(prefix) >= padded(before)) else { break };
            timestamp = next;
            let high = set.position(timestamp, prefix, low);
            let body = &message[parsed.body.0..parsed.body.1];
            let unequal = parsed.mode == ID_LIST || parsed.mode == FINGERPRINT && set.fingerprint(low, high)? != *body;
            (at, before) = (parsed.body.1, prefix);
            ranges.push(Range { timestamp, parsed, low, high, unequal });
            low = high;
        }
        Some(ranges)
    }

    fn bound_before(&self, row: usize) -> Option<(u64, &[u8])> {
        let Some(last) = row.checked_sub(1) else { return Some((self.before.0, &self.before.1)) };
        let range = self.ranges.get(last)?;
        Some((range.timestamp, &self.message[range.parsed.prefix.0..range.parsed.prefix.1]))
    }

    fn write(&self, asked: Vec<(usize, usize)>, skips: &[u8], last: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let set = Sealed::of(&self.set)?;
        let mut out = Written { bytes: Vec::new(), last };
        let mut ends = Vec::new();
        for ((row, parts), skip) in asked.into_iter().zip(skips) {
            let range = self.ranges.get(row)?;
            if *skip > 0 {
                out.range(self.bound_before(row)?, SKIP);
            }
            let (mut begin, count) = (range.low, range.high - range.low);
            if parts > count {
                return None;
            }
            if parts == 0 {
                out.range(self.bound_before(row + 1)?, ID_LIST);
                out.number(count as u64);
                out.bytes.extend_from_slice(set.ids(range.low, range.high)?);
            }
            for part in 1..=parts {
                // The first ones have a record more if the division leaves a rest.
                let end = range.low + count / parts * part + part.min(count % parts);
                out.range(if part == parts { self.bound_before(row + 1)? } else { set.bound(end)? }, FINGERPRINT);
                out.bytes.extend_from_slice(&set.fingerprint(begin, end)?);
                begin = end;
            }
            ends.extend((out.bytes.len() as u64).to_ne_bytes());
        }
        Some((out.bytes, ends))
    }
}

struct Written {
    bytes: Vec<u8>,
    /// The timestamp of the last bound.
    last: u64,
}

impl Written {
    fn number(&mut self, number: u64) {
        let (digits, at) = varint(number);
        self.bytes.extend_from_slice(&digits[at..]);
    }

    /// A range without what its mode asks for.
    fn range(&mut self, (timestamp, prefix): (u64, &[u8]), mode: u8) {
        self.number(timestamp.wrapping_sub(self.last).wrapping_add(1));
        self.last = timestamp;
        self.bytes.push(prefix.len() as u8);
        self.bytes.extend_from_slice(prefix);
        self.bytes.push(mode);
    }
}

/// The bytes that a prefix leaves out are zeros.
fn padded(prefix: &[u8]) -> Id {
    let mut id = [0; ID_BYTES];
    let size = prefix.len().min(ID_BYTES);
    id[..size].copy_from_slice(&prefix[..size]);
    id
}

/// Each of our ids takes one of theirs, because one id can have two timestamps, and the other side only one of them.
fn compare(ours: &[u8], theirs: &[u8], have: &mut Vec<u8>, need: &mut Vec<u8>) {
    if ours == theirs {
        return;
    }
    let id = |place: usize| &theirs[place * ID_BYTES..][..ID_BYTES];
    let (count, mut taken) = (theirs.len() / ID_BYTES, [false; MOST_IDS]);
    let mut next = 0; // Both sides list them in order, so that the next is most often found at once.
    for own in ours.chunks_exact(ID_BYTES) {
        match (next..count).chain(0..next).find(|&place| id(place) == own && !taken[place]) {
            Some(place) => (taken[place], next) = (true, place + 1),
            None => have.extend_from_slice(own),
        }
    }
    let missing = |place: &usize| !taken[*place] && !ours.chunks_exact(ID_BYTES).any(|own| id(*place) == own);
    need.extend((0..count).filter(missing).flat_map(id));
}

fn outside(what: &str) -> PyErr {
    PyValueError::new_err(format!("this lies outside of {what}"))
}

/// Put the class of this file into the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Ranges>()
}
