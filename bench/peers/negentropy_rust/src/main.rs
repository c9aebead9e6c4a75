//! Rust's negentropy as a peer of the benchmarks: sessions over sets that stay in memory, one for each line of stdin.
//!
//! `negentropy-peer OURS THEIRS`: two files of records, 8 bytes of timestamp (little-endian) and 32 of id each. A line of
//! stdin is a frame limit. The answer is a line: nanoseconds of CPU, rounds, bytes up, bytes down, ids that the initiator
//! has alone, and that it lacks. CPU is this thread's, of both sides together, as the benchmark takes Culm's.

use std::io::{BufRead, Write};
use std::{env, fs, io};

use negentropy::{Id, Negentropy, NegentropyStorageVector};

const RECORD: usize = 40;

fn main() {
    let paths: Vec<_> = env::args().skip(1).collect();
    let sets: Vec<_> = paths.iter().map(|path| sealed(&fs::read(path).expect("a file of records"))).collect();
    let [ours, theirs] = &sets[..] else { panic!("two files of records are expected") };
    for line in io::stdin().lock().lines() {
        let limit = line.expect("a line").trim().parse().expect("a frame limit");
        println!("{}", session(ours, theirs, limit));
        io::stdout().flush().expect("an open stdout");
    }
}

fn sealed(data: &[u8]) -> NegentropyStorageVector {
    let mut storage = NegentropyStorageVector::with_capacity(data.len() / RECORD);
    for record in data.chunks_exact(RECORD) {
        let (timestamp, id) = record.split_at(8);
        let timestamp = u64::from_le_bytes(timestamp.try_into().unwrap());
        storage.insert(timestamp, Id::from_byte_array(id.try_into().unwrap())).expect("a record");
    }
    storage.seal().expect("records without duplicates");
    storage
}

fn session(ours: &NegentropyStorageVector, theirs: &NegentropyStorageVector, limit: u64) -> String {
    let start = cpu();
    let mut client = Negentropy::borrowed(ours, limit).expect("a possible limit");
    let mut server = Negentropy::borrowed(theirs, limit).expect("a possible limit");
    let (mut have, mut need) = (Vec::new(), Vec::new());
    let (mut rounds, mut up, mut down) = (0, 0, 0);
    let mut message = Some(client.initiate().expect("a first message"));
    while let Some(question) = message {
        let answer = server.reconcile(&question).expect("an answer");
        rounds += 1;
        up += question.len();
        down += answer.len();
        message = client.reconcile_with_ids(&answer, &mut have, &mut need).expect("a next message");
    }
    let taken = cpu() - start;
    format!("{taken},{rounds},{up},{down},{},{}", have.len(), need.len())
}

fn cpu() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid timespec for the whole call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
