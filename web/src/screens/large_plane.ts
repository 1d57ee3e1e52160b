// A plane, large: zoom, draw a region, count what is in it, tell how well two bands are apart, and copy the cut.

import { HeatMap, type View } from "../draw/heat.js";
import { scaled } from "../draw/wheel.js";
import { corners, from_corners, from_range, range } from "../figures/address.js";
import { fit_fact } from "../figures/likelihood.js";
import { figure_of_merit, type Merit } from "../figures/merit.js";
import {
  as_name,
  configuration,
  crosses_itself,
  cut_of,
  is_inside,
  rectangle,
  type Point,
} from "../figures/polygon.js";
import { exact, measured, plain, rough, share } from "../figures/quantity.js";
import { bin_width, bins_of, projections } from "../figures/spectrum.js";
import { in_words, post } from "../live/requests.js";
import type { LiveState } from "../live/generated.js";
import type { Spectrum } from "../live/generated_spectra.js";
import { CountsFeed, short_name } from "../live/spectra.js";
import { is_taking } from "../live/state.js";
import { ask_to_apply } from "../parts/applied.js";
import { ChannelTimes } from "../parts/channel_times.js";
import { button, Choice, copy, Facts, notice, panel, segments, Toggle } from "../parts/controls.js";
import { h, set_text, show } from "../parts/element.js";
import type { Scene } from "./screen.js";
import type { Picture } from "./spectra.js";
import { choices, exports } from "./spectra_grid.js";

type Tool = "zoom" | "polygon" | "rectangle";
const TOOLS = [
  ["zoom", "zoom"],
  ["polygon", "polygon"],
  ["rectangle", "rectangle"],
] as const;
// The configuration takes no more.
const MOST_CORNERS = 64;

