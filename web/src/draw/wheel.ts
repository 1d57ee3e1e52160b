// Zooming with the wheel: what is under the pointer stays there.

/** By how much one turn of the wheel makes a range longer. */
export function wheel_factor(turned: number): number {
  const PER_TURN = 1.25;
  return turned > 0 ? PER_TURN : turned < 0 ? 1 / PER_TURN : 1;
}

/** A range made longer or shorter about a value, within `whole`; `null` when that is all of it. */
export function scaled(
  [low, high]: readonly [number, number],
  about: number,
  factor: number,
  whole: readonly [number, number],
): [number, number] | null {
  const from = Math.max(about - (about - low) * factor, whole[0]);
  const until = Math.min(about + (high - about) * factor, whole[1]);
  return from <= whole[0] && until >= whole[1] ? null : [from, until];
}
