//! LZFoo: bytes as literals and copies of earlier bytes (docs/specs/proposals.md, "LZFoo").
//!
//! `culm.wire.lzfoo` says in Python what this does, and why. Both write the same bytes and refuse the same ones, at the
//! same places; `tests/wire/test_lzfoo.py` compares them.

use std::hash::{BuildHasher, RandomState};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Bytes of output after which decoding pauses, so that a short message cannot fill the memory.
const PIECE_BYTES: usize = 64 * 1024;
/// Shorter lengths fit into the tag.
const SHORT: u64 = 120;
const COPY: u8 = 0x80;
/// The greatest VarU64 of one byte.
const SHORT_NUMBER: u8 = 247;
/// Bytes that have to agree before a copy is considered.
const KEY_BYTES: usize = 8;
/// Failed searches after which every second byte is skipped; after twice as many two of three, and so on.
const PATIENCE: usize = 64;
/// Of copied bytes, one in so many is remembered.
const STRIDE: usize = 4;

/// What is wrong with a message, and where in the bytes that were given.
type Refused = (String, usize);

/// The head of an element: its length, the offset of a copy (`None`: a literal), and where its bytes begin.
type Head = (u64, Option<u64>, usize);

/// The head at a place; `None` if the bytes end within it.
fn pull_head(data: &[u8], at: usize) -> Option<Head> {
    let tag = *data.get(at)?;
    let (mut length, mut next) = (u64::from(tag & !COPY), at + 1);
    if length >= SHORT {
        (length, next) = pull_number(data, next, (length - SHORT) as usize + 1)?;
    }
    if tag < COPY {
        return Some((length, None, next));
    }
    let first = *data.get(next)?;
    let (mut offset, mut next) = (u64::from(first), next + 1);
    if first > SHORT_NUMBER {
        (offset, next) = pull_number(data, next, usize::from(first - SHORT_NUMBER))?;
    }
    Some((length, Some(offset), next))
}

/// A number of `width` bytes, the most significant first, and the place behind it.
fn pull_number(data: &[u8], at: usize, width: usize) -> Option<(u64, usize)> {
    let bytes = data.get(at..at + width)?;
    Some((bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), at + width))
}

/// Decodes messages one after the other. Its memory is bounded by the window and the bytes that it is given at a time.
#[pyclass]
pub struct LZFooDecoder {
    window: usize,
    /// The history, and behind it what was decoded last.
    out: Vec<u8>,
    /// Bytes that this message is still to decode to.
    left: u64,
    /// Bytes of a literal that are still to come.
    literal: u64,
    /// Bytes that are still to be copied, and from how far back.
    repeats: u64,
    offset: usize,
}

impl LZFooDecoder {
    /// Decode from `at` to the end of the data or to the end of a piece. Where the piece begins in `out`, the place
    /// reached, and whether there is more to decode. Bytes that are left then are the beginning of an element.
    fn piece(&mut self, data: &[u8], mut at: usize) -> Result<(usize, usize, bool), Refused> {
        self.drop_old();
        let mark = self.out.len();
        while self.out.len() - mark < PIECE_BYTES {
            if self.repeats > 0 {
                self.repeat();
            } else if at == data.len() {
                return Ok((mark, at, false));
            } else if self.literal > 0 {
                at = self.take_literal(data, at);
            } else if let Some(head) = pull_head(data, at) {
                at = self.begin_element(data, at, head)?;
            } else {
                return Ok((mark, at, false));
            }
        }
        Ok((mark, at, true))
    }

    fn begin_element(&mut self, data: &[u8], begin: usize, (length, offset, at): Head) -> Result<usize, Refused> {
        if length > self.left {
            let left = self.left;
            return Err((format!("an element decodes to more than the {left} bytes left of the message"), begin));
        }
        self.left -= length;
        let Some(offset) = offset else {
            self.literal = length;
            return Ok(self.take_literal(data, at));
        };
        let most = self.window.min(self.out.len());
        match usize::try_from(offset) {
            Ok(near) if (1..=most).contains(&near) => (self.repeats, self.offset) = (length, near),
            _ => return Err((format!("a copy from {offset} bytes back, which is 0 or outside of the window"), begin)),
        }
        Ok(at)
    }

