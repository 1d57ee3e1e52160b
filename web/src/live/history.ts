// The last ten minutes of some numbers, one value a second, as lines to draw.

/** How far back. */
export const SPAN_SECONDS = 600;

/** Some numbers over time. Newcomers join with an empty past. */
export class History {
  readonly #times: number[] = [];
  readonly #lines = new Map<string, (number | null)[]>();

  /** Notes values by name, null where one is not known; called often, it keeps one a second. */
  note(now_seconds: number, values: ReadonlyMap<string, number | null>): void {
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

  /** Puts what was known before in front of what was noted here. */
  fill(past: readonly { at_seconds: number; values: ReadonlyMap<string, number | null> }[]): void {
    const first = this.#times[0] ?? Infinity;
    const older = past.filter(({ at_seconds }) => at_seconds < first - 0.5);
    const names = new Set([...older.flatMap(({ values }) => [...values.keys()]), ...this.#lines.keys()]);
    const noted = new Map(this.#lines);
    this.#lines.clear();
    for (const name of names) {
      const before = older.map(({ values }) => values.get(name) ?? null);
      this.#lines.set(name, [...before, ...(noted.get(name) ?? new Array<null>(this.#times.length).fill(null))]);
    }
    this.#times.unshift(...older.map(({ at_seconds }) => at_seconds));
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
