// The requests that a page needs, without I/O (docs/specs/intervals.md): bytes in, events out.
//
// A page asks for a log from one number on, ascending, with a relative end: everything that exists, then what is new. It
// answers nothing, so it grants no request credit, and a node that asked all the same would break the rules.

import { type Bytes, Cursor, Malformed, concat, encodeU64, equal } from "./bytes.ts";
import { type Entry, assemble, decodeEntry } from "./entry.ts";
import { linksAcross, lipmaa } from "./lipmaa.ts";

/** An entry with its payload; the payload is missing if it is larger than was asked for. Nothing of it is checked yet. */
export interface Received {
  readonly type: "entry";
  readonly entry: Entry;
  readonly payload: Bytes | undefined;
}

/** The node has entries that contradict each other, or our expectation. The response is over. */
export interface Disagreement {
  readonly type: "disagreement";
  readonly entries: Entry[];
}

/** The node has ended the response, and will not go on. */
export interface Ended {
  readonly type: "ended";
}

export type Event = Received | Disagreement | Ended;

const WINDOW = 256 * 1024; // Bytes that the node may send before they were dealt with: they bound the memory of a page.
const MOST_HEAD = 1024; // Bytes: no message without its data is longer.

interface Waiting {
  readonly entry: Entry;
  readonly pieces: Bytes[];
  missing: number;
}

/** Reads one log. `from` is the first number; `mostPayload` bytes are the most that a payload may have. */
export class Reader {
  #out: Bytes[] = [];
  #in: Bytes = new Uint8Array();
  #body = 0; // Bytes of item data that are still to come of an eager message.
  #item: Bytes = new Uint8Array(); // The beginning of an item that is not all here.
  #granted = 0; // Response credit that the node has left.
  #taken = 0; // Bytes that came since credit was given back.
  #canAsk = 0n; // Request credit.
  #isOpen = false;
  #id = -1n;
  #active = 0n;
  #waiting: Waiting | undefined;
  #next: bigint;
  #sent = new Map<bigint, Bytes>(); // Hashes of entries that came in this response: links to them are left out.
  readonly #author: Bytes;
  readonly #logId: bigint;
  readonly #mostPayload: number;

  constructor(author: Bytes, logId: bigint, from: bigint, mostPayload: number) {
    if (author.length !== 32) throw new RangeError("an author has 32 bytes");
    this.#author = author;
    this.#logId = logId;
    this.#next = from;
    this.#mostPayload = mostPayload;
    this.#grant(WINDOW);
  }

  /** The number of the entry that comes next. */
  get next(): bigint {
    return this.#next;
  }

