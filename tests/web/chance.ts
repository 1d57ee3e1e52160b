// Chance from a seed, and what is drawn with it: normal and Poisson numbers.

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), 1 | state);
    word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word;
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Of the normal distribution. */
export function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Of Poisson's distribution: exact below 30, rounded normal above. */
export function poisson(mean: number, random: () => number): number {
  if (mean > 30) return Math.max(Math.round(mean + Math.sqrt(mean) * normal(random)), 0);
  let [count, product] = [0, random()];
  for (const floor = Math.exp(-mean); product > floor; count++) product *= random();
  return count;
}