    fn take_literal(&mut self, data: &[u8], at: usize) -> usize {
        let taken = (data.len() - at).min(usize::try_from(self.literal).unwrap_or(usize::MAX));
        self.out.extend_from_slice(&data[at..at + taken]);
        self.literal -= taken as u64;
        at + taken
    }

    /// Continue a copy by one piece. The bytes since `start` repeat with a period of `offset`, and they are always
    /// whole periods, so that each round can copy twice as many.
    fn repeat(&mut self) {
        let mut step = PIECE_BYTES.min(usize::try_from(self.repeats).unwrap_or(PIECE_BYTES));
        self.repeats -= step as u64;
        let start = self.out.len() - self.offset;
        while step > 0 {
            let some = step.min(self.out.len() - start);
            self.out.extend_from_within(start..start + some);
            step -= some;
        }
    }

    /// Drop history beyond the window. Only when twice the window has gathered, because it moves the whole buffer.
    fn drop_old(&mut self) {
        if self.out.len() > 2 * self.window + PIECE_BYTES {
            self.out.drain(..self.out.len() - self.window);
        }
    }
}

#[pymethods]
impl LZFooDecoder {
    #[new]
    fn new(window: usize) -> Self {
        Self { window, out: Vec::new(), left: 0, literal: 0, repeats: 0, offset: 0 }
    }

    fn begin(&mut self, size: u64) {
        self.left = size;
    }

    fn decode<'py>(
        &mut self, py: Python<'py>, data: &[u8], at: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, usize, bool)> {
        let (mark, at, more) = py.detach(|| self.piece(data, at)).map_err(PyValueError::new_err::<Refused>)?;
        Ok((PyBytes::new(py, &self.out[mark..]), at, more))
    }

    /// Bytes that are missing of a literal and of the message.
    fn missing(&self) -> (u64, u64) {
        (self.literal, self.left)
    }
}

/// Encodes messages that share a history.
#[pyclass]
pub struct LZFooEncoder {
    window: usize,
    history: Vec<u8>,
    /// How many bytes came before the history.
    base: usize,
    last: Places,
}

/// The last place of each key, in a table with a slot for a key at or behind the place that its hash names.
///
/// A lookup is what encoding costs, and nearly always a wait for memory; so a slot is all that it touches. The bytes can
/// be a stranger's, so the hash has random numbers in it: nobody can choose keys that collide.
struct Places {
    /// Keys, each with its place + 1; 0 is an empty slot. Their number is a power of two.
    slots: Vec<(u64, usize)>,
    used: usize,
    mask: u64,
    factor: u64,
}

impl Places {
    fn new() -> Self {
        let random = RandomState::new();
        Self { slots: vec![(0, 0); 64], used: 0, mask: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }

    /// Note the place of a key; the place before. Places before `oldest` are dropped when the table gets full.
    fn insert(&mut self, key: u64, place: usize, oldest: usize) -> Option<usize> {
        if self.used * 4 > self.slots.len() * 3 {
            self.rebuild(oldest);
        }
        let slot = self.slot(key);
        let before = std::mem::replace(slot, (key, place + 1)).1;
        self.used += usize::from(before == 0);
        before.checked_sub(1)
    }

    fn slot(&mut self, key: u64) -> &mut (u64, usize) {
        let product = u128::from(key ^ self.mask) * u128::from(self.factor);
        let last = self.slots.len() - 1;
        let mut at = (product as u64 ^ (product >> 64) as u64) as usize & last;
        while self.slots[at].1 != 0 && self.slots[at].0 != key {
            at = (at + 1) & last;
        }
        &mut self.slots[at]
    }

    /// A table that is half full at most.
    fn rebuild(&mut self, oldest: usize) {
        let mut kept = std::mem::take(&mut self.slots);
        kept.retain(|(_, place)| *place > oldest);
        self.used = kept.len();
        self.slots = vec![(0, 0); (2 * self.used).next_power_of_two().max(64)];
        for (key, place) in kept {
            *self.slot(key) = (key, place);
        }
    }
}

impl LZFooEncoder {
    /// The elements of a message. `text` is the history and the message, which begins at `begin`.
    fn elements(&mut self, text: &[u8], begin: usize) -> Vec<u8> {
        let (mut at, mut literal, mut misses) = (begin, begin, 0);
        let mut out = Vec::with_capacity(text.len() - begin);
        while let Some(key) = key_at(text, at) {
            let found = self.last.insert(key, at + self.base, self.base).and_then(|place| place.checked_sub(self.base));
            let found = found.filter(|start| (at.saturating_sub(self.window)..at).contains(start));
            let mut length = found.map_or(0, |start| common(text, start, at));
            let Some(mut start) = found.filter(|_| length >= KEY_BYTES) else {
                misses += 1;
                at += 1 + misses / PATIENCE;
                continue;
            };
            while at > literal && start > 0 && at - start < self.window && text[at - 1] == text[start - 1] {
                (at, start, length) = (at - 1, start - 1, length + 1);
            }
            push_literal(&mut out, &text[literal..at]);
            push_length(&mut out, length, COPY);
            push_varu64(&mut out, at - start);
            for inside in (at + STRIDE..at + length).step_by(STRIDE) {
                let Some(key) = key_at(text, inside) else { break };
                self.last.insert(key, inside + self.base, self.base);
            }
            at += length;
            literal = at;
            misses = 0;
        }
        push_literal(&mut out, &text[literal..]);
        out
    }

