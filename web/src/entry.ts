// Entries: strict decoding, hashes, links (docs/specs/bamboo.md, "Entries").

import { blake2b } from "@noble/hashes/blake2.js";
import { type Bytes, Cursor, Malformed, concat, encodeU64, equal } from "./bytes.ts";
import { lipmaa } from "./lipmaa.ts";

export interface Entry {
  readonly isEnd: boolean;
  readonly author: Bytes;
  readonly logId: bigint;
  readonly seq: bigint;
  /** The hash of entry `lipmaa(seq)`; undefined in entry 1, and where that is the one before. */
  readonly lipmaalink: Bytes | undefined;
  readonly backlink: Bytes | undefined;
  /** Of the payload, in bytes. */
  readonly size: bigint;
  readonly payloadHash: Bytes;
  readonly signature: Bytes;
  /** All bytes of the entry. */
  readonly encoded: Bytes;
  /** The YAMF-hash of all bytes: what links point at. */
  readonly hash: Bytes;
}

/** What a YAMF-hash of BLAKE2b with 64 bytes begins with. */
export const PREFIX = Uint8Array.of(0, 64);

/** The YAMF-hash (66 bytes) of some bytes. */
export function yamfHash(data: Bytes): Bytes {
  return concat(PREFIX, blake2b(data, { dkLen: 64 }));
}

/** Read an entry that `data` holds and nothing else; `Malformed` otherwise. */
export function decodeEntry(data: Bytes): Entry {
  const at = new Cursor(data);
  const entry = takeEntry(at);
  if (at.at !== data.length) throw new Malformed(`${data.length - at.at} bytes follow the entry`);
  return entry;
}

/** Take an entry from the front of bytes; `Malformed` if they begin with none. */
export function takeEntry(at: Cursor): Entry {
  const begin = at.at;
  const tag = at.byte();
  if (tag > 1) throw new Malformed(`tag ${tag} is neither 0 (regular) nor 1 (end of log)`);
  const author = at.take(32);
  const logId = at.u64();
  const seq = at.u64();
  if (seq === 0n) throw new Malformed("the sequence number is 0, but the first entry of a log is 1");
  const lipmaalink = seq > 1n && lipmaa(seq) < seq - 1n ? at.hash() : undefined;
  const backlink = seq > 1n ? at.hash() : undefined;
  const size = at.u64();
  const payloadHash = at.hash();
  const signature = at.take(64);
  const encoded = at.data.subarray(begin, at.at);
  const hash = yamfHash(encoded);
  return { isEnd: tag === 1, author, logId, seq, lipmaalink, backlink, size, payloadHash, signature, encoded, hash };
}

/** An entry of its fields: its bytes are put together, and hashed. */
export function assemble(fields: Omit<Entry, "encoded" | "hash">): Entry {
  const { isEnd, author, logId, seq, lipmaalink, backlink, size, payloadHash, signature } = fields;
  const links = [lipmaalink, backlink].filter((link) => link !== undefined);
  const head = [Uint8Array.of(isEnd ? 1 : 0), author, encodeU64(logId), encodeU64(seq), ...links];
  const encoded = concat(...head, encodeU64(size), payloadHash, signature);
  return { ...fields, encoded, hash: yamfHash(encoded) };
}

/** The numbers that an entry links to, each with the hash that it expects there. */
export function linksOf(entry: Entry): [bigint, Bytes][] {
  const links: [bigint, Bytes][] = [];
  if (entry.backlink !== undefined) links.push([entry.seq - 1n, entry.backlink]);
  if (entry.lipmaalink !== undefined) links.push([lipmaa(entry.seq), entry.lipmaalink]);
  return links;
}

export type PayloadVerdict = "right" | "another payload" | "false size";

/** Whether a payload is the one of an entry. A false size proves that the author lied: the log is invalid from there on. */
export function checkPayload(entry: Entry, payload: Bytes): PayloadVerdict {
  if (!equal(yamfHash(payload), entry.payloadHash)) return "another payload";
  return BigInt(payload.length) === entry.size ? "right" : "false size";
}
