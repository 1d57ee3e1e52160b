// Triggered boards by completeness: which one is missing? A cell fills from below; what is missing stays red.

import type { Completeness } from "../live/state.js";
import { count, share } from "../figures/quantity.js";
import { h, Keyed, set, set_text } from "./element.js";

/** The grid of boards. */
export class Boards {
  readonly root = h("div", { class: "boards", role: "list", "aria-label": "Completeness of each board" });
  readonly summary = h("output", { class: "readout" });
  readonly #cells = new Keyed<Completeness>(
    this.root,
    ({ name }) => name,
    ({ name }) => this.#make(name),
    (cell, board) => this.#update(cell, board),
  );

  /** Shows these boards. */
  show(boards: readonly Completeness[]): void {
    this.#cells.show(boards);
    const missing = boards.filter(({ expected, built }) => expected > built);
    const first = [...missing].sort((a, b) => b.expected - b.built - (a.expected - a.built))[0];
    set_text(
      this.summary,
      first
        ? `${missing.length} of ${boards.length} incomplete, most of all ${first.name}`
        : boards.length > 0
          ? `all ${boards.length} complete`
          : "",
    );
    this.summary.classList.toggle("lost", missing.length > 0);
  }

  #make(name: string): Element {
    return h("div", { class: "board", role: "listitem" }, h("i"), h("span", { class: "board-name" }, name), h("b"));
  }

  #update(cell: Element, { name, expected, built, missing }: Completeness): void {
    const part = expected > 0 ? built / expected : NaN;
    const [level, , value] = cell.children;
    if (!(level instanceof HTMLElement) || !value) return;
    const height = Number.isNaN(part) ? "0%" : `${(part * 100).toFixed(1)}%`;
    if (level.style.height !== height) level.style.height = height;
    cell.classList.toggle("unknown", Number.isNaN(part));
    cell.classList.toggle("missing", part < 1);
    set_text(value, Number.isNaN(part) ? "no triggers" : share(part));
    set(
      cell,
      "title",
      `${name}: ${count(built)} of ${count(expected)} fragments came in the last seconds${missing === undefined ? "" : `, ${count(missing)} are missing since the start`}`,
    );
  }
}
