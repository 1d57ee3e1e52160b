// What is done to the counts of a spectrum before it is drawn: bins joined, background estimated, planes projected.

import type { Axis } from "../live/generated_spectra.js";

/** Width of a bin. */
export function bin_width(axis: Axis): number {
  return (axis.high - axis.low) / axis.bins;
}

/** The bins that touch a range, at least one. */
export function bins_of(axis: Axis, low: number, high: number): [first: number, end: number] {
  const at = (value: number) => (value - axis.low) / bin_width(axis);
  const first = Math.min(Math.max(Math.floor(at(low) + 1e-9), 0), axis.bins - 1);
  return [first, Math.max(Math.min(Math.ceil(at(high) - 1e-9), axis.bins), first + 1)];
}

/** Joins `factor` bins into one; what does not fill one at the end is left out of the axis, too. */
export function rebinned(axis: Axis, counts: ArrayLike<number>, factor: number): { axis: Axis; counts: Float64Array } {
  const bins = Math.max(Math.floor(axis.bins / factor), 1);
  const joined = new Float64Array(bins);
  for (let bin = 0; bin < bins * factor; bin++) {
    const into = Math.floor(bin / factor);
    joined[into] = (joined[into] ?? 0) + (counts[bin] ?? 0);
  }
  return { axis: { ...axis, bins, high: axis.low + bins * factor * bin_width(axis) }, counts: joined };
}

/** The smooth background under peaks narrower than `width` bins: SNIP (Ryan et al., NIM B 34 (1988) 396) on log log √ counts. */
export function background(counts: ArrayLike<number>, width: number): Float64Array {
  let smooth = Float64Array.from(counts, (n) => Math.log(Math.log(Math.sqrt(n + 1) + 1) + 1));
  for (let reach = Math.max(Math.round(width), 1); reach >= 1; reach--) {
    const next = Float64Array.from(smooth);
    for (let bin = reach; bin < smooth.length - reach; bin++) {
      const between = ((smooth[bin - reach] ?? 0) + (smooth[bin + reach] ?? 0)) / 2;
      next[bin] = Math.min(smooth[bin] ?? 0, between);
    }
    smooth = next;
  }
  return smooth.map((each) => (Math.exp(Math.exp(each) - 1) - 1) ** 2 - 1);
}

/** Sums of a plane's columns and rows over a window of bins; `[first, end)` along each axis. First axis fastest. */
export function projections(
  counts: ArrayLike<number>,
  columns: number,
  [x1, x2]: readonly [number, number],
  [y1, y2]: readonly [number, number],
): { along_x: Float64Array; along_y: Float64Array } {
  const [along_x, along_y] = [new Float64Array(x2 - x1), new Float64Array(y2 - y1)];
  for (let y = y1; y < y2; y++) {
    for (let x = x1; x < x2; x++) {
      const n = counts[y * columns + x] ?? 0;
      along_x[x - x1] = (along_x[x - x1] ?? 0) + n;
      along_y[y - y1] = (along_y[y - y1] ?? 0) + n;
    }
  }
  return { along_x, along_y };
}
