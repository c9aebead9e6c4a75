//! Ed25519 signatures in batches, with the verdicts of libsodium (docs/decisions/14-signatures-in-batches.md).
//!
//! A signature (R, S) of the author A over a message is accepted by libsodium if and only if
//!
//! 1. S < L; A is canonical and not of small order; R is not of small order;
//! 2. the encoding of S B - k A is R, byte for byte, with k = SHA-512(R, A, message) mod L.
//!
//! Nothing here refuses a signature. What is not accepted is asked of libsodium one by one, so that this module can only
//! be wrong by accepting too much, and it does so with a probability of at most 2^-64 + 2^-128 for each equation tried.

use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, IsIdentity, VartimeMultiscalarMul};
use sha2::{Digest, Sha512};
use std::collections::HashMap;
use std::iter::once;
use std::sync::LazyLock;

pub const SIGNATURE_BYTES: usize = 64;
/// An author of fewer signatures is not worth the checks of its key: they cost about as much as one signature.
pub const FEWEST: usize = 8;
/// Signatures of a batch. The 64 checks of sums cost as much for fewer.
const MOST: usize = 4096;
/// Sums of random subsets that are checked. A batch with a torsion point among its R passes one with 1/2 at most.
const SUMS: usize = 64;
/// Members of a batch whose R are checked one by one, and not by sums: 64 checks cost as much as those of 64 members, and
/// the additions for the sums as much as those of 60 more.
const ONE_BY_ONE: usize = 144;
/// See `Limit`.
const EQUATION: usize = 20;
/// Bits of the random number of a member.
const BITS: usize = 128;

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

/// The encodings of the points of small order, without their signs.
static SMALL: LazyLock<[Key; 8]> = LazyLock::new(|| EIGHT_TORSION.map(|point| without_sign(&point.compress().0)));

/// The point of a canonical encoding, if it is not of small order.
fn decompress(encoded: &Key) -> Option<EdwardsPoint> {
    // Canonical encodings are equal where the points are, and comparing them is ten times faster.
    let is_fit = is_reduced(encoded) && !SMALL.contains(&without_sign(encoded));
    if is_fit { CompressedEdwardsY(*encoded).decompress() } else { None }
}

fn without_sign(encoded: &Key) -> Key {
    let mut bare = *encoded;
    bare[31] &= 0x7f;
    bare
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
/// two for reading a member, one for its part of the equation or for sixteen additions of points, eight for a point's
/// check, and `EQUATION` for the base point and the author.
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
        let is_small = members.len() <= ONE_BY_ONE;
        let cost = if is_small { members.len() } else { width_and_additions(members.len()).1 / 16 };
        if members.len() < FEWEST || !self.limit.allows(cost + EQUATION) {
            return Ok(());
        }
        let random = random_numbers(members.len())?;
        if is_small {
            let scalars = random.iter().map(|&z| Scalar::from(z));
            if self.is_equation_right(members, &random, scalars.zip(members.iter().map(|member| member.r))) {
                self.accept_one_by_one(members);
                return Ok(());
            }
        } else {
            let sums = sums_by_bit(members, &random);
            let sum = sums.iter().rev().fold(EdwardsPoint::identity(), |sum, of_bit| sum + sum + of_bit);
            if self.is_equation_right(members, &random, once((Scalar::ONE, sum))) {
                if !self.limit.allows(8 * SUMS) {
                    return Ok(());
                }
                if sums[..SUMS].iter().all(EdwardsPoint::is_torsion_free) {
                    members.iter().for_each(|member| self.verdicts[member.place] = true);
                    return Ok(());
                }
            }
        }
        let (first, second) = members.split_at(members.len() / 2);
        self.decide(first)?;
        self.decide(second)
    }

    /// Whether 8 times the sum of z (S B - k A - R), with a random z for each signature, is the identity.
    ///
    /// If so, each S B - k A - R is a torsion point, except with a probability of 2^-128: eight times it lies in the
    /// group of the prime order L, and at most one z in L makes the sum vanish if one of them is not the identity.
    /// `of_r`: scalars and points whose products add up to the sum of all z R.
    fn is_equation_right(
        &self,
        members: &[Member],
        random: &[u128],
        of_r: impl Iterator<Item = (Scalar, EdwardsPoint)>,
    ) -> bool {
        let (mut of_base, mut of_keys) = (Scalar::ZERO, vec![Scalar::ZERO; self.keys.len()]);
        for (member, &z) in members.iter().zip(random) {
            let z = Scalar::from(z);
            of_base -= z * member.s;
            of_keys[member.author] += z * member.k;
        }
        let used = of_keys.into_iter().zip(self.keys.iter().copied()).filter(|(scalar, _)| *scalar != Scalar::ZERO);
        let (scalars, points): (Vec<_>, Vec<_>) =
            of_r.chain(used).chain(once((of_base, ED25519_BASEPOINT_POINT))).unzip();
        EdwardsPoint::vartime_multiscalar_mul(scalars, points).mul_by_cofactor().is_identity()
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

/// For each bit the sum of the R of those members whose random number has it.
///
/// The sums, doubled bit by bit, add up to the sum of all z R. And each is the sum of a random subset, so that the first
/// `SUMS` of them say whether any R has a torsion part: it makes the sum of a subset with it differ from that without it.
/// At most one of the two is free of torsion, so each check passes with 1/2 at most, whatever the other points are.
///
/// Bits are taken `width` at a time: each R is added to the sum of those with the same bits, and these sums are then
/// folded for each bit. That is one addition for as many bits.
fn sums_by_bit(members: &[Member], random: &[u128]) -> Vec<EdwardsPoint> {
    let (width, _) = width_and_additions(members.len());
    let mut sums = Vec::with_capacity(BITS + width);
    while sums.len() < BITS {
        let mut folded = vec![EdwardsPoint::identity(); 1 << width];
        for (member, z) in members.iter().zip(random) {
            folded[(z >> sums.len()) as usize & ((1 << width) - 1)] += member.r;
        }
        let mut of_bits = vec![EdwardsPoint::identity(); width];
        for (bit, sum) in of_bits.iter_mut().enumerate().rev() {
            let (without, with) = folded.split_at_mut(1 << bit);
            for (one, other) in without.iter_mut().zip(with) {
                *sum += *other;
                *one += *other;
            }
        }
        sums.extend(of_bits);
    }
    sums.truncate(BITS);
    sums
}

/// With how many bits at a time `sums_by_bit` makes the fewest additions, and how many these are.
fn width_and_additions(members: usize) -> (usize, usize) {
    let of_width = |width| (width, BITS.div_ceil(width) * (members + (2 << width)));
    (1..=BITS / 8).map(of_width).min_by_key(|&(_, additions)| additions).expect("several widths")
}

/// From the system's generator: whoever makes the signatures must not know them.
fn random_numbers(count: usize) -> Result<Vec<u128>, NoRandomBits> {
    let mut bytes = vec![0; BITS / 8 * count];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomBits)?;
    let chunks = bytes.chunks_exact(BITS / 8);
    Ok(chunks.map(|chunk| u128::from_le_bytes(chunk.try_into().expect("a chunk of 16"))).collect())
}