    fn encode(&mut self, data: &[u8], most: f64) -> Option<Vec<u8>> {
        let mut text = Vec::with_capacity(self.history.len() + data.len());
        text.extend_from_slice(&self.history);
        text.extend_from_slice(data);
        let encoded = self.elements(&text, self.history.len());
        if encoded.len() as f64 > most * data.len() as f64 {
            return None;
        }
        let dropped = text.len().saturating_sub(self.window);
        self.history.clear();
        self.history.extend_from_slice(&text[dropped..]);
        self.base += dropped;
        Some(encoded)
    }
}

#[pymethods]
impl LZFooEncoder {
    #[new]
    fn new(window: usize) -> Self {
        Self { window, history: Vec::new(), base: 0, last: Places::new() }
    }

    fn encode_if_smaller<'py>(&mut self, py: Python<'py>, data: &[u8], most: f64) -> Option<Bound<'py, PyBytes>> {
        py.detach(|| self.encode(data, most)).map(|encoded| PyBytes::new(py, &encoded))
    }
}

fn key_at(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk::<KEY_BYTES>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The number of equal bytes from two places on, `one` before `other`.
fn common(text: &[u8], one: usize, other: usize) -> usize {
    let mut length = 0;
    while let (Some(left), Some(right)) = (key_at(text, one + length), key_at(text, other + length)) {
        if left != right {
            return length + (left ^ right).trailing_zeros() as usize / 8;
        }
        length += KEY_BYTES;
    }
    length + text[one + length..].iter().zip(&text[other + length..]).take_while(|(left, right)| left == right).count()
}

fn push_literal(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        push_length(out, bytes.len(), 0);
        out.extend_from_slice(bytes);
    }
}

fn push_length(out: &mut Vec<u8>, length: usize, kind: u8) {
    if (length as u64) < SHORT {
        out.push(kind | length as u8);
    } else {
        let bytes = significant(length);
        out.push(kind | (SHORT as usize - 1 + bytes.len()) as u8);
        out.extend(bytes);
    }
}

fn push_varu64(out: &mut Vec<u8>, number: usize) {
    if number <= usize::from(SHORT_NUMBER) {
        out.push(number as u8);
    } else {
        let bytes = significant(number);
        out.push(SHORT_NUMBER + bytes.len() as u8);
        out.extend(bytes);
    }
}

/// A number's bytes without leading zeros, the most significant first.
fn significant(number: usize) -> impl ExactSizeIterator<Item = u8> {
    let width = (u64::BITS - (number as u64).leading_zeros()).div_ceil(8) as usize;
    (number as u64).to_be_bytes().into_iter().skip(8 - width)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LZFooDecoder>()?;
    module.add_class::<LZFooEncoder>()
}
