// Values whose name says their unit: `busy_share` is a share, `held_bytes` are bytes.

import { count, quantity, rate, share, UNKNOWN } from "./quantity.js";
import { lasting } from "./time.js";

const UNITS: [RegExp, (value: number) => string][] = [
  [/_hz$/, rate],
  [/_per_second$/, rate],
  [/bytes$/, (value) => quantity(value, "B")],
  [/_?seconds$/, lasting],
  [/(_share|_fill|fill|share)$/, share],
  [/_ns$/, (value) => quantity(value * 1e-9, "s")],
  [/_ps$/, (value) => quantity(value * 1e-12, "s")],
  [/_us$/, (value) => quantity(value * 1e-6, "s")],
  [/_ms$/, (value) => quantity(value * 1e-3, "s")],
  [/^(core|node|id|pid|number|channel|version)$/, String],
];

/** A value as people read it. */
export function value_in_words(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return UNKNOWN;
  if (typeof value === "boolean") return value ? "● yes" : "▲ no";
  if (typeof value === "number") return (UNITS.find(([pattern]) => pattern.test(name))?.[1] ?? count)(value);
  if (Array.isArray(value)) return value.map((each) => value_in_words(name, each)).join(", ");
  if (typeof value === "object")
    return Object.entries(value)
      .map(([key, each]) => `${key.replaceAll("_", " ")} ${value_in_words(key, each)}`)
      .join(", ");
  return String(value);
}
