// The last ten minutes of some numbers, one value a second, as lines to draw.

/** How far back. */
export const SPAN_SECONDS = 600;

/** Some numbers over time. Newcomers join with an empty past. */
export class History {
  readonly #times: number[] = [];
  readonly #lines = new Map<string, (number | null)[]>();

  /** Notes values by name; called often, it keeps one a second. */
  note(now_seconds: number, values: ReadonlyMap<string, number>): void {
    const latest = this.#times.at(-1);
    if (latest !== undefined && now_seconds - latest < 0.95) return;
    for (const name of values.keys()) {
      if (!this.#lines.has(name)) this.#lines.set(name, new Array<null>(this.#times.length).fill(null));
    }
    this.#times.push(now_seconds);
    this.#lines.forEach((line, name) => line.push(values.get(name) ?? null));
    while ((this.#times[0] ?? now_seconds) < now_seconds - SPAN_SECONDS) {
      this.#times.shift();
      this.#lines.forEach((line) => line.shift());
    }
  }

  /** The names, in the order in which they came. */
  names(): string[] {
    return [...this.#lines.keys()];
  }

  /** Times in seconds, and one line per name. */
  columns(): [number[], ...(number | null)[][]] {
    return [this.#times, ...this.#lines.values()];
  }
}
