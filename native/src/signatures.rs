//! Ed25519 signatures in batches, with the verdicts of libsodium (docs/decisions/14-signatures-in-batches.md).
//!
//! A signature (R, S) of the author A over a message is accepted by libsodium if and only if
//!
//! 1. S < L; A is canonical and not of small order; R is not of small order;
//! 2. the encoding of S B - k A is R, byte for byte, with k = SHA-512(R, A, message) mod L.
//!
//! Nothing here refuses a signature. What is not accepted is asked of libsodium one by one, so that this module can only
//! be wrong by accepting too much, and it does so with a probability of at most 2^-64 + 2^-128 for each equation tried.

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, IsIdentity, VartimeMultiscalarMul};
use sha2::{Digest, Sha512};
use std::collections::HashMap;

pub const SIGNATURE_BYTES: usize = 64;
/// An author of fewer signatures is not worth the checks of its key: they cost about as much as one signature.
pub const FEWEST: usize = 8;
/// Signatures of a batch. The 64 checks of sums cost as much for fewer.
const MOST: usize = 4096;
/// Sums of random subsets that are checked. A batch with a torsion point among its R passes one with 1/2 at most.
const SUMS: usize = 64;
/// Members of a batch whose R are checked one by one, and not by sums: 64 checks cost as much as those of 64 members.
const ONE_BY_ONE: usize = 128;
/// See `Limit`.
const EQUATION: usize = 20;
/// Points whose sums are computed together: 2^4 sums for four points.
const TOGETHER: usize = 4;

pub type Key = [u8; 32];

/// A message, the key that is said to have signed it, and the signature.
#[derive(Clone, Copy)]
pub struct Signed<'a> {
    pub author: &'a Key,
    pub message: &'a [u8],
    pub signature: &'a [u8; SIGNATURE_BYTES],
}

/// A signature whose parts are in order, so that it may be in a batch.
struct Member {
    place: usize,
    r: EdwardsPoint,
    s: Scalar,
    k: Scalar,
    author: usize,
}

/// The system has no random bits.
#[derive(Debug)]
pub struct NoRandomBits;

/// Which of the signatures are certainly accepted by libsodium. The others have to be asked for one by one.
pub fn accepted(signed: &[Signed]) -> Result<Vec<bool>, NoRandomBits> {
    let (keys, numbers) = prepare_authors(signed);
    let mut members = Vec::with_capacity(signed.len().min(MOST));
    let mut decision = Decision { keys: &keys, verdicts: vec![false; signed.len()], limit: Limit(0) };
    for (place, item) in signed.iter().enumerate() {
        if let Some(&author) = numbers.get(item.author) {
            members.extend(member(place, item, author));
        }
        if members.len() == MOST {
            decision.decide_anew(&members)?;
            members.clear();
        }
    }
    decision.decide_anew(&members)?;
    Ok(decision.verdicts)
}

/// The points of the authors of at least `FEWEST` signatures whose keys are fit for batches, and their numbers.
fn prepare_authors<'a>(signed: &[Signed<'a>]) -> (Vec<EdwardsPoint>, HashMap<&'a Key, usize>) {
    let mut counts: HashMap<&Key, usize> = HashMap::new();
    for item in signed {
        *counts.entry(item.author).or_default() += 1;
    }
    let fit = counts.into_iter().filter(|&(_, count)| count >= FEWEST);
    let fit = fit.filter_map(|(key, _)| Some((key, decompress(key).filter(EdwardsPoint::is_torsion_free)?)));
    let (numbers, keys) = fit.enumerate().map(|(number, (key, point))| ((key, number), point)).unzip();
    (keys, numbers)
}

/// The point of a canonical encoding, if it is not of small order.
fn decompress(encoded: &Key) -> Option<EdwardsPoint> {
    let point = CompressedEdwardsY(*encoded).decompress()?;
    (is_reduced(encoded) && !point.is_small_order()).then_some(point)
}

/// Whether y < p = 2^255 - 19. The sign is canonical too, unless x = 0, and points with x = 0 are of small order.
fn is_reduced(encoded: &Key) -> bool {
    let [low, middle @ .., high] = encoded;
    *low < 0xed || high & 0x7f != 0x7f || middle.iter().any(|&byte| byte != 0xff)
}

fn member(place: usize, item: &Signed, author: usize) -> Option<Member> {
    let (r, s) = item.signature.split_at(32);
    let r: &Key = r.try_into().expect("32 bytes of 64");
    let s = Option::from(Scalar::from_canonical_bytes(s.try_into().expect("32 bytes of 64")))?;
    let hash = Sha512::new().chain_update(r).chain_update(item.author).chain_update(item.message).finalize();
    let k = Scalar::from_bytes_mod_order_wide(&hash.into());
    Some(Member { place, r: decompress(r)?, s, k, author })
}

/// What may still be spent on a batch, in sixteenths of what libsodium needs for one signature.
///
/// Whoever sends bad signatures must not make the good ones expensive. So a batch and its parts may cost half of what
/// one by one costs, and with one by one behind them the whole costs at most 1.5 times as much. The costs are measured:
/// two for reading a member, one for its part of the equation, one for its part of the sums, eight for a point's check,
/// and `EQUATION` for the base point and the author.
struct Limit(usize);

