// System: threads and cores, memory, rings, checks of the host, counters of kernel and network card, and the configuration.
//
// What the server tells of the machine differs from machine to machine: known parts are drawn, all others are listed by name.

import { share, quantity } from "../figures/quantity.js";
import { value_in_words } from "../figures/named_value.js";
import { of_line } from "../draw/colours.js";
import { change_of, text_of } from "../live/configuration.js";
import type { LiveState } from "../live/generated.js";
import { get, in_words } from "../live/requests.js";
import { are_checks, checks_table } from "../parts/checks.js";
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
  const changed = h("p", { class: "quiet configuration-change" });
  const root = h(
    "div",
    { class: "screen system-screen" },
    panel("Rings and pools", "wide", [], rings.root),
    parts,
    panel("Log", "messages-panel", [], messages.root),
    panel(
      "Configuration",
      "wide",
      [button("copy", () => void copy(configuration.textContent ?? "", "configuration"))],
      changed,
      configuration,
    ),
  );
  const read = () =>
    get<unknown>("/api/configuration").then(
      (answer) => {
        const change = change_of(answer);
        set_text(configuration, text_of(answer));
        set_text(changed, change?.words ?? "In use, and as the file is.");
        changed.classList.toggle("refusal", change?.is_wrong ?? false);
      },
      (error: unknown) => set_text(configuration, in_words(error)),
    );
  void read();
  const told = new Parts(parts);
  const look = () =>
    get<Fields>("/api/system").then(
      (now) => told.show(now),
      (error: unknown) => told.none(`nothing is told of the system: ${in_words(error)}`),
    );
  void look();
  const timer = window.setInterval(() => {
    void look();
    void read();
  }, EVERY_MS);
  return {
    root,
    update({ state }) {
      rings.show(state);
      messages.show(state);
    },
    leave: () => clearInterval(timer),
  };
};

// One panel per part; of these, only those are made anew whose words have changed.
class Parts {
  readonly #list: Keyed<readonly [string, unknown]>;
  readonly #written = new WeakMap<Element, string>();
  #before: { at_ms: number; ran: Map<string, number> } | null = null;

  constructor(private readonly holder: HTMLElement) {
    this.#list = new Keyed<readonly [string, unknown]>(
      holder,
      ([name]) => name,
      ([name, value]) => panel(title(name), is_wide(value) ? "wide" : "", [], h("div")),
      (element, part) => this.#update(element, part),
    );
  }

  /** Shows what is told. */
  show(told: Fields): void {
    const { plan, ...rest } = told;
    const planned =
      typeof plan === "object" && plan !== null
        ? Object.entries(plan as Fields).map(([name, value]) => [`plan: ${name}`, value] as const)
        : [];
    const all = [...Object.entries({ ...rest, threads: this.#with_busy(rest.threads) }), ...planned];
    const scalars = all.filter(([, value]) => value !== undefined && (typeof value !== "object" || value === null));
    const others = all.filter(
      ([, value]) => typeof value === "object" && value !== null && (!Array.isArray(value) || value.length > 0),
    );
    this.#list.show([["host", Object.fromEntries(scalars)], ...others]);
  }

  /** Says that nothing is told. */
  none(why: string): void {
    if (this.holder.children.length === 0) this.holder.append(h("p", { class: "empty" }, why));
  }

  #update(element: Element, [name, value]: readonly [string, unknown]): void {
    const written = JSON.stringify(value);
    if (this.#written.get(element) === written) return;
    this.#written.set(element, written);
    element.lastElementChild?.replaceWith(known(name, value));
  }

  // Threads tell how long they ran since they began; how busy they are is seen from two looks.
  #with_busy(threads: unknown): unknown {
    if (!Array.isArray(threads) || !threads.every((each: Fields | null) => typeof each?.ran_seconds === "number"))
      return threads;
    const now = { at_ms: performance.now(), ran: new Map<string, number>() };
    const before = this.#before;
    const lines = (threads as Fields[]).map(({ ran_seconds, ...rest }, index) => {
      const key = `${index} ${String(rest.name)}`;
      now.ran.set(key, Number(ran_seconds));
      const earlier = before?.ran.get(key);
      const busy_share =
        before && earlier !== undefined
          ? Math.max(Number(ran_seconds) - earlier, 0) / ((now.at_ms - before.at_ms) / 1000)
          : null;
      return { ...rest, busy_share: busy_share === null ? null : Math.round(busy_share * 1000) / 1000, ran_seconds };
    });
    this.#before = now;
    return lines;
  }
}

function title(name: string): string {
  return name.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());
}

