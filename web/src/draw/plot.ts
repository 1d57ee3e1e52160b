// Lines over an axis: uPlot, with the manners of this page.
//
//   drag: zoom, or mark a region │ wheel: zoom about the pointer, with shift upwards │ double click: all
//   pointer: the values beside the title │ names at the lines' ends

import uPlot from "uplot";
import { decades, tick } from "../figures/ticks.js";
import { colour, on_theme } from "../parts/theme.js";
import { h, on_resize, set_text, show } from "../parts/element.js";
import { of_line } from "./colours.js";
import { scaled, wheel_factor } from "./wheel.js";

/** One line. */
export interface Line {
  name: string;
  values: ArrayLike<number | null>;
  /** Number of its colour; without it, its place. */
  colour?: number;
  /** Drawn as a curve over the steps: a fit, a background. */
  style?: "steps" | "curve" | "faint" | "dashed";
}

/** What stays the same for a plot's life. */
export interface PlotOptions {
  label: string;
  /** Written at the ticks of the first axis, and of the second. */
  along_x: (value: number) => string;
  along_y?: (value: number) => string;
  height?: number;
  /** Where the ticks of the first axis are; without it, at round numbers. */
  ticks?: (low: number, high: number) => number[];
  /** Steps between the ticks of the first axis; without them, any round ones. */
  steps?: number[];
  /** Names stand at the lines' ends. */
  ends?: boolean;
  /** The second axis is about the values, and need not begin at zero: where zero is not where nothing is. */
  about_values?: boolean;
  /** Why there is nothing, when there is nothing. */
  empty: string;
  zoomed?: (limits: [number, number] | null) => void;
  marked?: (limits: [number, number]) => void;
}

/** Bounds that are drawn across, as of a region or a window; the second may be dragged when `moved` is given. */
export interface Marks {
  limits: [number, number];
  title: string;
}

/** A stretch of the first axis in which something happened, and what. */
export interface Band {
  limits: [number, number];
  words: string;
}

/** Free at the right of a plot whose lines have no names at their ends. */
export const PLOT_RIGHT_PX = 24;

// A logarithmic axis begins below one count, where nothing is.
const LOG_FLOOR = 0.5;

/** Around these values; what does not change is in the middle. */
function about(low: number, high: number): [number, number] {
  const room = high > low ? 0.08 * (high - low) : 0.1 * Math.max(Math.abs(high), 1);
  return [low - room, high + room];
}

/** A plot in the page. */
export class Plot {
  readonly root: HTMLElement;
  readonly readout = h("output", { class: "readout" });
  readonly #holder = h("div", { class: "plot" });
  readonly #legend = h("div", { class: "legend" });
  readonly #empty: HTMLElement;
  readonly #options: PlotOptions;
  #plot: uPlot | null = null;
  #x: ArrayLike<number> = [];
  #lines: Line[] = [];
  #signature = "";
  #size = [0, 0];
  #view: [number, number] | null = null;
  /** Where the second axis ends, chosen with the wheel; `null`: above the highest value. */
  #top: number | null = null;
  #log = false;
  #marking = false;
  #marks: Marks | null = null;
  #bands: readonly Band[] = [];
  readonly #ended: (() => void)[] = [];

  constructor(options: PlotOptions) {
    this.#options = options;
    this.#empty = h("p", { class: "empty" }, options.empty);
    if (options.height) this.#holder.style.height = `${options.height}px`;
    this.#holder.append(this.#empty, this.#legend);
    this.root = h("figure", { class: "figure", role: "img", "aria-label": options.label }, this.#holder);
    const observer = on_resize(this.#holder, (width, height) => {
      this.#size = [width, height];
      this.#plot ? this.#plot.setSize({ width, height }) : this.#draw();
    });
    this.#ended.push(
      () => observer.disconnect(),
      on_theme(() => this.#rebuild()),
    );
  }