impl Limit {
    /// Take off what something costs, if there is as much.
    fn allows(&mut self, cost: usize) -> bool {
        let allows = self.0 >= cost;
        self.0 -= if allows { cost } else { 0 };
        allows
    }
}

/// The state of one call.
struct Decision<'a> {
    keys: &'a [EdwardsPoint],
    verdicts: Vec<bool>,
    limit: Limit,
}

impl Decision<'_> {
    /// A batch of its own, whose members have been read.
    fn decide_anew(&mut self, members: &[Member]) -> Result<(), NoRandomBits> {
        self.limit = Limit((8 - 2) * members.len() + EQUATION);
        self.decide(members)
    }

    /// Mark the members of a batch that holds, or else of those of its halves that do.
    fn decide(&mut self, members: &[Member]) -> Result<(), NoRandomBits> {
        if members.len() < FEWEST || !self.limit.allows(members.len() + EQUATION) {
            return Ok(());
        }
        if is_combined_equation_right(members, self.keys)? {
            if members.len() <= ONE_BY_ONE {
                self.accept_one_by_one(members);
                return Ok(());
            }
            if !self.limit.allows(members.len() + 8 * SUMS) {
                return Ok(());
            }
            if are_sums_torsion_free(members)? {
                members.iter().for_each(|member| self.verdicts[member.place] = true);
                return Ok(());
            }
        }
        let (first, second) = members.split_at(members.len() / 2);
        self.decide(first)?;
        self.decide(second)
    }

    /// Accept each member whose R has no torsion part.
    ///
    /// That costs half of libsodium and spares it, so nothing is taken off the limit. It would be lost on members whose R
    /// has a torsion part, so it ends where they are more than a quarter.
    fn accept_one_by_one(&mut self, members: &[Member]) {
        let mut refused = 0;
        for (checked, member) in members.iter().enumerate() {
            if member.r.is_torsion_free() {
                self.verdicts[member.place] = true;
            } else {
                refused += 1;
                if 4 * refused > checked + 4 {
                    return;
                }
            }
        }
    }
}

/// Whether 8 times the sum of z (S B - k A - R), with a random z of 128 bits for each signature, is the identity.
///
/// If so, each S B - k A - R is a torsion point, except with a probability of 2^-128: eight times it lies in the group of
/// the prime order L, and at most one z in L makes the sum vanish if one of them is not the identity.
fn is_combined_equation_right(members: &[Member], keys: &[EdwardsPoint]) -> Result<bool, NoRandomBits> {
    let random = random_bytes(16 * members.len())?;
    let mut scalars = Vec::with_capacity(members.len() + keys.len() + 1);
    let (mut of_base, mut of_keys) = (Scalar::ZERO, vec![Scalar::ZERO; keys.len()]);
    for (member, bytes) in members.iter().zip(random.chunks_exact(16)) {
        let z = Scalar::from(u128::from_le_bytes(bytes.try_into().expect("a chunk of 16")));
        of_base -= z * member.s;
        of_keys[member.author] += z * member.k;
        scalars.push(z);
    }
    let (used, of_used): (Vec<_>, Vec<_>) =
        keys.iter().zip(of_keys).filter(|(_, scalar)| *scalar != Scalar::ZERO).unzip();
    scalars.extend(of_used);
    scalars.push(of_base);
    let points = members.iter().map(|member| &member.r).chain(used).chain([&ED25519_BASEPOINT_POINT]);
    Ok(EdwardsPoint::vartime_multiscalar_mul(&scalars, points).mul_by_cofactor().is_identity())
}

/// Whether the sums of 64 random subsets of the R have no torsion part, as is so if no R has one.
///
/// A torsion part of one R makes the sum of a subset with it differ from that without it. So at most one of the two is
/// free of torsion, and each check passes with 1/2 at most, whatever the other points are.
fn are_sums_torsion_free(members: &[Member]) -> Result<bool, NoRandomBits> {
    let random = random_bytes(SUMS * members.len().div_ceil(TOGETHER))?;
    let mut sums = [EdwardsPoint::identity(); SUMS];
    for (group, bits) in members.chunks(TOGETHER).zip(random.chunks_exact(SUMS)) {
        let of_subsets = sums_of_subsets(group);
        for (sum, &byte) in sums.iter_mut().zip(bits) {
            let subset = usize::from(byte) % of_subsets.len();
            if subset != 0 {
                *sum += of_subsets[subset];
            }
        }
    }
    Ok(sums.iter().all(EdwardsPoint::is_torsion_free))
}

/// The sum of each subset of at most `TOGETHER` points, at the number whose bits are the subset.
fn sums_of_subsets(group: &[Member]) -> Vec<EdwardsPoint> {
    let mut sums = Vec::with_capacity(1 << group.len());
    sums.push(EdwardsPoint::identity());
    for member in group {
        sums.push(member.r);
        for subset in 1..sums.len() - 1 {
            sums.push(sums[subset] + member.r);
        }
    }
    sums
}

/// From the system's generator: whoever makes the signatures must not know them.
fn random_bytes(count: usize) -> Result<Vec<u8>, NoRandomBits> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomBits)?;
    Ok(bytes)
}
