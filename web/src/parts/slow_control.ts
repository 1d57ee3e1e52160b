// Slow control: the values of registers and parameters, as they stand and over the last ten minutes.
//
//   state.series ──► a line of facts each │ a plot for each unit, a line for each value, with a gap where it was not known

import { Plot } from "../draw/plot.js";
import { plain, UNKNOWN } from "../figures/quantity.js";
import { ago, AGO_STEPS } from "../figures/time.js";
import type { LiveState, Past, SeriesValue } from "../live/generated.js";
import { History } from "../live/history.js";
import { Facts } from "./controls.js";
import { h } from "./element.js";

/** What was read, kept while other screens are shown. */
const read = new History();
const units = new Map<string, string>();

/** Notes what stands; called with every state, whatever screen is shown. */
export function note_series({ series }: LiveState): void {
  const known = Object.entries(series);
  known.forEach(([name, { unit }]) => units.set(name, unit));
  const values = known.flatMap(([name, { value }]) => (value === null ? [] : [[name, value] as const]));
  if (known.length > 0) read.note(Date.now() / 1000, new Map(values));
}

/** Draws what was before this page was opened, too. */
export function fill_series(now_seconds: number, { ago_seconds, series }: Past): void {
  series.forEach(({ series, unit }) => units.set(series, unit));
  if (series.length === 0) return;
  read.fill(
    ago_seconds.map((ago, place) => ({
      at_seconds: now_seconds - ago,
      values: new Map(series.map(({ series, values }) => [series, values[place] ?? null])),
    })),
  );
}

/** The values as they stand, and their plots. */
export class SlowControl {
  readonly values = new Facts();
  readonly plots = h("div", { class: "series-plots" });
  readonly #of_unit = new Map<string, Plot>();

  /** Shows what stands. */
  show({ series }: LiveState): void {
    this.values.show(Object.entries(series).map(fact));
  }

  /** Draws what was. */
  draw(): void {
    const [times, ...lines] = read.columns();
    const latest = times.at(-1) ?? 0;
    const since = times.map((time) => time - latest);
    const names = read.names();
    const named = lines.map((values, index) => ({ name: names[index] ?? "", values }));
    const unit_of = ({ name }: { name: string }) => units.get(name) ?? "";
    for (const unit of new Set(named.map(unit_of)))
      this.#plot(unit).set(
        since,
        named.filter((line) => unit_of(line) === unit),
      );
  }

  /** Ends the plots. */
  destroy(): void {
    this.#of_unit.forEach((plot) => plot.destroy());
  }

  #plot(unit: string): Plot {
    const known = this.#of_unit.get(unit);
    if (known) return known;
    const plot = new Plot({
      label: `Slow control${unit && `, ${unit}`}, last ten minutes`,
      along_x: ago,
      steps: AGO_STEPS,
      ends: true,
      height: 130,
      about_values: true,
      empty: "values are drawn while they are read",
    });
    this.#of_unit.set(unit, plot);
    this.plots.append(h("h3", {}, unit || "without a unit", plot.readout), plot.root);
    return plot;
  }
}

/** A value: without an SI prefix, which no degree and no per cent takes. */
function fact([name, { value, unit }]: [string, SeriesValue]): readonly [string, string] {
  return [name, value === null ? UNKNOWN : `${plain(Number(value.toPrecision(5)))} ${unit}`.trimEnd()];
}
