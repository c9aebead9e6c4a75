// Which entries of a log are verified (docs/specs/bamboo.md, "Verification" and "Forks").
//
// Entries come in ascending order, and only what later entries can link to is remembered: O(log n) hashes of a log of n
// entries. So a page can follow a log for ever, and what it remembers fits into a few kilobytes of its storage.

import { type Bytes, equal, hex, unhex } from "./bytes.ts";
import { type Entry, linksOf } from "./entry.ts";
import { linksAcross } from "./lipmaa.ts";

/** Two authentic entries that contradict each other about the entry of a number, the position. */
export interface Fork {
  readonly position: bigint;
  readonly first: bigint;
  readonly second: bigint;
}

interface Passed {
  /** As found, or as a link to an entry that did not come expects it. */
  readonly hash: Bytes;
  readonly isHeld: boolean;
  /** Whether a path of links leads from it to entry 1. */
  readonly isConnected: boolean;
  /** The entry that the hash is from. */
  readonly by: bigint;
}

const PRUNE_FROM = 256; // Numbers that are remembered before those that nothing links to are looked for.

/** Audits one log. Its entries have to be authentic, of that log, and each given once. */
export class Auditor {
  #passed = new Map<bigint, Passed>();
  #last = 0n;
  #end: bigint | undefined;
  #fork: Fork | undefined;

  get last(): bigint {
    return this.#last;
  }

  /** The contradiction with the lowest position so far. Nothing at or behind it is verified. */
  get fork(): Fork | undefined {
    return this.#fork;
  }

  /** Take the next entry; whether a path of links leads from it to entry 1. */
  add(entry: Entry): boolean {
    const { seq } = entry;
    if (seq < this.#last) throw new RangeError(`entry ${seq} comes after ${this.#last}; give them in ascending order`);
    if (seq === this.#last) this.#found(seq, seq, seq);
    else if (this.#passed.size > PRUNE_FROM) this.#prune();
    if (this.#end !== undefined && this.#end < seq) this.#found(this.#end, this.#end, seq);
    else if (entry.isEnd) this.#end = seq;
    this.#last = seq;
    let isConnected = seq === 1n;
    for (const [target, expected] of linksOf(entry)) {
      isConnected = this.#follow(seq, target, expected) || isConnected;
    }
    this.#passed.set(seq, { hash: entry.hash, isHeld: true, isConnected, by: seq });
    return isConnected;
  }

  #follow(seq: bigint, target: bigint, expected: Bytes): boolean {
    const known = this.#passed.get(target);
    if (known === undefined) {
      this.#passed.set(target, { hash: expected, isHeld: false, isConnected: false, by: seq });
      return false;
    }
    if (!equal(known.hash, expected)) {
      this.#found(target, known.by, seq);
      return false;
    }
    return known.isConnected;
  }

  #found(position: bigint, first: bigint, second: bigint): void {
    if (this.#fork === undefined || position < this.#fork.position) this.#fork = { position, first, second };
  }

  #prune(): void {
    if (this.#last === 0n) return;
    const across = linksAcross(this.#last);
    for (const seq of this.#passed.keys()) if (!across.has(seq)) this.#passed.delete(seq);
  }

  /** What has to be remembered to go on behind the last entry, as JSON. */
  save(): string {
    this.#prune();
    const passed = [...this.#passed].map(([seq, { hash, isHeld, isConnected, by }]) => [
      String(seq), hex(hash), isHeld, isConnected, String(by),
    ]);
    const fork = this.#fork && [this.#fork.position, this.#fork.first, this.#fork.second].map(String);
    return JSON.stringify({ last: String(this.#last), end: this.#end?.toString(), fork, passed });
  }

  /** The auditor that was saved. The text has to be of one's own storage: it is believed. */
  static restore(text: string): Auditor {
    const { last, end, fork, passed } = JSON.parse(text);
    const auditor = new Auditor();
    auditor.#last = BigInt(last);
    if (end !== undefined) auditor.#end = BigInt(end);
    if (fork) auditor.#fork = { position: BigInt(fork[0]), first: BigInt(fork[1]), second: BigInt(fork[2]) };
    for (const [seq, hash, isHeld, isConnected, by] of passed) {
      auditor.#passed.set(BigInt(seq), { hash: unhex(hash), isHeld, isConnected, by: BigInt(by) });
    }
    return auditor;
  }
}

export type Verdict = "verified" | "unverified" | "invalid";

/** The verdict on each of some authentic entries of one log, in any order; equal entries count once. */
export function audit(entries: readonly Entry[]): Map<string, Verdict> {
  const once = new Map(entries.map((entry) => [hex(entry.encoded), entry]));
  const ordered = [...once].sort(([oneHex, one], [otherHex, other]) =>
    one.seq < other.seq ? -1 : one.seq > other.seq ? 1 : oneHex < otherHex ? -1 : 1,
  );
  const auditor = new Auditor();
  const paths = ordered.map(([encoded, entry]) => [encoded, entry.seq, auditor.add(entry)] as const);
  const limit = auditor.fork?.position;
  return new Map(
    paths.map(([encoded, seq, hasPath]) => [
      encoded,
      limit !== undefined && seq >= limit ? "invalid" : hasPath ? "verified" : "unverified",
    ]),
  );
}
