// Numbers, sizes and times as people read them. Sequence numbers come as text: they may be larger than 2^53.

const LOCALE = "en";

/** A number, given as such or as text. */
export const number = (value) => BigInt(value).toLocaleString(LOCALE);

/** A number with the word for what is counted. */
export const count = (value, one, many = `${one}s`) => `${number(value)} ${BigInt(value) === 1n ? one : many}`;

/** Bytes, in steps of 1024. */
export function size(bytes) {
  let value = Number(bytes);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024 || unit === "TiB")
      return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
}

/** Seconds as the two greatest units. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** How long ago a moment was, in seconds since 1970. */
export const ago = (moment) => `${duration(Date.now() / 1000 - moment)} ago`;

/** A long name shortened in its middle. */
export const brief = (text, start = 10, end = 4) =>
  text.length > start + end + 1 ? `${text.slice(0, start)}…${text.slice(text.length - end)}` : text;

/** From one number to another. */
export const span = (low, high) => (low === high ? number(low) : `${number(low)}–${number(high)}`);
