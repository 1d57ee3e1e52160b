// Spectra of runs that were recorded before, to lay under those that grow now.
//
//   /api/runs/{name}/files/spectra.json (UHI) ──► counts of the spectrum with the same name

import { get } from "../live/requests.js";
import type { Spectrum } from "../live/generated_spectra.js";

/** A histogram as the Universal Histogram Interface writes it; only what is read here. */
export interface SavedHistogram {
  axes: { bins?: number; lower?: number; upper?: number; underflow?: boolean; overflow?: boolean }[];
  storage: { values: number[] | number[][] };
  metadata?: { name?: string; kind?: string; at?: string; channel?: number; entries?: number };
}

const kept = new Map<string, Promise<Record<string, SavedHistogram>>>();
const MOST_KEPT = 4;

/** All spectra of a recorded run; asked once. */
export function saved_spectra(run: string): Promise<Record<string, SavedHistogram>> {
  let found = kept.get(run);
  if (!found) {
    found = get<Record<string, SavedHistogram>>(`/api/runs/${encodeURIComponent(run)}/files/spectra.json`);
    kept.set(run, found);
    found.catch(() => kept.delete(run));
    const [oldest] = kept.keys();
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
  }
  return found;
}

/** The counts of one spectrum in a recorded run; `null` when that run had none with this name and these bins. */
export async function saved_counts(run: string, spectrum: Spectrum): Promise<number[] | null> {
  const found = (await saved_spectra(run))[`${spectrum.name} (${spectrum.at})`];
  const counts = found ? inner_counts(found) : null;
  return counts && counts.length === spectrum.axes[0]?.bins ? counts : null;
}

/** The counts of a histogram of one axis, without those beside it. */
export function inner_counts({ axes, storage }: SavedHistogram): number[] | null {
  const [axis] = axes;
  if (!axis || axes.length !== 1) return null;
  const values = storage.values as number[];
  return values.slice(axis.underflow ? 1 : 0, axis.overflow ? values.length - 1 : values.length);
}
