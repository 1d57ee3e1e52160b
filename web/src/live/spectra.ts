// The spectra: which there are, and the counts of those that are seen.
//
//   visible ids ──► /api/spectra/counts?ids=1:REV,2:REV ──► frames of what has changed ──► who draws
//
// One request at a time, the next a while after the answer: a slow link is asked less often, never more.

import { frames, type Frame } from "../figures/packed.js";
import type { Spectrum } from "./generated_spectra.js";
import { get, get_bytes, in_words } from "./requests.js";

/** The channel's name alone where others are of its kind; all of the name of what a user has named. */
export function short_name({ name, channel }: Spectrum): string {
  return channel === null ? name : name.replace(/: .*$/, "");
}

/** The list of spectra. */
export async function spectra(): Promise<Spectrum[]> {
  return get<Spectrum[]>("/api/spectra");
}

// More ids make the address of a request longer than servers take.
const MOST_AT_ONCE = 128;

/** As often as an eye follows. */
export const PERIOD_MS = 100;

/** Counts of the spectra that somebody looks at. */
export class CountsFeed {
  readonly #wanted: () => readonly number[];
  readonly #taken: (frames: Frame[]) => void;
  readonly #failed: (words: string) => void;
  readonly #revisions = new Map<number, bigint>();
  readonly #period_ms: () => number;
  #timer = 0;
  #closed = false;

  /** Asks for `wanted()` every `period_ms()`; what has changed goes to `taken`. */
  constructor(
    wanted: () => readonly number[],
    taken: (frames: Frame[]) => void,
    failed: (words: string) => void,
    period_ms = () => PERIOD_MS,
  ) {
    [this.#wanted, this.#taken, this.#failed, this.#period_ms] = [wanted, taken, failed, period_ms];
    void this.#ask();
  }

  /** Ends the asking. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** Forgets what was seen: everything comes anew. */
  forget(): void {
    this.#revisions.clear();
  }

  async #ask(): Promise<void> {
    const began = performance.now();
    const wanted = this.#wanted();
    try {
      for (let from = 0; from < wanted.length && !document.hidden; from += MOST_AT_ONCE) {
        const ids = wanted.slice(from, from + MOST_AT_ONCE).map((id) => {
          const revision = this.#revisions.get(id);
          return revision === undefined ? `${id}` : `${id}:${revision}`;
        });
        const found = frames(await get_bytes(`/api/spectra/counts?ids=${ids.join(",")}`));
        if (this.#closed) return;
        found.forEach((frame) => this.#revisions.set(frame.id, frame.revision));
        this.#taken(found);
      }
      this.#failed("");
    } catch (error) {
      if (this.#closed) return;
      this.#failed(in_words(error));
    }
    if (this.#closed) return;
    const took = performance.now() - began;
    this.#timer = window.setTimeout(() => void this.#ask(), Math.max(this.#period_ms() - took, took, 20));
  }
}
