// Boards × channels, one cell each: colour is the rate, a hollow cell is silent.

import { rate } from "../figures/quantity.js";
import { h, Keyed, set, set_text } from "../parts/element.js";
import type { ChannelState, SourceState } from "../live/generated.js";
import { cividis_style, place_on } from "./colours.js";

interface Row {
  name: string;
  channels: ChannelState[];
}

/** The grid of channels; each cell leads to its spectrum. */
export class ChannelCells {
  readonly root = h("div", {
    class: "cells",
    role: "group",
    "aria-label": "Rate of each channel",
    onkeydown: (event: KeyboardEvent) => this.#move(event),
  });
  readonly #rows: Keyed<Row>;
  readonly #cells = new WeakMap<Element, Keyed<ChannelState>>();
  #most = 0;

  constructor(private readonly address: (channel: number) => string) {
    this.#rows = new Keyed<Row>(
      this.root,
      ({ name }) => name,
      ({ name }) => this.#make_row(name),
      (element, { channels }) => this.#fill(element, channels),
    );
  }

  /** Shows these sources; answers the highest rate of a channel. */
  show(sources: readonly SourceState[]): number {
    const rows = sources.filter(({ channels }) => channels.length > 0);
    this.#most = Math.max(0, ...rows.flatMap(({ channels }) => channels.map(({ rate_hz }) => rate_hz ?? 0)));
    this.#rows.show(rows);
    if (!this.root.querySelector(".cell[tabindex='0']"))
      this.root.querySelector(".cell")?.setAttribute("tabindex", "0");
    return this.#most;
  }

  // The grid is one stop on the way through the page; arrows go from cell to cell.
  #move(event: KeyboardEvent): void {
    const at = document.activeElement;
    const row = at?.parentElement?.parentElement;
    if (!at || !row) return;
    const column = [...(at.parentElement?.children ?? [])].indexOf(at);
    const beside = (other: Element | null | undefined) => other?.lastElementChild?.children[column];
    const next = {
      ArrowRight: at.nextElementSibling,
      ArrowLeft: at.previousElementSibling,
      ArrowDown: beside(row.nextElementSibling),
      ArrowUp: beside(row.previousElementSibling),
    }[event.key];
    if (!(next instanceof HTMLElement)) return;
    event.preventDefault();
    at.setAttribute("tabindex", "-1");
    next.tabIndex = 0;
    next.focus();
  }

  #fill(row: Element, channels: readonly ChannelState[]): void {
    this.#cells.get(row)?.show(channels);
    const cells = row.lastElementChild;
    if (cells instanceof HTMLElement)
      cells.style.setProperty("--columns", String(Math.min(Math.max(channels.length, 16), 64)));
  }

  #make_row(name: string): Element {
    const cells = h("div", { class: "row-cells" });
    const row = h(
      "div",
      { class: "row", role: "group", "aria-label": name },
      h("span", { class: "row-name", "aria-hidden": "true", title: name }, name),
      cells,
    );
    this.#cells.set(
      row,
      new Keyed<ChannelState>(
        cells,
        ({ channel }) => String(channel),
        (channel) => this.#make_cell(channel),
        (cell, channel) => this.#show_cell(cell as HTMLElement, channel),
      ),
    );
    return row;
  }

  #make_cell({ channel }: ChannelState): Element {
    return h("a", { class: "cell", href: this.address(channel), tabindex: -1 });
  }

  #show_cell(cell: HTMLElement, { channel, name, group, rate_hz }: ChannelState): void {
    const is_silent = rate_hz === 0;
    // Three decades: below that a channel counts as nearly silent.
    const colour = !rate_hz ? "" : cividis_style(0.04 + 0.96 * place_on(rate_hz, this.#most / 1000, this.#most, true));
    if (cell.style.backgroundColor !== colour) cell.style.backgroundColor = colour;
    cell.classList.toggle("silent", is_silent);
    const called = name !== String(channel) ? `${name} (channel ${channel})` : `channel ${channel}`;
    const hint = `${called}${group ? `, group ${group}` : ""}: ${is_silent ? "silent" : rate(rate_hz)}`;
    set(cell, "title", hint);
    set(cell, "aria-label", hint);
  }
}

/** The bar that says what the colours of the cells mean. */
export class RateBar {
  readonly root = h("div", { class: "ratebar", "aria-hidden": "true" });
  readonly #low = h("span");
  readonly #high = h("span");

  constructor() {
    const steps = Array.from({ length: 24 }, (_, index) => {
      const step = h("i");
      step.style.backgroundColor = cividis_style(index / 23);
      return step;
    });
    this.root.append(
      h("span", { class: "key-silent" }),
      "silent",
      this.#low,
      h("span", { class: "steps" }, ...steps),
      this.#high,
    );
  }

  /** The ends of the scale. */
  show(most: number): void {
    set_text(this.#low, most > 0 ? rate(most / 1000) : "");
    set_text(this.#high, most > 0 ? rate(most) : "");
  }
}
