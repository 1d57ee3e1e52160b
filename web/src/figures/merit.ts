// How well two bands of pulse shape are apart.
//
//            ╭╮     ╭─╮
//   counts ─╯  ╰───╯   ╰──  psd       FOM = distance of the centroids / (FWHM + FWHM)

import { climb, type Goodness } from "./likelihood.js";
import { FWHM_PER_SIGMA, type Measured, type Region } from "./peak.js";

/** Two bands beside each other. */
export interface Merit {
  figure: Measured;
  centroids: [number, number];
  fwhms: [number, number];
  /** Whether the projection is two Gaussians at all. */
  goodness: Goodness;
  /** Expected counts of each bin. */
  curve: Float64Array;
}

/** Fits two Gaussians to a projection. `null` when there are no two bands. */
export function figure_of_merit(region: Region): Merit | null {
  const start = two_peaks(region);
  if (!start) return null;
  const found = climb(region.counts, start, (parameters, expected, derivatives) =>
    two(region, parameters, expected, derivatives),
  );
  if (!found) return null;
  const [, c1 = 0, s1 = 0, , c2 = 0, s2 = 0] = found.parameters;
  const [area_1 = 0, , , area_2 = 0] = found.parameters;
  if (!(s1 > 0 && s2 > 0 && area_1 > 0 && area_2 > 0) || c1 === c2) return null;
  const widths = FWHM_PER_SIGMA * (s1 + s2);
  const figure = Math.abs(c2 - c1) / widths;
  const sign = Math.sign(c2 - c1);
  const by = [0, -sign / widths, -figure / (s1 + s2), 0, sign / widths, -figure / (s1 + s2)];
  let variance = 0;
  by.forEach((left, row) =>
    by.forEach((right, column) => (variance += left * right * (found.covariance[row * 6 + column] ?? 0))),
  );
  const curve = new Float64Array(region.counts.length);
  two(region, found.parameters, curve, new Float64Array(curve.length * 6));
  return {
    figure: { value: figure, deviation: Math.sqrt(Math.max(variance, 0)) },
    centroids: [c1, c2],
    fwhms: [s1 * FWHM_PER_SIGMA, s2 * FWHM_PER_SIGMA],
    goodness: found.goodness,
    curve,
  };
}

// The highest bin, and the highest one that a valley of at most 85 % divides from it.
function two_peaks({ counts, low, bin_width }: Region): number[] | null {
  const smooth = Array.from({ length: counts.length }, (_, bin) => {
    let sum = 0;
    for (let near = bin - 2; near <= bin + 2; near++) sum += counts[near] ?? 0;
    return sum / 5;
  });
  const top = smooth.reduce((best, each, bin) => (each > (smooth[best] ?? 0) ? bin : best), 0);
  let [second, depth] = [-1, 0];
  for (const step of [-1, 1]) {
    let valley = smooth[top] ?? 0;
    for (let bin = top + step; bin >= 0 && bin < smooth.length; bin += step) {
      const here = smooth[bin] ?? 0;
      valley = Math.min(valley, here);
      if (valley < 0.85 * here && here - valley > depth) [second, depth] = [bin, here - valley];
    }
  }
  const total = smooth.reduce((sum, each) => sum + each, 0);
  if (second < 0 || total < 50) return null;
  const place = (bin: number) => low + (bin + 0.5) * bin_width;
  const sigma = Math.max((Math.abs(second - top) * bin_width) / 6, bin_width);
  const area = (bin: number) => ((smooth[bin] ?? 0) * sigma * Math.sqrt(2 * Math.PI)) / bin_width;
  const [left, right] = top < second ? [top, second] : [second, top];
  return [area(left), place(left), sigma, area(right), place(right), sigma];
}

function two(
  { low, bin_width }: Region,
  parameters: readonly number[],
  expected: Float64Array,
  derivatives: Float64Array,
): boolean {
  const [a1 = 0, c1 = 0, s1 = 0, a2 = 0, c2 = 0, s2 = 0] = parameters;
  if (!(s1 > bin_width / 5 && s2 > bin_width / 5)) return false;
  for (let bin = 0; bin < expected.length; bin++) {
    const x = low + (bin + 0.5) * bin_width;
    expected[bin] = 0.01;
    [
      [a1, c1, s1],
      [a2, c2, s2],
    ].forEach(([area = 0, centroid = 0, sigma = 1], index) => {
      const at = (x - centroid) / sigma;
      const density = (Math.exp(-0.5 * at * at) * bin_width) / (sigma * Math.sqrt(2 * Math.PI));
      const row = bin * 6 + index * 3;
      expected[bin] = (expected[bin] ?? 0) + area * density;
      derivatives[row] = density;
      derivatives[row + 1] = (area * density * at) / sigma;
      derivatives[row + 2] = (area * density * (at * at - 1)) / sigma;
    });
  }
  return true;
}
