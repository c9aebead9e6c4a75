//! Many entries taken apart and hashed in one pass (docs/specs/bamboo.md, "Entries", "VarU64", "Lipmaa links").
//!
//! `Entry.decode` in Python is the rule, and names what is wrong. This module only finds the records that are entries,
//! with the same fields. Of the others it says nothing, so that Python is asked for the reason.

use blake2::{Blake2b512, Digest};
use std::collections::HashMap;

/// Where an entry has its log id: behind the tag and the author.
const LOG_AT: usize = 33;
const MOST_TAG: u8 = 1;
const SIGNATURE_BYTES: usize = 64;
const YAMF_PREFIX: [u8; 2] = [0x00, 0x40];
pub const DIGEST_BYTES: usize = 64;
pub type Digest64 = [u8; DIGEST_BYTES];
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
pub fn digest(data: &[u8]) -> Digest64 {
    Blake2b512::digest(data).into()
}

/// How a protocol sends an entry that does not end its log, and its payload.
#[derive(Clone, Copy)]
pub struct Framing {
    /// The byte in front of the entry's fields.
    pub lead: u8,
    /// The byte in front of the payload, which its size follows once more; None: the payload follows at once.
    pub mark: Option<u8>,
}

/// Entries of one log put together from what a peer sends of them.
#[derive(Default)]
pub struct Linked {
    /// Their bytes, one behind the other, and where each ends.
    pub encoded: Vec<u8>,
    pub ends: Vec<usize>,
    /// Their YAMF-hashes.
    pub hashes: Vec<u8>,
    /// Where the payload of each begins and ends in the data.
    pub payloads: Vec<(usize, usize)>,
}

/// The entries at the beginning of `data`, each without what its reader knows, and with its whole payload behind it.
///
/// That is the payload's size and hash, and a signature; how they stand is for `framing` to say. `head` is the author and
/// the log id, `first` the number of the first entry, `digests` those of earlier entries by number. Ends at the first entry that is not whole or that
/// ends the log, whose payload has another hash, or that links to an entry of unknown digest; and after `most`.
pub fn linked(
    data: &[u8], framing: Framing, head: &[u8], first: u64, mut digests: HashMap<u64, Digest64>, most: usize,
) -> Linked {
    let (mut found, mut at) = (Linked::default(), 0);
    for seq in (first.max(1)..=u64::MAX).take(most) {
        let begin = found.encoded.len();
        let Some(behind) = link_one(data, at, framing, head, seq, &digests, &mut found) else {
            found.encoded.truncate(begin);
            break;
        };
        let digest = digest(&found.encoded[begin..]);
        found.ends.push(found.encoded.len());
        found.hashes.extend(YAMF_PREFIX);
        found.hashes.extend(digest);
        digests.insert(seq, digest);
        at = behind;
    }
    found
}

/// Write the entry whose fields begin at `at`, and note its payload; where the next one begins.
fn link_one(
    data: &[u8], at: usize, framing: Framing, head: &[u8], seq: u64, digests: &HashMap<u64, Digest64>, found: &mut Linked,
) -> Option<usize> {
    let mut rest = Reader { data, at };
    if rest.take(1)?[0] != framing.lead {
        return None;
    }
    let size_at = rest.at;
    let (size, payload_hash) = (rest.varu64()?, rest.digest()?);
    rest.take(SIGNATURE_BYTES)?;
    let fields = &data[size_at..rest.at];
    if let Some(mark) = framing.mark {
        if rest.take(1)?[0] != mark || rest.varu64()? != size {
            return None;
        }
    }
    let begin = rest.at;
    let payload = rest.take(usize::try_from(size).ok()?)?;
    let encoded = &mut found.encoded;
    encoded.push(0);
    encoded.extend(head);
    push_varu64(encoded, seq);
    let target = lipmaa(seq);
    let links = if seq == 1 { [None; 2] } else { [Some(target).filter(|&target| target < seq - 1), Some(seq - 1)] };
    for link in links.into_iter().flatten() {
        encoded.extend(YAMF_PREFIX);
        encoded.extend(digests.get(&link)?);
    }
    encoded.extend(fields);
    if digest(payload)[..] != data[payload_hash..payload_hash + DIGEST_BYTES] {
        return None;
    }
    found.payloads.push((begin, rest.at));
    Some(rest.at)
}

fn push_varu64(out: &mut Vec<u8>, number: u64) {
    if number <= u64::from(DIRECT) {
        out.push(number as u8);
        return;
    }
    let bytes = number.to_be_bytes();
    let skipped = number.leading_zeros() as usize / 8;
    out.push(DIRECT + (bytes.len() - skipped) as u8);
    out.extend(&bytes[skipped..]);
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let found = self.data.get(self.at..self.at.checked_add(count)?)?;
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
