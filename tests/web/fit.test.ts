// Fits on shapes that are known: what is found is right, and the errors are as large as they say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fit_fact } from "../../web/src/figures/likelihood.js";
import { figure_of_merit } from "../../web/src/figures/merit.js";
import { fit_peak, FWHM_PER_SIGMA, normal_integral, type Measured } from "../../web/src/figures/peak.js";
import { inverse } from "../../web/src/figures/solve.js";
import { chance, normal, poisson } from "./chance.js";

const TRUE = { area: 900, centroid: 1173.2, sigma: 4.1 };
const LOW = 1140;
const BINS = 70;

function spectrum(random: () => number, area: number, level: number, slope: number): number[] {
  return Array.from({ length: BINS }, (_, bin) => {
    const at = (edge: number) => normal_integral((LOW + edge - TRUE.centroid) / TRUE.sigma);
    return poisson(area * (at(bin + 1) - at(bin)) + level + slope * (bin / BINS - 0.5), random);
  });
}

/** Pulls (found − true) / error of many spectra: their mean and width, which should be 0 and 1. */
function pulls(area: number, level: number, slope: number): Record<string, { mean: number; width: number }> {
  const random = chance(11);
  const found: Record<string, number[]> = { area: [], centroid: [], fwhm: [] };
  const note = (name: string, { value, deviation }: Measured, truth: number) =>
    found[name]?.push((value - truth) / deviation);
  for (let round = 0; round < 400; round++) {
    const peak = fit_peak({ counts: spectrum(random, area, level, slope), low: LOW, bin_width: 1 });
    assert.ok(peak, "a peak of this size is always found");
    note("area", peak.net_area, area);
    note("centroid", peak.centroid, TRUE.centroid);
    note("fwhm", peak.fwhm, TRUE.sigma * FWHM_PER_SIGMA);
  }
  return Object.fromEntries(
    Object.entries(found).map(([name, values]) => {
      const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
      const width = Math.sqrt(values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (values.length - 1));
      return [name, { mean, width }];
    }),
  );
}

for (const [words, area, level, slope] of [
  ["many counts", 20_000, 120, 60],
  ["few counts", 900, 6, -4],
  ["nearly no background", 300, 0.4, 0],
] as const) {
  test(`a peak's errors are those of repeated measurements: ${words}`, () => {
    for (const [name, { mean, width }] of Object.entries(pulls(area, level, slope))) {
      // 400 spectra: the mean of true pulls lies within 0.05, their width within 0.035; few counts leave a bias well below one error.
      assert.ok(Math.abs(mean) < 0.25, `${name}: pulls are ${mean.toFixed(3)} off`);
      assert.ok(width > 0.85 && width < 1.15, `${name}: pulls are ${width.toFixed(3)} wide`);
    }
  });
}

test("a fit says that its model fits where the shape is right, and that it does not where it is wrong", () => {
  const random = chance(3);
  const right = fit_peak({ counts: spectrum(random, 20_000, 100, 0), low: LOW, bin_width: 1 });
  assert.ok(right?.goodness.fits && right.goodness.reduced > 0.6 && right.goodness.reduced < 1.5);
  assert.match(fit_fact(right.goodness), /^fits, χ²\/ν = [01]\.\d\d$/);
  const box = Array.from({ length: BINS }, (_, bin) => poisson(bin > 20 && bin < 50 ? 1000 : 10, random));
  const wrong = fit_peak({ counts: box, low: LOW, bin_width: 1 });
  assert.ok(wrong && !wrong.goodness.fits);
  assert.match(fit_fact(wrong.goodness), /^model does not fit: χ²\/ν = \d+(\.\d)? with ν = \d+$/);
});

