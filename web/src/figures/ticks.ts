// Round numbers along an axis, and how they are written.

import { plain, scaled } from "./quantity.js";

/** Round values between two ends, about `wanted` of them. */
export function ticks(low: number, high: number, wanted: number): number[] {
  if (!(high > low) || wanted < 1) return [];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10);
  const found: number[] = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) found.push(index * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

/** Powers of ten between two ends. */
export function decades(low: number, high: number): number[] {
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * 1.0000001; power++) found.push(10 ** power);
  return found;
}

/** Of an axis that carries the logarithm to base ten: where 1, 2 and 5 times a power of ten lie. */
export function logarithmic_ticks(low: number, high: number): number[] {
  const round = high - low < 3 ? [1, 2, 5] : [1];
  const powers = Array.from(
    { length: Math.max(Math.ceil(high) - Math.floor(low) + 1, 0) },
    (_, index) => Math.floor(low) + index,
  );
  return powers
    .flatMap((power) => round.map((each) => power + Math.log10(each)))
    .filter((value) => value >= low && value <= high);
}

/** A tick with prefix and without needless zeros: `20 k`, `1.5 M`, `0.2`. */
export function tick(value: number): string {
  if (value !== 0 && Math.abs(value) < 1 && Math.abs(value) >= 0.001) return plain(value);
  const { figures, prefix } = scaled(value);
  const short = figures.includes(".") ? figures.replace(/\.?0+$/, "") : figures;
  return prefix ? `${short} ${prefix}` : short;
}

/** A tick with its unit: `20 kB`, `5 µs`. */
export function unit_tick(value: number, unit: string): string {
  const text = tick(value);
  return /[a-zA-Zµ]$/.test(text) ? text + unit : `${text} ${unit}`;
}

/** A value along an axis with its unit. Times in picoseconds take the prefix that fits. */
export function along(value: number, unit: string): string {
  if (unit === "ps") {
    return unit_tick(value * 1e-12, "s");
  }
  return unit === "s" ? unit_tick(value, "s") : plain(value);
}
