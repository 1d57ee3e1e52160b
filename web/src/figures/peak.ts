// A peak in a region of a spectrum: where it is, how wide, and how much is in it.
//
//   counts of the region ──► Gaussian, integrated over each bin, on a straight background ──► centroid, FWHM, net area ± errors

import { climb, type Goodness, type Likeliest } from "./likelihood.js";

/** Full width at half maximum of a Gaussian, in standard deviations: √(8 ln 2). */
export const FWHM_PER_SIGMA = Math.sqrt(8 * Math.log(2));

/** Bins of a spectrum, side by side. */
export interface Region {
  counts: ArrayLike<number>;
  /** Where the first bin begins. */
  low: number;
  bin_width: number;
}

/** A number with its standard deviation. */
export interface Measured {
  value: number;
  deviation: number;
}

/** A fitted peak, in units of the axis. */
export interface Peak {
  centroid: Measured;
  fwhm: Measured;
  /** FWHM / centroid. */
  resolution: number;
  /** Counts above the background. */
  net_area: Measured;
  /** Whether the counts are a Gaussian on a straight background at all: else these numbers are none. */
  goodness: Goodness;
  /** Expected counts of each bin: with the peak, and the background alone. */
  curve: Float64Array;
  background: Float64Array;
}

/** Fits the one peak of a region. Without `background`, all counts belong to the peak. `null` when no peak can be told. */
export function fit_peak(region: Region, background = true): Peak | null {
  const start = first_guess(region);
  if (!start) return null;
  const model = (parameters: readonly number[], expected: Float64Array, derivatives: Float64Array) =>
    shape(region, parameters, expected, derivatives);
  const found = climb(region.counts, background ? start : start.slice(0, 3), model);
  return found && is_meant(region, found) ? told(region, found) : null;
}

// Area, centroid, sigma; then the background per bin at the middle of the region, and its slope across the region.
function first_guess({ counts, low, bin_width }: Region): number[] | null {
  const bins = counts.length;
  const edge = Math.max(1, Math.floor(bins / 8));
  let [left, right, total, highest] = [0, 0, 0, 0];
  for (let bin = 0; bin < bins; bin++) {
    const n = counts[bin] ?? 0;
    total += n;
    if (bin < edge) left += n / edge;
    if (bin >= bins - edge) right += n / edge;
  }
  if (bins < 6 || total < 5) return null;
  const floor = (bin: number) => left + ((right - left) * bin) / (bins - 1);
  let [net, first, second] = [0, 0, 0];
  for (let bin = 0; bin < bins; bin++) {
    const above = Math.max((counts[bin] ?? 0) - floor(bin), 0);
    const x = low + (bin + 0.5) * bin_width;
    highest = Math.max(highest, above);
    [net, first, second] = [net + above, first + above * x, second + above * x * x];
  }
  if (!(net > 0)) return null;
  const centroid = first / net;
  // The smaller of the width by moments and by height: tails and noise only widen moments.
  const by_height = (net * bin_width) / (highest * Math.sqrt(2 * Math.PI));
  const sigma = Math.min(Math.sqrt(Math.max(second / net - centroid ** 2, 0)), by_height);
  return [net, centroid, Math.max(sigma, bin_width / 2), Math.max((left + right) / 2, 0.01), right - left];
}

function shape(
  region: Region,
  parameters: readonly number[],
  expected: Float64Array,
  derivatives: Float64Array,
): boolean {
  const [area = 0, centroid = 0, sigma = 0, level = 0, slope = 0] = parameters;
  const { low, bin_width } = region;
  const [bins, size] = [expected.length, parameters.length];
  if (!(sigma > bin_width / 20) || !(sigma < 2 * bins * bin_width)) return false;
  let before = gaussian((low - centroid) / sigma);
  for (let bin = 0; bin < bins; bin++) {
    const after = gaussian((low + (bin + 1) * bin_width - centroid) / sigma);
    const inside = after.integral - before.integral;
    const across = size > 3 ? (bin + 0.5) / bins - 0.5 : 0;
    expected[bin] = area * inside + (size > 3 ? level + slope * across : 0);
    const row = bin * size;
    derivatives[row] = inside;
    derivatives[row + 1] = (area * (before.density - after.density)) / sigma;
    derivatives[row + 2] = (area * (before.density * before.at - after.density * after.at)) / sigma;
    if (size > 3) {
      derivatives[row + 3] = 1;
      derivatives[row + 4] = across;
    }
    before = after;
  }
  return true;
}

function gaussian(at: number): { at: number; density: number; integral: number } {
  return { at, density: Math.exp(-0.5 * at * at) / Math.sqrt(2 * Math.PI), integral: normal_integral(at) };
}

/** The integral of the normal distribution up to `at`, to 1e-7 relative (Chebyshev fit of erfc: Numerical Recipes, 3rd ed., 6.2.2). */
export function normal_integral(at: number): number {
  const z = Math.abs(at) / Math.SQRT2;
  const t = 2 / (2 + z);
  const series = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
  ];
  const sum = series.reduceRight((rest, each) => each + t * rest, 0);
  const half_tail = (t * Math.exp(-z * z + sum)) / 2;
  return at > 0 ? 1 - half_tail : half_tail;
}

function is_meant({ counts, low, bin_width }: Region, { parameters }: Likeliest): boolean {
  const [area = 0, centroid = 0, sigma = 0] = parameters;
  const high = low + counts.length * bin_width;
  return area > 0 && centroid > low && centroid < high && sigma < high - low;
}

function told(region: Region, found: Likeliest): Peak {
  const { parameters, covariance } = found;
  const size = parameters.length;
  const of = (index: number, scale = 1): Measured => ({
    value: (parameters[index] ?? 0) * scale,
    deviation: Math.sqrt(covariance[index * size + index] ?? 0) * scale,
  });
  const curve = new Float64Array(region.counts.length);
  const background = new Float64Array(region.counts.length);
  const unused = new Float64Array(region.counts.length * size);
  shape(region, parameters, curve, unused);
  shape(
    region,
    parameters.map((each, index) => (index === 0 ? 0 : each)),
    background,
    unused,
  );
  const [net_area, centroid, fwhm] = [of(0), of(1), of(2, FWHM_PER_SIGMA)];
  return {
    centroid,
    fwhm,
    net_area,
    curve,
    background,
    resolution: fwhm.value / Math.abs(centroid.value),
    goodness: found.goodness,
  };
}
