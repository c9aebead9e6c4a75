// Proofs of one entry (docs/specs/proof.md, "Format" and "Checking").
//
// A proof has what cannot be computed of the entries on two paths: from the top down to the entry, and from there down to
// entry 1. A link to an entry of the proof is that entry's hash. So nothing in the file is believed: a changed byte makes
// a signature wrong, or breaks the format.

import { blake2b } from "@noble/hashes/blake2.js";
import { type Bytes, Cursor, MAX_U64, Malformed, concat, equal, hex } from "./bytes.ts";
import { PREFIX, type Entry, assemble, linksOf, takeEntry } from "./entry.ts";
import { hasLipmaalink, lipmaa, path } from "./lipmaa.ts";
import { type Check, isAuthentic } from "./signatures.ts";

/** A file that proves nothing, and why. */
export class NotProved extends Error {
  constructor(message: string) {
    super(message);
    this.name = "NotProved";
  }
}

export interface Proof {
  /** The entries that link the proved one into a history, ascending; the last one is the top. */
  readonly entries: readonly Entry[];
  readonly entry: Entry;
  /** The highest entry of the history that is shown. */
  readonly top: Entry;
  /** Where the author forked the log, above the top; undefined if the writer of the proof knew of no fork. */
  readonly forkedAt: bigint | undefined;
  /** The part of the file that is the payload, compared with its hash; undefined if the file has only the hash. */
  readonly payload: Blob | undefined;
}

const MAGIC = new TextEncoder().encode("culm-proof");
const VERSION = 1;
/** A proof is shorter without its payload: it has at most 250 entries, and the two of a fork. */
const MAX_BYTES = 128 * 1024;
const [ENDS, HAS_FORK, HAS_PAYLOAD] = [1, 2, 4];

/**
 * Check a file that `culm prove` has written; `NotProved` if it proves nothing. `author`: who must have signed; without
 * it look at the author of the result, because anybody can make a key and a log. A payload is read piece by piece.
 */
export async function checkProof(file: Blob, check: Check, author?: Bytes): Promise<Proof> {
  const at = new Cursor(new Uint8Array(await file.slice(0, MAX_BYTES).arrayBuffer()));
  const { entries, seq, fork, hasPayload } = parse(at);
  const top = entries.at(-1)!;
  if (author !== undefined && !equal(author, top.author)) {
    throw new NotProved("the proof is of another author than the one asked for");
  }
  const signed = await Promise.all(entries.map((entry) => isAuthentic(entry, check)));
  const wrong = entries.find((_, number) => !signed[number]);
  if (wrong !== undefined) {
    throw new NotProved(
      `entry ${wrong.seq} has a wrong signature: the proof was changed, or its author did not sign this`,
    );
  }
  const forkedAt = fork && (await checkFork(fork, top, check));
  const entry = entries.find((one) => one.seq === seq)!;
  const payload = hasPayload ? file.slice(at.at) : undefined;
  if (payload !== undefined) await checkPayload(payload, entry);
  else if (file.size > at.at) throw new NotProved("more bytes follow the proof, which has no payload");
  return { entries, entry, top, forkedAt, payload };
}

function parse(at: Cursor) {
  if (!equal(at.data.subarray(0, MAGIC.length), MAGIC)) {
    throw new NotProved("this is not a proof of culm prove: it begins with other bytes");
  }
  at.at = MAGIC.length;
  if (at.data[at.at++] !== VERSION) throw new NotProved("the proof is of a version that this page cannot read");
  try {
    return pull(at);
  } catch (error) {
    if (error instanceof Malformed) throw new NotProved(`the proof breaks its format: ${error.message}`);
    throw error;
  }
}