/** Time differences of pairs with a resolution of 1270 ps (FWHM), in 1024 bins over ±100 ns, as the page has them. */
function differences(random: () => number, pairs: number, is_signed: boolean): number[] {
  const counts = new Array<number>(1024).fill(0);
  for (let pair = 0; pair < pairs; pair++) {
    const drawn = (1270 / FWHM_PER_SIGMA) * normal(random);
    const bin = Math.floor(((is_signed ? drawn : Math.abs(drawn)) + 100_000) / (200_000 / 1024));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return counts;
}

test("one-sided time differences have no width, however many empty bins lie around them", () => {
  for (const pairs of [1000, 10_000, 100_000]) {
    const counts = differences(chance(9), pairs, false);
    const peak = fit_peak({ counts, low: -100_000, bin_width: 200_000 / 1024 });
    assert.ok(
      !peak?.goodness.fits,
      `${pairs} pairs: FWHM ${peak?.fwhm.value} ± ${peak?.fwhm.deviation} where it is 1270`,
    );
  }
});

test("signed time differences have the width of the resolution", () => {
  for (const pairs of [1000, 10_000, 100_000]) {
    const counts = differences(chance(9), pairs, true);
    const peak = fit_peak({ counts, low: -100_000, bin_width: 200_000 / 1024 });
    assert.ok(peak?.goodness.fits, `${pairs} pairs: ${peak && fit_fact(peak.goodness)}`);
    assert.ok(Math.abs(peak.fwhm.value - 1270) < 4 * peak.fwhm.deviation, `${pairs} pairs: ${peak.fwhm.value}`);
  }
});

test("two peaks in one region are no one Gaussian", () => {
  const random = chance(10);
  const counts = spectrum(random, 5000, 20, 0).map((n, bin) => n + poisson(bin > 10 && bin < 16 ? 300 : 0, random));
  const peak = fit_peak({ counts, low: LOW, bin_width: 1 });
  assert.ok(peak && !peak.goodness.fits);
});

test("with too few counts to tell, a fit says so", () => {
  const peak = fit_peak({ counts: [0, 0, 0, 0, 1, 3, 9, 3, 1, 0, 0, 0, 0], low: 0, bin_width: 1 });
  if (peak) assert.equal(fit_fact(peak.goodness), "too few counts to tell whether the model fits");
});

test("without background, all counts are the peak's", () => {
  const counts = spectrum(chance(5), 5000, 0, 0);
  const peak = fit_peak({ counts, low: LOW, bin_width: 1 }, false);
  const total = counts.reduce((sum, n) => sum + n, 0);
  assert.ok(peak && Math.abs(peak.net_area.value - total) < 2);
  assert.ok(Math.abs(peak.net_area.deviation - Math.sqrt(total)) < 2);
});

test("where no peak is, none is told, and nothing hangs", () => {
  assert.equal(fit_peak({ counts: [], low: 0, bin_width: 1 }), null);
  assert.equal(fit_peak({ counts: new Array<number>(50).fill(0), low: 0, bin_width: 1 }), null);
  assert.equal(fit_peak({ counts: [5, 3, 4], low: 0, bin_width: 1 }), null);
  const random = chance(8);
  for (let round = 0; round < 200; round++) {
    const counts = Array.from({ length: 8 + Math.floor(random() * 40) }, () =>
      random() < 0.5 ? 0 : Math.floor(10 ** (random() * 6)),
    );
    const peak = fit_peak({ counts, low: -3, bin_width: 0.5 });
    assert.ok(!peak || [peak.centroid.value, peak.fwhm.value, peak.net_area.value].every(Number.isFinite));
  }
});

test("the integral of the normal distribution", () => {
  for (const [at, integral] of [
    [0, 0.5],
    [1, 0.841344746],
    [-1.959963985, 0.025],
    [3, 0.998650102],
    [-5, 2.866516e-7],
  ] as const) {
    assert.ok(Math.abs(normal_integral(at) - integral) < 2e-7 * Math.max(integral, 1e-3) + 1e-10, String(at));
  }
});

test("a figure of merit is found with its error", () => {
  const random = chance(4);
  const truth = (0.26 - 0.13) / (FWHM_PER_SIGMA * (0.022 + 0.015));
  const figures: number[] = [];
  let deviation = 0;
  for (let round = 0; round < 60; round++) {
    const counts = new Array<number>(256).fill(0);
    for (let hit = 0; hit < 12_000; hit++) {
      const psd = random() < 0.3 ? 0.26 + 0.022 * normal(random) : 0.13 + 0.015 * normal(random);
      const bin = Math.floor(psd * 256);
      counts[bin] = (counts[bin] ?? 0) + 1;
    }
    const merit = figure_of_merit({ counts, low: 0, bin_width: 1 / 256 });
    assert.ok(merit?.goodness.fits, merit ? fit_fact(merit.goodness) : "no two bands");
    figures.push(merit.figure.value);
    deviation += merit.figure.deviation / 60;
  }
  const mean = figures.reduce((sum, each) => sum + each, 0) / figures.length;
  const spread = Math.sqrt(figures.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (figures.length - 1));
  assert.ok(Math.abs(mean - truth) < 0.01 * truth, `${mean} for ${truth}`);
  assert.ok(spread / deviation > 0.7 && spread / deviation < 1.35, `spread ${spread}, told ${deviation}`);
});

test("one band has no figure of merit", () => {
  const random = chance(6);
  const counts = new Array<number>(128).fill(0);
  for (let hit = 0; hit < 20_000; hit++) {
    const bin = Math.floor(60 + 8 * normal(random));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  assert.equal(figure_of_merit({ counts, low: 0, bin_width: 1 }), null);
});

test("a matrix times its inverse is one; one that has none is refused", () => {
  const matrix = [4, 1, 0.5, 1, 3, 0.2, 0.5, 0.2, 2];
  const inverted = inverse(matrix, 3);
  assert.ok(inverted);
  for (let row = 0; row < 3; row++) {
    for (let column = 0; column < 3; column++) {
      let sum = 0;
      for (let k = 0; k < 3; k++) sum += (matrix[row * 3 + k] ?? 0) * (inverted[k * 3 + column] ?? 0);
      assert.ok(Math.abs(sum - (row === column ? 1 : 0)) < 1e-12);
    }
  }
  assert.equal(inverse([1, 2, 2, 4], 2), null);
});