  /** Bytes for the node. */
  dataToSend(): Bytes {
    if (this.#canAsk > 0n && !this.#isOpen) this.#ask();
    const data = concat(...this.#out);
    this.#out = [];
    return data;
  }

  /** All that came was dealt with: let the node send as much again. */
  refill(): void {
    if (this.#taken > 0) this.#grant(this.#taken);
    this.#taken = 0;
  }

  #grant(size: number): void {
    this.#granted += size;
    this.#out.push(Uint8Array.of(0xc0), encodeU64(BigInt(size)));
  }

  /** `(next<0>, 0...)`, verified and eager, with a greatest size (bits 4 to 8 of the first byte: 0 1 0 1 0). */
  #ask(): void {
    this.#canAsk -= 1n;
    this.#isOpen = true;
    this.#id += 1n;
    this.#sent.clear();
    const head = concat(Uint8Array.of(0x0a, 0x05), encodeU64(this.#id), this.#author, encodeU64(this.#logId));
    this.#out.push(concat(head, encodeU64(BigInt(this.#mostPayload)), encodeU64(this.#next), Uint8Array.of(0, 0)));
  }

  /** Parse bytes of the node. `Malformed` if they break the protocol: end the connection then. */
  receive(data: Bytes): Event[] {
    const events: Event[] = [];
    let input = this.#in.length > 0 ? concat(this.#in, data) : data;
    while (input.length > 0) {
      let used: number;
      try {
        used = this.#body > 0 ? this.#takeBody(input, events) : this.#takeMessage(input, events);
      } catch (error) {
        if (!(error instanceof Malformed && error.isCut) || input.length > MOST_HEAD) throw error;
        break;
      }
      input = input.subarray(used);
    }
    this.#in = input.slice();
    return events;
  }

  #takeMessage(input: Bytes, events: Event[]): number {
    const at = new Cursor(input);
    const first = at.byte();
    if (first === 0xb0) {
      this.#canAsk += at.u64(true);
    } else if (first === 0xc0) {
      at.u64(true); // Credit for data that we never send.
    } else if (first === 0xe0 || first === 0xe8) {
      const offset = at.u64(true);
      this.#activate(first === 0xe0 ? this.#active + offset : this.#active - offset);
    } else if (first === 0x80) {
      const size = at.u64(true);
      this.#needsActive();
      if (size > BigInt(this.#granted)) throw new Malformed("the node sends more than it has credit for");
      this.#granted -= Number(size);
      this.#body = Number(size);
    } else if (first >> 4 === 0xa) {
      this.#takeEnd(first, at, events);
    } else {
      throw new Malformed(`a message that begins with ${first} is out of place`);
    }
    return at.at;
  }

  #activate(id: bigint): void {
    if (id !== this.#id || !this.#isOpen) throw new Malformed(`request ${id} is not open`);
    this.#active = id;
  }

  #needsActive(): void {
    if (!this.#isOpen || this.#active !== this.#id) throw new Malformed(`request ${this.#active} is not open`);
  }

  #takeEnd(first: number, at: Cursor, events: Event[]): void {
    this.#needsActive();
    const count = [2, 1, 0, 0][(first >> 2) & 3]!;
    const entries = Array.from({ length: count }, () => this.#proofEntry(at));
    const next = (first & 1) !== 0 ? at.u64(true) : undefined;
    if ((first & 2) !== 0) this.#canAsk += 1n;
    this.#isOpen = false;
    if (next !== undefined) throw new Malformed(`request ${next} is not open`);
    const left = this.#waiting;
    this.#waiting = undefined;
    this.#item = new Uint8Array();
    if (entries.length > 0) {
      events.push({ type: "disagreement", entries });
    } else if (left !== undefined && left.entry.size > BigInt(this.#mostPayload)) {
      // It ends in front of a payload that is too large. What is behind it is asked for anew.
      events.push({ type: "entry", entry: left.entry, payload: undefined });
      this.#next = left.entry.seq + 1n;
    } else {
      events.push({ type: "ended" });
    }
  }

  #proofEntry(at: Cursor): Entry {
    const tag = at.take(1);
    const seq = at.u64(true);
    const hasLinks = seq > 1n;
    const skip = hasLinks ? at.hash() : undefined;
    const back = hasLinks ? at.hash() : undefined;
    const hasOwn = hasLinks && lipmaa(seq) < seq - 1n;
    if (hasLinks && !hasOwn && !equal(skip!, back!)) throw new Malformed("two links to one entry differ");
    const parts = [...(hasOwn ? [skip!] : []), ...(hasLinks ? [back!] : [])];
    const end = concat(encodeU64(at.u64(true)), at.hash(), at.take(64));
    return decodeEntry(concat(tag, this.#author, encodeU64(this.#logId), encodeU64(seq), ...parts, end));
  }

  #takeBody(input: Bytes, events: Event[]): number {
    const size = Math.min(this.#body, input.length);
    this.#body -= size;
    this.#taken += size;
    let rest = input.subarray(0, size);
    while (rest.length > 0) {
      const used = this.#waiting !== undefined ? this.#takePayload(rest, events) : this.#takeItem(rest, events);
      rest = rest.subarray(used);
    }
    return size;
  }

  #takePayload(data: Bytes, events: Event[]): number {
    const waiting = this.#waiting!;
    const piece = data.slice(0, waiting.missing);
    waiting.pieces.push(piece);
    waiting.missing -= piece.length;
    if (waiting.missing === 0) this.#complete(events);
    return piece.length;
  }

  #complete(events: Event[]): void {
    const { entry, pieces } = this.#waiting!;
    this.#waiting = undefined;
    this.#next = entry.seq + 1n;
    events.push({ type: "entry", entry, payload: concat(...pieces) });
  }

  #takeItem(data: Bytes, events: Event[]): number {
    const all = concat(this.#item, data);
    const at = new Cursor(all);
    let entry: Entry;
    try {
      entry = this.#rebuilt(at);
    } catch (error) {
      if (!(error instanceof Malformed && error.isCut) || all.length > MOST_HEAD) throw error;
      this.#item = all;
      return data.length;
    }
    const used = at.at - this.#item.length;
    this.#item = new Uint8Array();
    this.#remember(entry);
    if (entry.size > BigInt(this.#mostPayload)) {
      this.#waiting = { entry, pieces: [], missing: Infinity };
    } else {
      this.#waiting = { entry, pieces: [], missing: Number(entry.size) };
      if (entry.size === 0n) this.#complete(events);
    }
    return used;
  }

  /** An entry of an item, with what was left out put back. */
  #rebuilt(at: Cursor): Entry {
    const seq = this.#next;
    const tag = at.byte();
    if (tag > 1) throw new Malformed(`tag ${tag} is neither 0 (regular) nor 1 (end of log)`);
    const far = seq > 1n ? lipmaa(seq) : 0n;
    const lipmaalink = seq > 1n && far < seq - 1n ? (this.#sent.get(far) ?? at.hash()) : undefined;
    const backlink = seq > 1n ? (this.#sent.get(seq - 1n) ?? at.hash()) : undefined;
    const fields = { isEnd: tag === 1, author: this.#author, logId: this.#logId, seq, lipmaalink, backlink };
    return assemble({ ...fields, size: at.u64(true), payloadHash: at.hash(), signature: at.take(64) });
  }

  #remember(entry: Entry): void {
    this.#sent.set(entry.seq, entry.hash);
    if (this.#sent.size > 256) {
      const across = linksAcross(entry.seq);
      for (const seq of this.#sent.keys()) if (!across.has(seq)) this.#sent.delete(seq);
    }
  }
}
