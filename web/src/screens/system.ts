// System: threads and cores, memory, rings, checks of the host, counters of kernel and network card, and the configuration.
//
// What the server tells of the machine differs from machine to machine: known parts are drawn, all others are listed by name.

import { share, quantity } from "../figures/quantity.js";
import { value_in_words } from "../figures/named_value.js";
import { of_line } from "../draw/colours.js";
import { text_of } from "../live/configuration.js";
import { get, in_words } from "../live/requests.js";
import type { State } from "../live/state.js";
import { button, copy, panel } from "../parts/controls.js";
import { h, Keyed, set_text, show } from "../parts/element.js";
import { Messages } from "../parts/messages.js";
import type { MakeScreen } from "./screen.js";

type Fields = Record<string, unknown>;
const EVERY_MS = 2000;

/** Makes the screen. */
export const system_screen: MakeScreen = () => {
  const parts = h("div", { class: "system-parts" });
  const rings = new Rings();
  const messages = new Messages();
  const configuration = h("pre", { class: "configuration", tabindex: 0 }, "asking …");
  const root = h("div", { class: "screen system-screen" },
    panel("Rings and pools", "wide", [], rings.root), parts,
    panel("Log", "messages-panel", [], messages.root),
    panel("Configuration", "wide", [button("copy", () => void copy(configuration.textContent ?? "", "configuration"))], configuration));
  get<unknown>("/api/configuration").then((told) => set_text(configuration, text_of(told)), (error: unknown) => set_text(configuration, in_words(error)));
  const look = () => get<Fields>("/api/system").then((told) => draw(parts, told), (error: unknown) => {
    if (parts.children.length === 0) parts.replaceChildren(h("p", { class: "empty" }, `nothing is told of the system: ${in_words(error)}`));
  });
  void look();
  const timer = window.setInterval(() => void look(), EVERY_MS);
  return {
    root,
    update({ state }) {
      rings.show(state);
      messages.show(state);
    },
    leave: () => clearInterval(timer),
  };
};

// Redrawn as a whole, twice a minute at most visible: the words change, the places do not.
function draw(parts: HTMLElement, told: Fields): void {
  const scalars = Object.entries(told).filter(([, value]) => typeof value !== "object" || value === null);
  const others = Object.entries(told).filter(([, value]) => typeof value === "object" && value !== null);
  const panels = others.map(([name, value]) => panel(title(name), name, [], known(name, value)));
  if (scalars.length > 0) panels.unshift(panel("Host", "", [], list(Object.fromEntries(scalars))));
  parts.replaceChildren(...panels);
}

function title(name: string): string {
  return name.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());
}

function known(name: string, value: unknown): HTMLElement {
  if (name === "memory" || name === "budget") {
    const budget = as_budget(value);
    if (budget) return budget_bar(budget);
  }
  if (Array.isArray(value)) return rows(value);
  return list(value as Fields);
}

// Memory as a list of named parts, or as an object of them.
function as_budget(value: unknown): [string, number][] | null {
  if (Array.isArray(value)) {
    const parts = value.map((each: Fields): [string, number] => [String(each.name ?? ""), Number(each.bytes)]);
    return parts.every(([, bytes]) => Number.isFinite(bytes)) ? parts : null;
  }
  const parts = Object.entries(value as Fields);
  return parts.every(([, bytes]) => typeof bytes === "number") ? (parts as [string, number][]) : null;
}

function budget_bar(budget: readonly [string, number][]): HTMLElement {
  const total = budget.reduce((sum, [, bytes]) => sum + bytes, 0);
  const bar = h("div", { class: "budget", role: "img", "aria-label": "Memory by part" });
  const legend = h("dl", { class: "facts" });
  budget.forEach(([name, bytes], index) => {
    const part = h("i", { title: `${name}: ${quantity(bytes, "B")}` });
    part.style.flexGrow = String(bytes);
    part.style.backgroundColor = of_line(index);
    bar.append(part);
    const key = h("i", { class: "key" });
    key.style.backgroundColor = of_line(index);
    legend.append(h("div", {}, h("dt", {}, key, name.replaceAll("_", " ")), h("dd", {}, `${quantity(bytes, "B")}`)));
  });
  legend.append(h("div", {}, h("dt", {}, "together"), h("dd", {}, quantity(total, "B"))));
  return h("div", {}, bar, legend);
}

// A list of things with the same fields is a table; "ok" is said by a sign.
function rows(values: readonly unknown[]): HTMLElement {
  const fields = values.filter((each): each is Fields => typeof each === "object" && each !== null);
  if (fields.length === 0) return h("p", { class: "quiet" }, values.length > 0 ? values.map(String).join(", ") : "none");
  const names = [...new Set(fields.flatMap((each) => Object.keys(each)))];
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col", class: typeof fields[0]?.[name] === "number" ? "number" : "" }, name.replace(/_(hz|bytes|seconds|share|fill|ns|ps)$/, "").replaceAll("_", " "))))),
    h("tbody", {}, ...fields.map((each) => h("tr", {}, ...names.map((name) => h("td", { class: typeof each[name] === "number" ? "number" : "" }, value_in_words(name, each[name]))))))));
}

function list(fields: Fields): HTMLElement {
  return h("dl", { class: "facts" }, ...Object.entries(fields).map(([name, value]) =>
    h("div", {}, h("dt", {}, name.replace(/_(hz|bytes|seconds|share|fill|ns|ps)$/, "").replaceAll("_", " ")), h("dd", {}, value_in_words(name, value)))));
}

interface Ring {
  name: string;
  fill: number;
}

/** How full every ring and pool is. */
class Rings {
  readonly root = h("div", { class: "rings" });
  readonly #none = h("p", { class: "quiet" }, "no ring is told: nothing runs");
  readonly #rows = h("div", { class: "ring-rows" });
  readonly #list = new Keyed<Ring>(this.#rows, ({ name }) => name, ({ name }) => h("div", { class: "ring" }, h("span", {}, name), h("span", { class: "ring-bar" }, h("i")), h("b")), (row, { fill }) => {
    const level = row.querySelector("i");
    if (level) level.style.width = `${(fill * 100).toFixed(1)}%`;
    const value = row.querySelector("b");
    if (value) set_text(value, share(fill));
  });

  constructor() {
    this.root.append(this.#none, this.#rows);
  }

  /** Shows those of a state. */
  show({ sources = [], flow = [] }: State): void {
    const of_sources = sources.flatMap(({ name, ring_fill, pool_fill }) => [{ name: `${name}, ring`, fill: ring_fill }, { name: `${name}, pool`, fill: pool_fill }]);
    const of_flow = flow.map(({ stage, ring_fill }) => ({ name: `behind ${stage}`, fill: ring_fill }));
    const told = [...of_flow, ...of_sources].filter((ring): ring is Ring => ring.fill !== undefined);
    show(this.#none, told.length === 0);
    this.#list.show(told);
  }
}
