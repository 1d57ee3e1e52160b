// The parameters under which counts are likeliest, with their errors.
//
//   counts, model(parameters) ──► parameters, covariance, and whether the model fits at all
//
// Counts follow Poisson's balance equation, also where they are few: least squares with √n errors would pull every area down. So the
// likelihood is climbed (Fisher's scoring, damped as Levenberg and Marquardt do); the errors are its curvature at the top.
// Deviance: Baker and Cousins, NIM 221 (1984) 437; near χ² with (bins − parameters) degrees of freedom for a true model.

import { inverse } from "./solve.js";

/** A model of counts: the expected count of each bin, and by parameter how it changes. */
export interface Model {
  /** Writes the expectation of every bin, and row after row its derivatives; answers whether the parameters can be meant. */
  (parameters: readonly number[], expected: Float64Array, derivatives: Float64Array): boolean;
}

/** The top of the likelihood. */
export interface Likeliest {
  parameters: number[];
  /** Row after row. */
  covariance: number[];
  goodness: Goodness;
}

/** How well a model describes counts. */
export interface Goodness {
  /** Deviance per degree of freedom, a reduced χ²: near 1 for a true model. NaN where too few counts are there to tell. */
  reduced: number;
  degrees_of_freedom: number;
  /** Whether the model may be believed: its parameters, and above all their errors. */
  fits: boolean;
}

// Neighbouring bins are joined until the model expects so many counts: below that, a deviance is no χ², and hundreds of bins
// where nothing is expected and nothing came would make any model look true.
const LEAST_EXPECTED = 5;
// A reduced χ² beyond this is a wrong model; with few degrees of freedom, beyond four standard deviations of χ².
const WORST_REDUCED = 2;
const WORST_DEVIATIONS = 4;

/** Says whether counts are what a fitted model with so many parameters expects. */
export function goodness(counts: ArrayLike<number>, expected: Float64Array, parameters: number): Goodness {
  const joined: [counts: number, expected: number][] = [];
  let [n, mean] = [0, 0];
  for (let bin = 0; bin < expected.length; bin++) {
    n += counts[bin] ?? 0;
    mean += Math.max(expected[bin] ?? 0, LEAST);
    if (mean < LEAST_EXPECTED) continue;
    joined.push([n, mean]);
    [n, mean] = [0, 0];
  }
  const last = joined.at(-1);
  if (last) joined[joined.length - 1] = [last[0] + n, last[1] + mean];
  const degrees_of_freedom = joined.length - parameters;
  if (degrees_of_freedom < 1) return { reduced: NaN, degrees_of_freedom: 0, fits: false };
  const reduced = joined.reduce((sum, [n, mean]) => sum + deviance_of(n, mean), 0) / degrees_of_freedom;
  const worst = Math.max(WORST_REDUCED, 1 + WORST_DEVIATIONS * Math.sqrt(2 / degrees_of_freedom));
  return { reduced, degrees_of_freedom, fits: reduced <= worst };
}

/** Why the numbers of a fit are not told, or `""` where they may be believed. */
export function why_unfit({ reduced, degrees_of_freedom, fits }: Goodness): string {
  if (fits) return "";
  return Number.isNaN(reduced)
    ? "too few counts to tell whether the model fits"
    : `model does not fit: χ²/ν = ${reduced < 100 ? reduced.toFixed(1) : reduced.toFixed(0)} with ν = ${degrees_of_freedom}`;
}

/** Whether a fit may be believed, in a few words. */
export function fit_fact(goodness: Goodness): string {
  return why_unfit(goodness) || `fits, χ²/ν = ${goodness.reduced.toFixed(2)}`;
}

// An expectation at or below zero has no likelihood; this stands for "almost nothing".
const LEAST = 1e-6;
const MOST_STEPS = 100;

/** Climbs from `start`. `null` when the counts do not determine the parameters. */
export function climb(counts: ArrayLike<number>, start: readonly number[], model: Model): Likeliest | null {
  const [bins, size] = [counts.length, start.length];
  let parameters = [...start];
  let [expected, derivatives] = [new Float64Array(bins), new Float64Array(bins * size)];
  if (bins <= size || !model(parameters, expected, derivatives)) return null;
  let best = deviance(counts, expected);
  let damping = 1e-3;
  for (let step = 0; step < MOST_STEPS && damping < 1e10; step++) {
    const moved = stepped(counts, parameters, expected, derivatives, damping);
    if (!moved) return null;
    const [expected_there, derivatives_there] = [new Float64Array(bins), new Float64Array(bins * size)];
    const there = model(moved, expected_there, derivatives_there) ? deviance(counts, expected_there) : Infinity;
    if (!(there <= best)) {
      damping *= 10;
      continue;
    }
    const gain = best - there;
    [parameters, expected, derivatives, best] = [moved, expected_there, derivatives_there, there];
    damping = Math.max(damping / 10, 1e-12);
    if (gain < 1e-7 * (1 + best)) break;
  }
  const covariance = inverse(information(expected, derivatives, size), size);
  if (!covariance || parameters.some((each) => !Number.isFinite(each))) return null;
  return { parameters, covariance, goodness: goodness(counts, expected, size) };
}

function deviance(counts: ArrayLike<number>, expected: Float64Array): number {
  let sum = 0;
  for (let bin = 0; bin < expected.length; bin++) {
    sum += deviance_of(counts[bin] ?? 0, Math.max(expected[bin] ?? 0, LEAST));
  }
  return sum;
}

function deviance_of(n: number, mean: number): number {
  return 2 * (mean - n + (n > 0 ? n * Math.log(n / mean) : 0));
}

function information(expected: Float64Array, derivatives: Float64Array, size: number): number[] {
  const matrix = new Array<number>(size * size).fill(0);
  for (let bin = 0; bin < expected.length; bin++) {
    const weight = 1 / Math.max(expected[bin] ?? 0, LEAST);
    for (let row = 0; row < size; row++) {
      const left = (derivatives[bin * size + row] ?? 0) * weight;
      for (let column = 0; column < size; column++) {
        matrix[row * size + column] =
          (matrix[row * size + column] ?? 0) + left * (derivatives[bin * size + column] ?? 0);
      }
    }
  }
  return matrix;
}

function stepped(
  counts: ArrayLike<number>,
  parameters: readonly number[],
  expected: Float64Array,
  derivatives: Float64Array,
  damping: number,
): number[] | null {
  const size = parameters.length;
  const matrix = information(expected, derivatives, size);
  const slope = new Array<number>(size).fill(0);
  for (let bin = 0; bin < expected.length; bin++) {
    const mean = Math.max(expected[bin] ?? 0, LEAST);
    const pull = ((counts[bin] ?? 0) - mean) / mean;
    for (let row = 0; row < size; row++) slope[row] = (slope[row] ?? 0) + pull * (derivatives[bin * size + row] ?? 0);
  }
  for (let row = 0; row < size; row++) {
    const diagonal = matrix[row * size + row] ?? 0;
    matrix[row * size + row] = diagonal * (1 + damping) + 1e-300;
  }
  const inverted = inverse(matrix, size);
  if (!inverted) return null;
  return parameters.map((value, row) => {
    let change = 0;
    for (let column = 0; column < size; column++) change += (inverted[row * size + column] ?? 0) * (slope[column] ?? 0);
    return value + change;
  });
}
