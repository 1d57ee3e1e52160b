// Colours that every eye tells apart. Red is not among them: red is lost data, and nothing else.

import { colour } from "../parts/theme.js";

/** Colours of lines, in turn; more than eight lines in one plot are more than can be read. */
export const LINES = 8;

/** The colour of the line with this number. */
export function of_line(index: number): string {
  return colour(`line-${index % LINES}`);
}

// Ten equidistant colours of the map "cividis" (Nuñez, Anderton, Renslow 2018), dark blue to yellow.
const CIVIDIS = [0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55, 0xfee838];

/** Red, green, blue of a place from 0 to 1 on the colour map. */
export function cividis(place: number): [number, number, number] {
  const at = Math.min(Math.max(place, 0), 1) * (CIVIDIS.length - 1);
  const index = Math.min(Math.floor(at), CIVIDIS.length - 2);
  const part = at - index;
  const [low, high] = [CIVIDIS[index] ?? 0, CIVIDIS[index + 1] ?? 0];
  const mix = (shift: number) => Math.round(((low >> shift) & 255) * (1 - part) + ((high >> shift) & 255) * part);
  return [mix(16), mix(8), mix(0)];
}

/** The same, to be written into a style. */
export function cividis_style(place: number): string {
  return `rgb(${cividis(place).join(" ")})`;
}

/** 256 colours of the map as pixels. */
export const CIVIDIS_PIXELS: Uint32Array = Uint32Array.from({ length: 256 }, (_, index) => {
  const [red, green, blue] = cividis(index / 255);
  return (255 << 24) | (blue << 16) | (green << 8) | red;
});

/** Where a value lies between 0 and `most` on a scale, linear or logarithmic from `least`, 0 to 1. */
export function place_on(value: number, least: number, most: number, log: boolean): number {
  if (!(value > 0) || !(most > 0)) return 0;
  if (!log) return Math.min(value / most, 1);
  if (most <= least) return 1;
  return Math.min(Math.max(Math.log(value / least) / Math.log(most / least), 0), 1);
}
