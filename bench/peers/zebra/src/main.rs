//! The batch verification of ed25519-zebra as a limit of the benchmarks. Its verdicts are not libsodium's.
//!
//! `zebra-peer FILE`: records of an author (32 bytes), a signature (64), the size of the message (4, little-endian) and
//! the message. A line of stdin is the number of signatures in a batch. The answer is a line: the nanoseconds in which
//! all signatures of the file were checked.

use std::io::{BufRead, Write};
use std::time::Instant;
use std::{env, fs, io};

use ed25519_zebra::{batch, Signature, VerificationKeyBytes};
use getrandom::SysRng;
use rand_core::UnwrapErr;

type Signed<'a> = (VerificationKeyBytes, Signature, &'a [u8]);

fn main() {
    let path = env::args().nth(1).expect("a file of signatures");
    let data = fs::read(path).expect("a file that can be read");
    let signed = signatures(&data);
    for line in io::stdin().lock().lines() {
        let size = line.expect("a line").trim().parse().expect("a number");
        println!("{}", check(&signed, size));
        io::stdout().flush().expect("an open stdout");
    }
}

fn signatures(mut data: &[u8]) -> Vec<Signed<'_>> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let (author, rest) = data.split_at(32);
        let (signature, rest) = rest.split_at(64);
        let (size, rest) = rest.split_at(4);
        let (message, rest) = rest.split_at(u32::from_le_bytes(size.try_into().unwrap()) as usize);
        let author: [u8; 32] = author.try_into().unwrap();
        let signature: [u8; 64] = signature.try_into().unwrap();
        found.push((author.into(), signature.into(), message));
        data = rest;
    }
    found
}

fn check(signed: &[Signed<'_>], size: usize) -> u128 {
    let start = Instant::now();
    for part in signed.chunks(size) {
        let mut verifier = batch::Verifier::new();
        for &item in part {
            verifier.queue(item);
        }
        verifier.verify(UnwrapErr(SysRng)).expect("good signatures");
    }
    start.elapsed().as_nanos()
}
