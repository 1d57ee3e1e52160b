// The flow picture in the page: elements are kept and moved, so that hints stay open and nothing flickers.

import type { Flow } from "../live/lanes.js";
import { on_resize, set, set_text, svg } from "../parts/element.js";
import { lay_out, type Band, type FlowPicture, type Gate, type Gauge, type Label } from "./flow_layout.js";

/** The flow from boards to disk. */
export class FlowDrawing {
  readonly root = svg("svg", { class: "flow", role: "img" });
  readonly #bands = svg("g");
  readonly #gauges = svg("g");
  readonly #gates = svg("g");
  readonly #labels = svg("g");
  #width = 0;
  #flow: Flow | null = null;

  constructor(holder: HTMLElement) {
    this.root.append(this.#bands, this.#gates, this.#gauges, this.#labels);
    holder.append(this.root);
    on_resize(holder, (width) => {
      this.#width = width;
      if (this.#flow) this.show(this.#flow);
    });
  }

  /** Draws this flow. */
  show(flow: Flow): void {
    this.#flow = flow;
    if (this.#width === 0) return;
    const picture = lay_out(flow, this.#width);
    set(this.root, "viewBox", `0 0 ${picture.width} ${picture.height}`);
    set(this.root, "width", picture.width);
    set(this.root, "height", picture.height);
    this.root.classList.toggle("dense", picture.dense);
    set(this.root, "aria-label", spoken(picture));
    // What is lost lies on top: no other band may hide it.
    const order = ["idle", "bypass", "pass", "silent", "filtered", "refused", "lost"];
    const bands = [...picture.bands].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
    keep(this.#bands, bands, () => svg("path", {}, svg("title")), show_band);
    keep(this.#gates, picture.gates, () => svg("rect", { class: "gate", rx: 1.5 }), show_gate);
    keep(
      this.#gauges,
      picture.gauges,
      () => svg("g", { class: "gauge" }, svg("title"), svg("rect", { rx: 3 }), svg("rect", { rx: 3, class: "level" })),
      show_gauge,
    );
    keep(this.#labels, picture.labels, () => svg("text"), show_label);
  }
}

function keep<T>(
  parent: SVGGElement,
  items: readonly T[],
  make: () => SVGElement,
  show: (element: Element, item: T) => void,
): void {
  while (parent.children.length > items.length) parent.lastElementChild?.remove();
  while (parent.children.length < items.length) parent.append(make());
  items.forEach((item, index) => {
    const element = parent.children[index];
    if (element) show(element, item);
  });
}

function show_band(element: Element, { kind, path, title }: Band): void {
  set(element, "class", `band ${kind}`);
  set(element, "d", path);
  if (element.firstElementChild) set_text(element.firstElementChild, title);
}

function show_gate(element: Element, { x, y, width, height }: Gate): void {
  for (const [name, value] of Object.entries({ x, y, width, height })) set(element, name, value.toFixed(1));
}

function show_gauge(element: Element, gauge: Gauge): void {
  const [title, frame, level] = element.children;
  if (!title || !frame || !level) return;
  set_text(title, gauge.title);
  show_gate(frame, gauge);
  const { x, y, width, height, upright } = gauge;
  const part = Math.min(Math.max(gauge.fill, 0), 1);
  show_gate(
    level,
    upright ? { x, y: y + height * (1 - part), width, height: height * part } : { x, y, width: width * part, height },
  );
}

function show_label(element: Element, { kind, x, y, anchor, text }: Label): void {
  set(element, "class", kind);
  set(element, "x", x.toFixed(1));
  set(element, "y", y.toFixed(1));
  set(element, "text-anchor", anchor);
  set_text(element, text);
}

function spoken({ labels }: FlowPicture): string {
  return `Flow from the boards to the disk: ${labels
    .map(({ text }) => text)
    .filter(Boolean)
    .join(", ")}`;
}