function is_wide(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.some((each) => typeof each === "object" && each !== null && Object.keys(each as Fields).length > 4)
  );
}

function known(name: string, value: unknown): HTMLElement {
  if (/budget$/.test(name)) {
    const budget = as_budget(value);
    if (budget) return budget_bar(budget);
  }
  if (are_checks(value)) return checks_table(value);
  if (Array.isArray(value)) return rows(value);
  return list(value as Fields);
}

// Memory as a list of named parts, or as an object of them. Parts with one purpose are one.
function as_budget(value: unknown): [string, number][] | null {
  const parts = Array.isArray(value)
    ? value.map((each: Fields): [string, number] => [String(each.purpose ?? each.name ?? ""), Number(each.bytes)])
    : Object.entries(value as Fields).map(([name, bytes]): [string, number] => [name, Number(bytes)]);
  if (parts.length === 0 || !parts.every(([, bytes]) => Number.isFinite(bytes))) return null;
  const sums = new Map<string, number>();
  for (const [name, bytes] of parts) sums.set(name, (sums.get(name) ?? 0) + bytes);
  return [...sums].sort(([, a], [, b]) => b - a);
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

// Columns that are read in this order; others follow, words before numbers, and advice is last.
const IN_ORDER = [...["name", "source", "stage", "unit"], ...["in", "out", "overhead", "filtered", "held", "lost"]];

// A list of things with the same fields is a table.
function rows(values: readonly unknown[]): HTMLElement {
  const fields = values.filter((each): each is Fields => typeof each === "object" && each !== null);
  if (fields.length === 0)
    return h("p", { class: "quiet" }, values.length > 0 ? values.map(String).join(", ") : "none");
  const rank = (name: string) => {
    const known = IN_ORDER.indexOf(name);
    return known >= 0 ? known : IN_ORDER.length + (typeof fields[0]?.[name] === "string" ? 0 : 1);
  };
  const names = [...new Set(fields.flatMap((each) => Object.keys(each)))].sort((a, b) =>
    a === "advice" ? 1 : b === "advice" ? -1 : rank(a) - rank(b),
  );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...names.map((name) =>
            h(
              "th",
              { scope: "col", class: typeof fields[0]?.[name] === "number" ? "number" : "" },
              name.replace(/_(hz|bytes|seconds|share|fill|ns|ps)$/, "").replaceAll("_", " "),
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        ...fields.map((each) =>
          h(
            "tr",
            {},
            ...names.map((name) =>
              h("td", { class: typeof each[name] === "number" ? "number" : "" }, value_in_words(name, each[name])),
            ),
          ),
        ),
      ),
    ),
  );
}

function list(fields: Fields): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    ...Object.entries(fields).map(([name, value]) =>
      h(
        "div",
        {},
        h("dt", {}, name.replace(/_(hz|bytes|seconds|share|fill|ns|ps)$/, "").replaceAll("_", " ")),
        h("dd", {}, value_in_words(name, value)),
      ),
    ),
  );
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
  readonly #list = new Keyed<Ring>(
    this.#rows,
    ({ name }) => name,
    ({ name }) => h("div", { class: "ring" }, h("span", {}, name), h("span", { class: "ring-bar" }, h("i")), h("b")),
    (row, { fill }) => {
      const level = row.querySelector("i");
      if (level) level.style.width = `${(fill * 100).toFixed(1)}%`;
      const value = row.querySelector("b");
      if (value) set_text(value, share(fill));
    },
  );

  constructor() {
    this.root.append(this.#none, this.#rows);
  }

  /** Shows those of a state. */
  show({ sources, flow }: LiveState): void {
    const of_sources = sources.flatMap(({ name, ring_fill, pool_fill }) => [
      { name: `${name}, ring`, fill: ring_fill },
      { name: `${name}, pool`, fill: pool_fill },
    ]);
    const of_flow = flow.map(({ stage, ring_fill }) => ({ name: `behind ${stage}`, fill: ring_fill }));
    const told = [...of_flow, ...of_sources].filter((ring): ring is Ring => typeof ring.fill === "number");
    show(this.#none, told.length === 0);
    this.#list.show(told);
  }
}