/** The large picture of a spectrum with two axes. */
export class LargePlane implements Picture {
  readonly root: HTMLElement;
  readonly #heat: HeatMap;
  readonly #feed: CountsFeed;
  readonly #facts = new Facts();
  readonly #times: ChannelTimes;
  readonly #hint = h("p", { class: "quiet" });
  readonly #readout = h("output", { class: "readout" });
  readonly #trouble = h("output", { class: "readout" });
  readonly #lines = h("pre", { class: "configuration", tabindex: 0 });
  readonly #copying: HTMLElement;
  readonly #apply = button("apply to this run …", () => this.#ask_to_apply(), { title: "while a run takes data" });
  readonly #name = h("input", {
    type: "text",
    value: "region",
    "aria-label": "Name of the region",
    maxlength: 40,
    oninput: () => this.#tell(),
  });
  readonly #tools: { root: HTMLElement; set(tool: Tool): void };
  readonly #log: Toggle;
  #tool: Tool = "zoom";
  #counts: Float64Array | null = null;
  #open: Point[] = [];
  #drag: Point | null = null;
  #kept = true;

  constructor(
    private readonly scene: Scene,
    private readonly spectrum: Spectrum,
    private readonly of_view: readonly Spectrum[],
    private readonly back: () => void,
    private readonly other_spectrum: () => void,
  ) {
    this.#times = new ChannelTimes(spectrum.at === "events" ? null : spectrum.channel);
    this.#heat = new HeatMap(spectrum.name, {
      down: (at) => this.#down(at),
      move: (at, is_down) => this.#move(at, is_down),
      up: (at) => this.#up(at),
      twice: () => this.#twice(),
      turned: (at, factor) => this.#turned(at, factor),
    });
    this.#log = new Toggle(
      "log",
      scene.shown.log !== "0",
      (on) => this.#show({ log: on ? "" : "0" }),
      "logarithmic (l)",
    );
    this.#tools = segments<Tool>("What dragging does", TOOLS, "zoom", (tool) => this.#take(tool));
    const keeping = segments(
      "What becomes of it",
      [
        ["keep", "keep"],
        ["drop", "cut away"],
      ],
      "keep",
      (choice) => {
        this.#kept = choice === "keep";
        this.#tell();
      },
    );
    this.#copying = h(
      "div",
      { class: "copying" },
      h("div", { class: "tools" }, h("label", { class: "field" }, h("span", {}, "name"), this.#name), keeping.root),
      this.#lines,
      h(
        "div",
        { class: "tools" },
        button("copy", () => void copy(this.#lines.textContent ?? "", "lines for the configuration"), {
          class: "main",
        }),
        this.#apply,
      ),
    );
    this.root = this.#build();
    this.#feed = new CountsFeed(
      () => [spectrum.id],
      ([frame]) => {
        if (!frame) return;
        this.#counts = frame.counts;
        this.#draw();
      },
      (words) => set_text(this.#trouble, words),
    );
    this.moved();
  }

  moved(): void {
    this.#log.set(this.scene.shown.log !== "0");
    this.#heat.log(this.#log.on);
    this.#heat.view(this.#view());
    this.#heat.shape(this.#shape(), true);
    this.#draw();
  }

  key(key: string): boolean {
    if (key === "l") this.#log.press();
    else if (key === "z") this.#show({ x: "", y: "" });
    else if (key === "p") this.#take(this.#tool === "polygon" ? "zoom" : "polygon");
    else if (key === "r") this.#take(this.#tool === "rectangle" ? "zoom" : "rectangle");
    else if (key === "Enter" && this.#open.length > 2) this.#close();
    else if (key === "Backspace" && this.#open.length > 0)
      this.#heat.shape((this.#open = this.#open.slice(0, -1)), false);
    else if (key === "Escape") this.#open.length > 0 ? this.#forget() : this.back();
    else return false;
    return true;
  }

  update(state: LiveState): void {
    this.#apply.disabled = !is_taking(state);
    this.#times.update(state);
  }

  leave(): void {
    this.#feed.close();
    this.#heat.destroy();
  }

  #build(): HTMLElement {
    const channels = new Choice("plane", (id) => {
      const next = this.of_view.find((each) => String(each.id) === id);
      this.scene.show(
        next?.channel === null || !next ? { id, channel: "" } : { channel: String(next.channel), id: "" },
      );
      this.other_spectrum();
    });
    channels.offer(
      this.of_view
        .filter(({ at, axes }) => at === this.spectrum.at && axes.length === 2)
        .map((each) => [String(each.id), short_name(each)]),
      String(this.spectrum.id),
    );
    const empty = button(
      "reset",
      () =>
        void post("/api/spectra/reset", { ids: [this.spectrum.id] }).catch((error: unknown) =>
          notice(in_words(error), true),
        ),
      { title: "begin this plane anew; nothing recorded changes" },
    );
    return h(
      "div",
      { class: "large" },
      h(
        "div",
        { class: "tools" },
        button("← all", this.back, { key: "Esc" }),
        channels.root,
        this.#log.root,
        this.#tools.root,
        button("zoom out", () => this.#show({ x: "", y: "" }), { key: "z" }),
        button("forget region", () => this.#show({ shape: "" })),
        ...choices(this.scene, this.of_view),
        exports(this.spectrum),
        empty,
      ),
      h(
        "div",
        { class: "large-body" },
        panel(this.spectrum.name, "large-plot", [this.#readout, this.#trouble], this.#heat.root),
        panel("Region", "beside", [], this.#hint, this.#facts.root, this.#copying, this.#times.root),
      ),
    );
  }

  #show(changes: Record<string, string>): void {
    this.scene.show(changes);
    this.moved();
  }

  #view(): View | null {
    const [axis_x, axis_y] = this.spectrum.axes;
    const [x, y] = [range(this.scene.shown.x), range(this.scene.shown.y)];
    if (!axis_x || !axis_y || (!x && !y)) return null;
    return { x: x ?? [axis_x.low, axis_x.high], y: y ?? [axis_y.low, axis_y.high] };
  }

  #shape(): Point[] {
    const drawn = corners(this.scene.shown.shape);
    return drawn.length > 2 ? drawn : [];
  }

  #take(tool: Tool): void {
    this.#tool = tool;
    this.#tools.set(tool);
    this.#forget();
  }

  #forget(): void {
    [this.#open, this.#drag] = [[], null];
    this.#heat.band(null);
    this.#heat.shape(this.#shape(), true);
    this.#tell();
  }

  #down(at: Point): void {
    if (this.#tool !== "polygon") {
      this.#drag = at;
      return;
    }
    const first = this.#open[0];
    if (first && this.#open.length > 2 && this.#is_near(first, at)) this.#close();
    else if (this.#open.length < MOST_CORNERS) this.#heat.shape((this.#open = [...this.#open, at]), false);
    this.#tell();
  }

  #move(at: Point, is_down: boolean): void {
    this.#read(at);
    if (is_down && this.#drag) this.#heat.band(spanned(this.#drag, at));
    else if (this.#open.length > 0) this.#heat.shape([...this.#open, at], false);
  }

  #up(at: Point): void {
    const from = this.#drag;
    this.#drag = null;
    this.#heat.band(null);
    if (!from || this.#is_near(from, at)) return;
    const band = spanned(from, at);
    if (this.#tool === "zoom") this.#show({ x: from_range(band.x), y: from_range(band.y) });
    else this.#show({ shape: from_corners(rectangle(from, at)) });
  }

  #twice(): void {
    if (this.#tool === "zoom") this.#show({ x: "", y: "" });
    else if (this.#open.length > 2) this.#close();
  }

  #turned([x, y]: Point, factor: number): void {
    const [axis_x, axis_y] = this.spectrum.axes;
    if (!axis_x || !axis_y) return;
    const whole = { x: [axis_x.low, axis_x.high], y: [axis_y.low, axis_y.high] } as const;
    const view = this.#view() ?? whole;
    const [across, up] = [scaled(view.x, x, factor, whole.x), scaled(view.y, y, factor, whole.y)];
    this.#show({ x: from_range(across), y: from_range(up) });
  }

  #close(): void {
    // A double click leaves its corner twice.
    const drawn = this.#open.filter(
      (point, index) => index === 0 || !this.#is_near(this.#open[index - 1] ?? point, point),
    );
    this.#open = [];
    if (drawn.length < 3) return;
    if (crosses_itself(drawn)) notice("the sides of this region cross: draw it again, round in one direction", true);
    this.#show({ shape: crosses_itself(drawn) ? "" : from_corners(drawn) });
  }

  #is_near(one: Point, other: Point): boolean {
    const [axis_x, axis_y] = this.spectrum.axes;
    if (!axis_x || !axis_y) return false;
    const view = this.#view() ?? { x: [axis_x.low, axis_x.high], y: [axis_y.low, axis_y.high] };
    const apart = Math.hypot(
      (one[0] - other[0]) / (view.x[1] - view.x[0]),
      (one[1] - other[1]) / (view.y[1] - view.y[0]),
    );
    return apart < 0.015;
  }

  #read([x, y]: Point): void {
    const [axis_x, axis_y] = this.spectrum.axes;
    if (!axis_x || !axis_y || !this.#counts) return;
    const [column] = bins_of(axis_x, x, x);
    const [row] = bins_of(axis_y, y, y);
    set_text(
      this.#readout,
      `${axis_x.label} ${plain(x)} · ${axis_y.label} ${plain(Number(y.toPrecision(4)))}: ${exact(this.#counts[row * axis_x.bins + column] ?? 0)}`,
    );
  }

  #draw(): void {
    const [x, y] = this.spectrum.axes;
    if (!this.#counts || !x || !y) return;
    this.#heat.set({ x, y, counts: this.#counts });
    this.#tell();
  }

  #tell(): void {
    const [x, y] = this.spectrum.axes;
    const shape = this.#shape();
    show(this.#copying, shape.length > 2);
    const hint: Record<Tool, string> = {
      zoom: shape.length > 2 ? "" : "choose “polygon” or “rectangle” to draw a region and get the cut for it",
      polygon:
        this.#open.length > 0
          ? "click corners; the first one, a double click or Enter closes"
          : "click the first corner",
      rectangle: "drag from corner to corner",
    };
    set_text(this.#hint, hint[this.#tool]);
    if (!this.#counts || !x || !y) return;
    const facts: [string, string][] = [];
    const all = this.#counts.reduce((sum, n) => sum + n, 0);
    facts.push(["counts", exact(all)]);
    if (shape.length > 2) {
      const inside = this.#inside(shape);
      facts.push(["inside", exact(inside)], ["of all", share(all > 0 ? inside / all : null)]);
      const name = as_name(this.#name.value);
      set_text(this.#lines, configuration(name, x.field, y.field, shape, this.#kept));
    }
    this.#facts.show([...facts, ...this.#merit_facts(shape)]);
  }

  #ask_to_apply(): void {
    const [x, y] = this.spectrum.axes;
    const shape = this.#shape();
    if (!x || !y || shape.length < 3) return;
    const name = as_name(this.#name.value);
    ask_to_apply(
      {
        path: "/api/view/cut",
        body: cut_of(name, x.field, y.field, shape, this.#kept),
        lines: this.#lines.textContent ?? "",
        outcome:
          "“Hits after cuts” and the time differences show only what this cut keeps, of every channel, from now on: they begin anew. “All hits” stays.",
      },
      () => notice("applied: choose “hits after cuts” to see what it keeps"),
    );
  }

  #inside(shape: readonly Point[]): number {
    const [x, y] = this.spectrum.axes;
    if (!x || !y) return 0;
    let sum = 0;
    for (let row = 0; row < y.bins; row++) {
      const high = y.low + (row + 0.5) * bin_width(y);
      for (let column = 0; column < x.bins; column++) {
        const n = this.#counts?.[row * x.bins + column] ?? 0;
        if (n > 0 && is_inside(shape, [x.low + (column + 0.5) * bin_width(x), high])) sum += n;
      }
    }
    return sum;
  }

  // Over the visible part, and of a region only the energies that it spans.
  #merit_facts(shape: readonly Point[]): (readonly [string, string])[] {
    const [x, y] = this.spectrum.axes;
    if (!x || !y || y.field !== "psd") return [];
    const view = this.#view() ?? { x: [x.low, x.high], y: [y.low, y.high] };
    const across = shape.map(([value]) => value);
    const energies = bins_of(x, ...(shape.length > 2 ? ([Math.min(...across), Math.max(...across)] as const) : view.x));
    const rows = bins_of(y, ...view.y);
    const { along_y } = projections(this.#counts ?? [], x.bins, energies, rows);
    const merit = figure_of_merit({ counts: along_y, low: y.low + rows[0] * bin_width(y), bin_width: bin_width(y) });
    this.#heat.curve(merit && shape.length < 3 ? merit.curve : null);
    const range_words = `${plain(x.low + energies[0] * bin_width(x))} to ${plain(x.low + energies[1] * bin_width(x))}`;
    return [
      ["figure of merit", merit ? told_merit(merit) : "no two bands"],
      ["bands at", merit ? merit.centroids.map((each) => each.toFixed(3)).join(" and ") : "–"],
      ...(merit ? [["two Gaussians", fit_fact(merit.goodness)] as const] : []),
      [`${x.label}`, range_words],
    ];
  }
}

function told_merit({ figure, goodness }: Merit): string {
  return goodness.fits ? measured(figure.value, figure.deviation) : rough(figure.value);
}

function spanned(from: Point, to: Point): View {
  return {
    x: [Math.min(from[0], to[0]), Math.max(from[0], to[0])],
    y: [Math.min(from[1], to[1]), Math.max(from[1], to[1])],
  };
}
