//! Many entries taken apart and hashed in one pass (docs/specs/bamboo.md, "Entries", "VarU64", "Lipmaa links").
//!
//! `Entry.decode` in Python is the rule, and names what is wrong. This module only finds the records that are entries,
//! with the same fields. Of the others it says nothing, so that Python is asked for the reason.

use blake2b_simd::many::{HashManyJob, hash_many};
use blake2b_simd::{Params, blake2b};
use std::collections::HashMap;
use std::ops::Range;

/// Where an entry has its log id: behind the tag and the author.
pub const LOG_AT: usize = 33;
const MOST_TAG: u8 = 1;
const SIGNATURE_BYTES: usize = 64;
/// Payloads hashed together. If the first is wrong, the others were hashed in vain; more would let a peer exploit that.
const TOGETHER: usize = 4;
pub const YAMF_PREFIX: [u8; 2] = [0x00, 0x40];
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
fn digest(data: &[u8]) -> Digest64 {
    *blake2b(data).as_array()
}

/// The BLAKE2b-512 hashes of many records. Several are computed at a time, which takes half as long.
pub fn digests<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Vec<Digest64> {
    let plain = Params::new();
    let mut jobs: Vec<_> = records.into_iter().map(|record| HashManyJob::new(&plain, record)).collect();
    hash_many(jobs.iter_mut());
    jobs.iter().map(|job| *job.to_hash().as_array()).collect()
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
    /// Their bytes, one behind the other.
    pub encoded: Vec<u8>,
    pub entries: Vec<Placed>,
}

/// Where the bytes of an entry end, its digest, and where its payload stands in the data.
pub struct Placed {
    pub end: usize,
    pub digest: Digest64,
    pub payload: Range<usize>,
}

/// Where the parts of an entry stand in what a peer sends of it.
struct Sent {
    /// The payload's size and hash, and the signature, as the entry ends with them.
    fields: Range<usize>,
    payload_hash: usize,
    payload: Range<usize>,
}

impl Sent {
    /// The entry that begins at `at`, if it is whole, with its payload.
    fn pull(data: &[u8], at: usize, framing: Framing) -> Option<Self> {
        let mut rest = Reader { data, at };
        if rest.take(1)?[0] != framing.lead {
            return None;
        }
        let begin = rest.at;
        let (size, payload_hash) = (rest.varu64()?, rest.digest()?);
        rest.take(SIGNATURE_BYTES)?;
        let fields = begin..rest.at;
        if let Some(mark) = framing.mark {
            if rest.take(1)?[0] != mark || rest.varu64()? != size {
                return None;
            }
        }
        let begin = rest.at;
        rest.take(usize::try_from(size).ok()?)?;
        Some(Self { fields, payload_hash, payload: begin..rest.at })
    }
}

/// The entries that stand whole, with their payloads, one behind the other from `at` on.
fn sent(data: &[u8], mut at: usize, framing: Framing) -> impl Iterator<Item = Sent> + '_ {
    std::iter::from_fn(move || {
        let one = Sent::pull(data, at, framing)?;
        at = one.payload.end;
        Some(one)
    })
}

/// The entries at the beginning of `data`, each without what its reader knows, and with its whole payload behind it.
///
/// That is the payload's size and hash, and a signature; how they stand is for `framing` to say. `head` is the author and
/// the log id, `first` the number of the first entry, `digests` those of earlier entries by number. Ends at the first
/// entry that is not whole or that ends the log, whose payload has another hash, or that links to an entry of unknown
/// digest; and after `most`.
pub fn linked(
    data: &[u8], framing: Framing, head: &[u8], first: u64, mut digests_of: HashMap<u64, Digest64>, most: usize,
) -> Linked {
    let (mut found, mut at) = (Linked::default(), 0);
    while found.entries.len() < most {
        let group: Vec<_> = sent(data, at, framing).take(TOGETHER.min(most - found.entries.len())).collect();
        let Some(last) = group.last() else { break };
        at = last.payload.end;
        let payloads = digests(group.iter().map(|one| &data[one.payload.clone()]));
        for (one, payload) in group.iter().zip(payloads) {
            let right = payload[..] == data[one.payload_hash..one.payload_hash + DIGEST_BYTES];
            let seq = first.max(1).checked_add(found.entries.len() as u64);
            let Some((seq, links)) = seq.filter(|_| right).and_then(|seq| Some((seq, links(seq, &digests_of)?))) else {
                return found;
            };
            digests_of.insert(seq, found.push(head, seq, links, &data[one.fields.clone()], &one.payload));
        }
    }
    found
}

impl Linked {
    /// Put an entry together; its digest.
    fn push(
        &mut self, head: &[u8], seq: u64, links: [Option<Digest64>; 2], fields: &[u8], payload: &Range<usize>,
    ) -> Digest64 {
        let begin = self.encoded.len();
        self.encoded.push(0);
        self.encoded.extend(head);
        push_varu64(&mut self.encoded, seq);
        for link in links.into_iter().flatten() {
            self.encoded.extend(YAMF_PREFIX);
            self.encoded.extend(link);
        }
        self.encoded.extend(fields);
        let digest = digest(&self.encoded[begin..]);
        self.entries.push(Placed { end: self.encoded.len(), digest, payload: payload.clone() });
        digest
    }
}

/// The digests that the lipmaalink and the backlink of entry `seq` have, without those it leaves out; None if one is not
/// known.
fn links(seq: u64, digests: &HashMap<u64, Digest64>) -> Option<[Option<Digest64>; 2]> {
    if seq == 1 {
        return Some([None; 2]);
    }
    let target = lipmaa(seq);
    let skip = if target < seq - 1 { Some(*digests.get(&target)?) } else { None };
    Some([skip, Some(*digests.get(&(seq - 1))?)])
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
