//! Many entries taken apart and hashed in one pass (docs/specs/bamboo.md, "Entries", "VarU64", "Lipmaa links").
//!
//! `Entry.decode` in Python is the rule, and names what is wrong. This module only finds the records that are entries,
//! with the same fields. Of the others it says nothing, so that Python is asked for the reason.

use blake2::{Blake2b512, Digest};

/// Where an entry has its log id: behind the tag and the author.
const LOG_AT: usize = 33;
const MOST_TAG: u8 = 1;
const SIGNATURE_BYTES: usize = 64;
const YAMF_PREFIX: [u8; 2] = [0x00, 0x40];
pub const DIGEST_BYTES: usize = 64;
/// First bytes of a VarU64 up to here are the number itself; greater ones say how many bytes follow.
const DIRECT: u8 = 247;
/// Numbers (3^k - 1) / 2 up to the first above 2^64: the pattern of links goes on to that.
const SPINES: usize = 43;

/// An entry's fields; digests by the offset at which they begin, without the YAMF prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    pub is_end: bool,
    pub log_id: u64,
    pub seq: u64,
    /// The number that the lipmaalink goes to, also where the link is left out.
    pub target: u64,
    pub lipmaalink: Option<usize>,
    pub backlink: Option<usize>,
    pub size: u64,
    pub payload_hash: usize,
    /// How many bytes the entry has.
    pub length: usize,
}

/// The entry at the beginning of `data`; None if there is none, or not all of it.
pub fn pull(data: &[u8]) -> Option<Fields> {
    let mut rest = Reader { data, at: LOG_AT };
    let tag = *data.first()?;
    if tag > MOST_TAG {
        return None;
    }
    let (log_id, seq) = (rest.varu64()?, rest.varu64()?);
    if seq == 0 {
        return None;
    }
    let target = lipmaa(seq);
    let lipmaalink = if seq > 1 && target < seq - 1 { Some(rest.digest()?) } else { None };
    let backlink = if seq > 1 { Some(rest.digest()?) } else { None };
    let (size, payload_hash) = (rest.varu64()?, rest.digest()?);
    rest.take(SIGNATURE_BYTES)?;
    let length = rest.at;
    Some(Fields { is_end: tag == MOST_TAG, log_id, seq, target, lipmaalink, backlink, size, payload_hash, length })
}

/// The entries from the beginning of `data` on, each followed by its payload, up to the first that is not whole.
pub fn followed(data: &[u8]) -> impl Iterator<Item = (usize, Fields)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let fields = pull(data.get(at..)?)?;
        let end = usize::try_from(fields.size).ok()?.checked_add(at + fields.length)?;
        if end > data.len() {
            return None;
        }
        let start = std::mem::replace(&mut at, end);
        Some((start, fields))
    })
}

/// The BLAKE2b-512 hash of some bytes.
pub fn digest(data: &[u8]) -> [u8; DIGEST_BYTES] {
    Blake2b512::digest(data).into()
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let found = self.data.get(self.at..self.at + count)?;
        self.at += count;
        Some(found)
    }

    /// A number in its shortest form.
    fn varu64(&mut self) -> Option<u64> {
        let first = self.take(1)?[0];
        if first <= DIRECT {
            return Some(u64::from(first));
        }
        let following = self.take(usize::from(first - DIRECT))?;
        let number = following.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let is_shortest = if following.len() == 1 { number > u64::from(DIRECT) } else { following[0] != 0 };
        is_shortest.then_some(number)
    }

    /// Where the digest of a YAMF-hash begins.
    fn digest(&mut self) -> Option<usize> {
        if self.take(YAMF_PREFIX.len())? != YAMF_PREFIX {
            return None;
        }
        let begin = self.at;
        self.take(DIGEST_BYTES)?;
        Some(begin)
    }
}

const fn spine() -> [u128; SPINES] {
    let mut numbers = [0; SPINES];
    let mut scale = 1;
    while scale < SPINES {
        numbers[scale] = 3 * numbers[scale - 1] + 1;
        scale += 1;
    }
    numbers
}

const SPINE: [u128; SPINES] = spine();

/// The number that the lipmaalink of entry `seq` (from 1 on) goes to; 0 for entry 1.
fn lipmaa(seq: u64) -> u64 {
    let mut within = u128::from(seq);
    let mut scale = SPINE.partition_point(|&number| number < within);
    if SPINE[scale] == within {
        return SPINE[scale - 1] as u64;
    }
    // Fold the number into the copy of the pattern it lies in, one scale after the other, until it ends a copy.
    while SPINE[scale] != within {
        scale -= 1;
        if within > SPINE[scale] {
            within = (within - 1) % SPINE[scale] + 1;
        }
    }
    seq - SPINE[scale] as u64
}