  /** Draws these lines over `x`. */
  set(x: ArrayLike<number>, lines: Line[]): void {
    [this.#x, this.#lines] = [x, lines];
    this.#draw();
  }

  /** Says why there is nothing. */
  say(why: string): void {
    set_text(this.#empty, why);
  }

  /** Shows this range of the first axis; `null` for all. */
  view(limits: [number, number] | null): void {
    this.#view = limits;
    if (limits === null) this.#top = null;
    this.#plot?.setData(this.#data(), true);
  }

  /** Linear or logarithmic. */
  log(log: boolean): void {
    if (this.#log === log) return;
    this.#log = log;
    this.#rebuild();
  }

  /** Whether dragging marks a region instead of zooming. */
  marking(on: boolean): void {
    this.#marking = on;
    this.#holder.classList.toggle("marking", on);
  }

  /** Draws a region. */
  marks(marks: Marks | null): void {
    this.#marks = marks;
    this.#plot?.redraw(false, false);
  }

  /** Stretches to be drawn with the next lines; the pointer's values have their words, too. */
  bands(bands: readonly Band[]): void {
    this.#bands = bands;
  }

  /** Ends it. */
  destroy(): void {
    this.#plot?.destroy();
    this.#ended.forEach((end) => end());
  }

  #data(): uPlot.AlignedData {
    const floored = (values: ArrayLike<number | null>) =>
      Array.from(values, (each) => (each === null ? null : Math.max(each, LOG_FLOOR)));
    const lines = this.#lines.map(({ values }) => (this.#log ? floored(values) : Array.from(values)));
    return [Array.from(this.#x), ...lines];
  }

  #draw(): void {
    const [width = 0, height = 0] = this.#size;
    const nothing = this.#x.length === 0 || this.#lines.length === 0;
    show(this.#empty, nothing);
    if (nothing || width === 0 || height === 0) {
      this.#plot?.destroy();
      this.#plot = null;
      return;
    }
    const signature = JSON.stringify(this.#lines.map(({ name, style, colour }) => [name, style, colour]));
    if (this.#plot && signature === this.#signature) {
      this.#plot.setData(this.#data(), true);
      return;
    }
    this.#signature = signature;
    this.#rebuild();
  }

  #rebuild(): void {
    const [width = 0, height = 0] = this.#size;
    this.#plot?.destroy();
    this.#plot = null;
    if (this.#lines.length === 0 || this.#x.length === 0 || width === 0) return;
    this.#plot = new uPlot(this.#settings(width, height), this.#data(), this.#holder);
    this.#draw_legend();
  }

  #settings(width: number, height: number): uPlot.Options {
    const { along_x, along_y = tick, ends, steps, ticks } = this.#options;
    const axis = {
      stroke: colour("ink-2"),
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("grid"), width: 1, size: 4 },
      font: "11px system-ui, sans-serif",
    };
    const longest = Math.max(0, ...this.#lines.map(({ name }) => name.length));
    return {
      width,
      height,
      padding: [10, ends ? Math.min(longest * 6.6 + 12, 130) : PLOT_RIGHT_PX, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: {
        x: { time: false, range: (_, low, high) => this.#view ?? (low === high ? [low - 1, high + 1] : [low, high]) },
        y: {
          distr: this.#log ? 3 : 1,
          range: (_, low, high) =>
            this.#log
              ? [LOG_FLOOR, this.#top ?? Math.max((high ?? 1) * 2, 10)]
              : this.#options.about_values
                ? about(low ?? 0, high ?? 0)
                : [Math.min(low ?? 0, 0), this.#top ?? (high > 0 ? high * 1.06 : 1)],
        },
      },
      axes: [
        {
          ...axis,
          size: 30,
          gap: 4,
          space: 64,
          ...(steps ? { incrs: steps } : {}),
          ...(ticks ? { splits: (_: uPlot, __: number, low: number, high: number) => ticks(low, high) } : {}),
          values: (_, splits) => splits.map(along_x),
        },
        {
          ...axis,
          size: 52,
          gap: 4,
          space: 40,
          ...(this.#log
            ? {
                splits: (_: uPlot, __: number, low: number, high: number) => decades(low, high),
                filter: (_: uPlot, splits: number[]) => splits,
              }
            : {}),
          values: (_, splits) => splits.map(along_y),
        },
      ],
      series: [{}, ...this.#lines.map((line, index) => this.#series(line, index))],
      hooks: {
        setSelect: [(plot) => this.#selected(plot)],
        setCursor: [(plot) => this.#read(plot)],
        drawAxes: [(plot) => this.#draw_bands(plot)],
        draw: [(plot) => this.#draw_marks(plot), (plot) => ends && this.#draw_ends(plot)],
        ready: [(plot) => this.#listen(plot)],
      },
    };
  }

  #listen(plot: uPlot): void {
    const { zoomed } = this.#options;
    if (!zoomed) return;
    plot.over.addEventListener("dblclick", () => {
      this.#top = null;
      zoomed(null);
    });
    plot.over.addEventListener("wheel", (event) => {
      event.preventDefault();
      // Some systems turn a wheel with shift sideways.
      const factor = wheel_factor(event.deltaY || event.deltaX);
      if (event.shiftKey) {
        const { max = 1 } = plot.scales.y ?? {};
        this.#top = Math.max((max ?? 1) * factor, this.#log ? 2 : 1e-9);
        plot.setData(this.#data(), true);
        return;
      }
      const [first = 0, last = 0] = [this.#x[0], this.#x[this.#x.length - 1]];
      const { min, max } = plot.scales.x ?? {};
      const at = plot.posToVal(event.offsetX, "x");
      zoomed(scaled([min ?? first, max ?? last], at, factor, [first, last]));
    });
  }

  // Where lines end in each other, their names stand above; of one line, the title says it.
  #draw_legend(): void {
    const named = this.#lines.filter(({ style }) => style !== "faint");
    show(this.#legend, !this.#options.ends && named.length > 1);
    this.#legend.replaceChildren(
      ...named.map((line) => {
        const key = h("i", { class: line.style === "dashed" ? "dashed" : "" });
        key.style.borderColor = of_line(line.colour ?? this.#lines.indexOf(line));
        return h("span", {}, key, line.name);
      }),
    );
  }

  #series(line: Line, index: number): uPlot.Series {
    const stroke = of_line(line.colour ?? index);
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    const drawn: uPlot.Series = { label: line.name, stroke, width: 1.5, points: { show: false }, spanGaps: false };
    if ((line.style ?? "curve") === "steps" && stepped)
      return {
        ...drawn,
        paths: stepped,
        width: 1.2,
        ...(index === 0 ? { fill: `color-mix(in srgb, ${stroke} 14%, transparent)` } : {}),
      };
    if (line.style === "faint") return { ...drawn, width: 1, alpha: 0.35 };
    if (line.style === "dashed") return { ...drawn, dash: [5, 4] };
    return { ...drawn, width: 2 };
  }

  #selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 3) return;
    const limits: [number, number] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (this.#marking) this.#options.marked?.(limits);
    else this.#options.zoomed?.(limits);
  }

  #read(plot: uPlot): void {
    const index = plot.cursor.idx;
    if (index === null || index === undefined) {
      set_text(this.readout, "");
      return;
    }
    const { along_x, along_y = tick } = this.#options;
    const values = this.#lines
      .filter(({ style }) => style !== "faint")
      .map(({ name, values }) => {
        const value = values[index];
        return `${this.#lines.length > 1 ? `${name} ` : ""}${value === null || value === undefined ? "–" : along_y(value)}`;
      });
    const at = this.#x[index] ?? 0;
    const bands = this.#bands.filter(({ limits: [from, to] }) => from <= at && at <= to);
    const shown = [...values.slice(0, 4), ...bands.slice(0, 1).map(({ words }) => words)];
    set_text(this.readout, `${along_x(at)}: ${shown.join(" · ")}`);
  }

  // Pale over the whole height, and strong at the foot, where a short one is still seen.
  #draw_bands(plot: uPlot): void {
    const { left, top, width, height } = plot.bbox;
    const { ctx } = plot;
    const foot = 5 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    for (const { limits } of this.#bands) {
      const [from, to] = limits.map((value) => plot.valToPos(value, "x", true)) as [number, number];
      const wide = Math.max(to - from, 2 * devicePixelRatio);
      ctx.fillStyle = colour("lost-soft");
      ctx.fillRect(from, top, wide, height);
      ctx.fillStyle = colour("lost");
      ctx.fillRect(from, top + height - foot, wide, foot);
    }
    ctx.restore();
  }

  #draw_marks(plot: uPlot): void {
    if (!this.#marks) return;
    const { left, top, width, height } = plot.bbox;
    const at = (value: number) => Math.min(Math.max(plot.valToPos(value, "x", true), left), left + width);
    const [from, to] = this.#marks.limits.map(at) as [number, number];
    const { ctx } = plot;
    ctx.save();
    ctx.fillStyle = colour("mark");
    ctx.fillRect(from, top, to - from, height);
    ctx.strokeStyle = colour("accent");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4, 4]);
    for (const x of [from, to]) {
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // Names that would lie on each other are moved apart.
  #draw_ends(plot: uPlot): void {
    const { left, top, width, height } = plot.bbox;
    const { ctx } = plot;
    const line_height = 13 * devicePixelRatio;
    const names = this.#lines
      .map((line, index) => {
        const last = Array.from(line.values).findLast((value) => value !== null && value !== undefined);
        return {
          name: line.name,
          colour: of_line(line.colour ?? index),
          y: last === undefined || last === null ? NaN : plot.valToPos(last, "y", true),
        };
      })
      .filter(({ y }) => Number.isFinite(y))
      .sort((a, b) => a.y - b.y);
    let lowest = top;
    for (const each of names) lowest = (each.y = Math.max(each.y, lowest)) + line_height;
    let highest = top + height;
    for (const each of names.reverse()) highest = (each.y = Math.min(each.y, highest)) - line_height;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const { name, colour, y } of names) {
      ctx.fillStyle = colour;
      ctx.fillText(name, left + width + 6 * devicePixelRatio, y, 122 * devicePixelRatio);
    }
    ctx.restore();
  }
}
