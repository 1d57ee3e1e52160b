// Pulses as they come, and laid over each other: how often each height was seen at each time.

import type { Axis, PulseTrace } from "../live/generated_spectra.js";

/** What is read of a pulse here. */
export type Pulse = Pick<PulseTrace, "time_ps" | "ns_per_sample" | "analog">;

const ROWS = 256;
const MOST_COLUMNS = 1024;

/** All pulses of a channel so far, as a plane of time and height. The plane grows when a pulse leaves it. */
export class Persistence {
  /** How many were added. */
  pulses = 0;
  #latest_ps = -Infinity;
  #columns = 0;
  #ns_per_sample: number | null = null;
  #low = 0;
  #high = 0;
  #counts = new Float64Array(0);

  /** Adds those that are newer than the last; the newest of `pulses` is first. */
  add(pulses: readonly Pulse[]): void {
    for (const pulse of [...pulses].reverse()) {
      const probe = pulse.analog[0];
      if (!probe || probe.length === 0 || pulse.time_ps <= this.#latest_ps) continue;
      this.#latest_ps = pulse.time_ps;
      this.#ns_per_sample = pulse.ns_per_sample;
      this.#make_room(probe);
      const height = (this.#high - this.#low) / ROWS;
      probe.slice(0, this.#columns).forEach((value, column) => {
        const at = Math.floor((value - this.#low) / height) * this.#columns + column;
        this.#counts[at] = (this.#counts[at] ?? 0) + 1;
      });
      this.pulses++;
    }
  }

  /** The plane; `null` as long as there is no pulse. */
  plane(): { x: Axis; y: Axis; counts: Float64Array } | null {
    if (this.pulses === 0) return null;
    const x =
      this.#ns_per_sample === null
        ? { label: "sample", field: "sample", unit: "", bins: this.#columns, low: 0, high: this.#columns }
        : {
            label: "time",
            field: "time",
            unit: "ps",
            bins: this.#columns,
            low: 0,
            high: this.#columns * this.#ns_per_sample * 1000,
          };
    const y = { label: "height", field: "sample", unit: "", bins: ROWS, low: this.#low, high: this.#high };
    return { x, y, counts: this.#counts };
  }

  #make_room(probe: readonly number[]): void {
    const columns = Math.max(this.#columns, Math.min(probe.length, MOST_COLUMNS));
    const [lowest, highest] = [Math.min(...probe), Math.max(...probe)];
    const fits = this.pulses > 0 && columns === this.#columns && lowest >= this.#low && highest < this.#high;
    if (fits) return;
    const margin = Math.max((highest - lowest) * 0.15, 8);
    const [low, high] =
      this.pulses > 0
        ? [Math.min(this.#low, lowest - margin), Math.max(this.#high, highest + margin)]
        : [lowest - margin, highest + margin];
    const grown = new Float64Array(columns * ROWS);
    this.#counts.forEach((n, at) => {
      if (n === 0) return;
      const value = this.#low + ((Math.floor(at / this.#columns) + 0.5) * (this.#high - this.#low)) / ROWS;
      const row = Math.floor(((value - low) / (high - low)) * ROWS);
      const into = row * columns + (at % this.#columns);
      grown[into] = (grown[into] ?? 0) + n;
    });
    [this.#counts, this.#columns, this.#low, this.#high] = [grown, columns, low, high];
  }
}
