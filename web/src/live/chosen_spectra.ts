// Which spectra of a view are shown: filled at one place, in one unit of energy.

import type { Spectrum } from "./generated_spectra.js";

/** Of the spectra of a view, those filled at one place, in one unit of energy: what is asked for (`"1"` raw, `"0"` keV), else in keV
 *  where every channel is calibrated. */
export function narrowed(list: readonly Spectrum[], at: string | undefined, raw: string | undefined): Spectrum[] {
  const places = new Set<string>(list.map((each) => each.at));
  const place = at && places.has(at) ? at : (["received", "events", "kept"].find((each) => places.has(each)) ?? "");
  const there = list.filter((each) => each.at === place);
  const in_kev = raw === "1" ? false : raw === "0" ? there.some(is_in_kev) : all_calibrated(there);
  return there.every(({ axes, channel }) => channel !== null && axes.length === 1 && axes[0]?.field !== "dt")
    ? there.filter((each) => is_in_kev(each) === in_kev)
    : there;
}

function is_in_kev({ axes }: Spectrum): boolean {
  return axes[0]?.field === "keV";
}

/** Whether every channel with a spectrum of raw energy has one in keV, too. A channel that is not shown would look silent. */
export function all_calibrated(list: readonly Spectrum[]): boolean {
  const calibrated = new Set(list.filter(is_in_kev).map(({ channel }) => channel));
  return calibrated.size > 0 && list.every(({ channel }) => calibrated.has(channel));
}
