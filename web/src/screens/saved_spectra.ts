// Spectra of runs that were recorded before, to lay under those that grow now.
//
//   /api/runs/{name}/files/spectra.json (UHI) ──► counts of the same spectrum: of its name, place and channel

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

/** All spectra of one axis of a recorded run; asked once. Planes are much larger, and nobody asks for them. */
export function saved_spectra(run: string): Promise<Record<string, SavedHistogram>> {
  let found = kept.get(run);
  if (!found) {
    found = get<Record<string, SavedHistogram>>(`/api/runs/${encodeURIComponent(run)}/files/spectra.json`).then((all) =>
      Object.fromEntries(Object.entries(all).filter(([, { axes }]) => axes.length === 1)),
    );
    kept.set(run, found);
    found.catch(() => kept.delete(run));
    const [oldest] = kept.keys();
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
  }
  return found;
}

/** The counts of one spectrum in a recorded run; `null` when that run had none with this name and these bins. */
export async function saved_counts(run: string, spectrum: Spectrum): Promise<number[] | null> {
  const found = same_spectrum(await saved_spectra(run), spectrum);
  const counts = found ? inner_counts(found) : null;
  return counts && counts.length === spectrum.axes[0]?.bins ? counts : null;
}

/** The saved histogram of a spectrum. Names are not enough: two channels may have the same one. */
export function same_spectrum(
  saved: Record<string, SavedHistogram>,
  { name, at, channel }: Pick<Spectrum, "name" | "at" | "channel">,
): SavedHistogram | undefined {
  const is_same = ({ metadata }: SavedHistogram) =>
    metadata?.name === name && metadata.at === at && (metadata.channel ?? null) === channel;
  return Object.values(saved).find(is_same);
}

/** The counts of a histogram of one axis, without those beside it. */
export function inner_counts({ axes, storage }: SavedHistogram): number[] | null {
  const [axis] = axes;
  if (!axis || axes.length !== 1) return null;
  const values = storage.values as number[];
  return values.slice(axis.underflow ? 1 : 0, axis.overflow ? values.length - 1 : values.length);
}
