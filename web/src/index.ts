export { Auditor, audit, type Fork, type Verdict } from "./audit.ts";
export { type Bytes, Cursor, Malformed, base62, concat, encodeU64, equal, hex, parseKey, unhex } from "./bytes.ts";
export { type Entry, assemble, checkPayload, decodeEntry, linksOf, yamfHash } from "./entry.ts";
export { type Judged, Judge, PROTOCOL, follow } from "./follow.ts";
export { type Event, Reader } from "./intervals.ts";
export { certificatePool, hasLipmaalink, linksAcross, lipmaa, path, spine } from "./lipmaa.ts";
export { type Proof, NotProved, checkProof } from "./proof.ts";
export { bestCheck, byNoble, byWebCrypto, isAuthentic, type Check } from "./signatures.ts";