function pull(at: Cursor) {
  const flags = at.byte();
  if (flags > (ENDS | HAS_FORK | HAS_PAYLOAD)) throw new NotProved(`the proof has unknown flags: ${flags}`);
  const author = at.take(32);
  const logId = at.u64();
  const seq = at.u64();
  const top = seq + at.u64();
  if (seq < 1n || top > MAX_U64) throw new NotProved("the proof names an entry that no log can have");
  const numbers = [...path(seq, 1n).reverse(), ...path(top, seq).slice(0, -1).reverse()];
  const hashes = new Map<bigint, Bytes>(); // Of entries before: numbers ascend, so a link's target has been read.
  const link = (target: bigint, isInside: boolean) => (isInside ? hashes.get(target)! : digest(at));
  const named = new Set(numbers);
  const entries = numbers.map((number) => {
    const size = at.u64();
    const payloadHash = digest(at);
    const far = lipmaa(number);
    const lipmaalink = hasLipmaalink(number) ? link(far, named.has(far)) : undefined;
    const backlink = number > 1n ? link(number - 1n, named.has(number - 1n)) : undefined;
    const signature = at.take(64);
    const isEnd = (flags & ENDS) !== 0 && number === top;
    const entry = assemble({ isEnd, author, logId, seq: number, lipmaalink, backlink, size, payloadHash, signature });
    hashes.set(number, entry.hash);
    return entry;
  });
  const fork = flags & HAS_FORK ? ([takeEntry(at), takeEntry(at)] as const) : undefined;
  return { entries, seq, fork, hasPayload: (flags & HAS_PAYLOAD) !== 0 };
}

/** A hash whose kind is not written. */
function digest(at: Cursor): Bytes {
  return concat(PREFIX, at.take(64));
}

/** The position of a fork proof of the log of `top`; `NotProved` if it is none, or disputes what is shown. */
async function checkFork([one, other]: readonly [Entry, Entry], top: Entry, check: Check): Promise<bigint> {
  const position = contradiction(one, other);
  if (position === undefined) {
    throw new NotProved("the proof breaks its format: the fork in it is not of two entries that contradict each other");
  }
  if (!equal(one.author, top.author) || one.logId !== top.logId) {
    throw new NotProved("the fork in the proof is of another log");
  }
  if (!(await isAuthentic(one, check)) || !(await isAuthentic(other, check))) {
    throw new NotProved(`the fork at ${position} has a wrong signature`);
  }
  if (position <= top.seq) {
    throw new NotProved(
      `the author forked the log at entry ${position}, so its history up to entry ${top.seq} is disputed`,
    );
  }
  return position;
}

/** The lowest number that two entries, in the order of a fork proof, disagree about; undefined if they are none. */
function contradiction(low: Entry, high: Entry): bigint | undefined {
  const isInOrder = low.seq < high.seq || (low.seq === high.seq && hex(low.encoded) < hex(high.encoded));
  if (!isInOrder || !equal(low.author, high.author) || low.logId !== high.logId) return undefined;
  const found = low.seq === high.seq || low.isEnd ? [low.seq] : [];
  const expectedByLow = new Map(linksOf(low));
  for (const [target, expected] of linksOf(high)) {
    const other = target === low.seq ? low.hash : expectedByLow.get(target);
    if (other !== undefined && !equal(other, expected)) found.push(target);
  }
  return found.reduce<bigint | undefined>((least, one) => (least === undefined || one < least ? one : least), undefined);
}

async function checkPayload(payload: Blob, entry: Entry): Promise<void> {
  if (BigInt(payload.size) !== entry.size) {
    throw new NotProved(`the payload in the file has ${payload.size} bytes, that of the entry ${entry.size}`);
  }
  const hasher = blake2b.create({ dkLen: 64 });
  const pieces = payload.stream().getReader();
  for (let piece = await pieces.read(); !piece.done; piece = await pieces.read()) hasher.update(piece.value);
  if (!equal(concat(PREFIX, hasher.digest()), entry.payloadHash)) {
    throw new NotProved("the payload in the file is not that of the entry: the hash differs");
  }
}
