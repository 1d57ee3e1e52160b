// A plane of counts as a heat map, with both projections and a bar that says what the colours mean.
//
//   ┌ projection ────┐
//   │ plane          │ projection │ bar
//   └────────────────┘
// Drawn as one picture of one pixel per bin, stretched without smoothing: what is seen is what was counted.

import { bins_of, bin_width, projections } from "../figures/spectrum.js";
import type { Axis } from "../live/generated_spectra.js";
import { along, decades, tick, ticks } from "../figures/ticks.js";
import type { Point } from "../figures/polygon.js";
import { colour, on_theme } from "../parts/theme.js";
import { h, on_resize } from "../parts/element.js";
import { wheel_factor } from "./wheel.js";
import { CIVIDIS_PIXELS, cividis_style, place_on } from "./colours.js";

/** What a heat map shows. */
export interface Plane {
  x: Axis;
  y: Axis;
  /** First axis fastest. */
  counts: ArrayLike<number>;
}

/** A range along each axis. */
export interface View {
  x: [number, number];
  y: [number, number];
}

/** What the pointer does, in values of the axes. */
export interface Pointer {
  down(at: Point): void;
  move(at: Point, is_down: boolean): void;
  up(at: Point): void;
  twice(at: Point): void;
  /** The wheel was turned: ranges become longer by the factor. */
  turned?(at: Point, factor: number): void;
}

const LEFT_PX = 52;
/** Room for the bar of colours. */
export const HEAT_RIGHT_PX = 58;

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** A heat map in the page. */
export class HeatMap {
  readonly root: HTMLElement;
  readonly #canvas = h("canvas", { tabindex: 0 });
  readonly #picture = document.createElement("canvas");
  readonly #ended: (() => void)[] = [];
  #plane: Plane | null = null;
  #view: View | null = null;
  #log = true;
  #most = 0;
  #shape: readonly Point[] = [];
  #shape_closed = false;
  #band: View | null = null;
  #curve: Float64Array | null = null;
  #waiting = false;
  #is_down = false;

  constructor(
    label: string,
    private readonly pointer: Pointer,
    private readonly with_projections = true,
  ) {
    this.#canvas.setAttribute("aria-label", label);
    this.#canvas.setAttribute("role", "img");
    this.root = h("figure", { class: "heat" }, this.#canvas);
    const observer = on_resize(this.root, () => this.draw());
    this.#ended.push(
      () => observer.disconnect(),
      on_theme(() => this.draw()),
    );
    this.#canvas.addEventListener("pointerdown", (event) => {
      const at = this.#value_at(event);
      if (event.button !== 0 || !at) return;
      this.#is_down = true;
      this.#canvas.setPointerCapture(event.pointerId);
      this.pointer.down(at);
    });
    this.#canvas.addEventListener("pointermove", (event) => {
      const at = this.#value_at(event);
      if (at) this.pointer.move(at, this.#is_down);
    });
    this.#canvas.addEventListener("pointerup", (event) => {
      const at = this.#value_at(event);
      if (at && this.#is_down) this.pointer.up(at);
      this.#is_down = false;
    });
    this.#canvas.addEventListener("wheel", (event) => {
      const at = this.#value_at(event);
      if (!at || !this.pointer.turned) return;
      event.preventDefault();
      this.pointer.turned(at, wheel_factor(event.deltaY));
    });
    this.#canvas.addEventListener("dblclick", (event) => {
      const at = this.#value_at(event);
      if (at) this.pointer.twice(at);
    });
  }

  /** Shows these counts. */
  set(plane: Plane): void {
    this.#plane = plane;
    this.draw();
  }

  /** Shows this part; `null` for all. */
  view(view: View | null): void {
    this.#view = view;
    this.draw();
  }

  /** Colours and projections, linear or logarithmic. */
  log(log: boolean): void {
    this.#log = log;
    this.draw();
  }

  /** Draws a region, still open or closed. */
  shape(points: readonly Point[], closed: boolean): void {
    [this.#shape, this.#shape_closed] = [points, closed];
    this.draw();
  }

  /** Draws the part that is being chosen. */
  band(band: View | null): void {
    this.#band = band;
    this.draw();
  }

  /** Draws a fit over the projection on the second axis; one value per visible bin. */
  curve(curve: Float64Array | null): void {
    this.#curve = curve;
    this.draw();
  }

  /** Ends it. */
  destroy(): void {
    this.#ended.forEach((end) => end());
  }

  /** Draws, once a frame at most. */
  draw(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      this.#draw_now();
    });
  }

  #box(): Box {
    const [width, height] = [this.root.clientWidth, this.root.clientHeight];
    const [beside, above] = this.with_projections
      ? [Math.min(110, width * 0.16), Math.min(72, height * 0.16)]
      : [0, 16];
    return {
      left: LEFT_PX,
      top: above + 6,
      width: Math.max(width - LEFT_PX - beside - HEAT_RIGHT_PX, 40),
      height: Math.max(height - above - 6 - 34, 40),
    };
  }

  #shown(plane: Plane): View {
    return this.#view ?? { x: [plane.x.low, plane.x.high], y: [plane.y.low, plane.y.high] };
  }

  // `null` before there are counts: nobody points at what is not drawn yet.
  #value_at(event: MouseEvent): Point | null {
    if (!this.#plane) return null;
    const rect = this.#canvas.getBoundingClientRect();
    const [box, { x, y }] = [this.#box(), this.#shown(this.#plane)];
    const part = (value: number) => Math.min(Math.max(value, 0), 1);
    const across = part((event.clientX - rect.left - box.left) / box.width);
    const up = part(1 - (event.clientY - rect.top - box.top) / box.height);
    return [x[0] + across * (x[1] - x[0]), y[0] + up * (y[1] - y[0])];
  }

  #draw_now(): void {
    const [width, height] = [this.root.clientWidth, this.root.clientHeight];
    const context = this.#canvas.getContext("2d");
    if (!context || width === 0 || height === 0) return;
    const ratio = devicePixelRatio;
    if (this.#canvas.width !== Math.round(width * ratio) || this.#canvas.height !== Math.round(height * ratio)) {
      this.#canvas.width = Math.round(width * ratio);
      this.#canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    if (!this.#plane) return;
    const [box, shown] = [this.#box(), this.#shown(this.#plane)];
    this.#draw_picture(context, this.#plane, shown, box);
    this.#draw_axes(context, this.#plane, shown, box);
    if (this.with_projections) this.#draw_projections(context, this.#plane, shown, box, width);
    this.#draw_bar(context, box, width);
    this.#draw_shape(context, shown, box);
  }

  #draw_picture(context: CanvasRenderingContext2D, { x, y, counts }: Plane, shown: View, box: Box): void {
    const [x1, x2] = bins_of(x, ...shown.x);
    const [y1, y2] = bins_of(y, ...shown.y);
    const [columns, rows] = [x2 - x1, y2 - y1];
    // Nothing is shown of a view that holds no bin.
    if (!(columns > 0 && rows > 0)) return;
    this.#most = 0;
    for (let row = y1; row < y2; row++) {
      for (let column = x1; column < x2; column++)
        this.#most = Math.max(this.#most, counts[row * x.bins + column] ?? 0);
    }
    const pixels = new ImageData(columns, rows);
    const words = new Uint32Array(pixels.data.buffer);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const n = counts[(y1 + row) * x.bins + x1 + column] ?? 0;
        if (n > 0)
          words[(rows - 1 - row) * columns + column] =
            CIVIDIS_PIXELS[Math.round(place_on(n, 0.7, this.#most, this.#log) * 255)] ?? 0;
      }
    }
    this.#picture.width = columns;
    this.#picture.height = rows;
    this.#picture.getContext("2d")?.putImageData(pixels, 0, 0);
    // Whole bins are drawn, of which those at the rim may be cut by the view.
    const [width_x, width_y] = [bin_width(x), bin_width(y)];
    const place = places(shown, box);
    const [left, right] = [place.x(x.low + x1 * width_x), place.x(x.low + x2 * width_x)];
    const [bottom, top] = [place.y(y.low + y1 * width_y), place.y(y.low + y2 * width_y)];
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.fillStyle = colour("plane");
    context.fill();
    context.clip();
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#picture, left, top, right - left, bottom - top);
    context.restore();
    if (this.#most === 0) {
      context.fillStyle = colour("ink-2");
      context.textAlign = "center";
      context.fillText("no counts in this part of the plane", box.left + box.width / 2, box.top + box.height / 2);
    }
  }

  #draw_axes(context: CanvasRenderingContext2D, plane: Plane, shown: View, box: Box): void {
    const place = places(shown, box);
    context.strokeStyle = colour("grid-strong");
    context.lineWidth = 1;
    context.strokeRect(box.left - 0.5, box.top - 0.5, box.width + 1, box.height + 1);
    context.fillStyle = colour("ink-2");
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const value of ticks(...shown.x, box.width / 80))
      context.fillText(along(value, plane.x.unit), place.x(value), box.top + box.height + 5);
    context.textAlign = "right";
    context.fillText(labelled(plane.x), box.left + box.width, box.top + box.height + 20);
    context.textBaseline = "middle";
    for (const value of ticks(...shown.y, box.height / 44))
      context.fillText(along(value, plane.y.unit), box.left - 5, place.y(value));
    context.textAlign = "left";
    context.fillText(labelled(plane.y), 0, box.top - 10);
  }

  #draw_projections(
    context: CanvasRenderingContext2D,
    { x, y, counts }: Plane,
    shown: View,
    box: Box,
    width: number,
  ): void {
    const [range_x, range_y] = [bins_of(x, ...shown.x), bins_of(y, ...shown.y)];
    const { along_x, along_y } = projections(counts, x.bins, range_x, range_y);
    const place = places(shown, box);
    const [most_x, most_y] = [along_x.reduce((a, b) => Math.max(a, b), 0), along_y.reduce((a, b) => Math.max(a, b), 0)];
    const high = box.top - 12;
    const wide = Math.max(width - HEAT_RIGHT_PX - box.left - box.width - 8, 10);
    const edge_x = (bin: number) =>
      Math.round(place.x(Math.min(Math.max(x.low + (range_x[0] + bin) * bin_width(x), shown.x[0]), shown.x[1])));
    const edge_y = (bin: number) =>
      Math.round(place.y(Math.min(Math.max(y.low + (range_y[0] + bin) * bin_width(y), shown.y[0]), shown.y[1])));
    context.fillStyle = colour("projection");
    along_x.forEach((n, bin) => {
      const tall = place_on(n, 0.7, most_x, this.#log) * high;
      context.fillRect(edge_x(bin), box.top - 4 - tall, Math.max(edge_x(bin + 1) - edge_x(bin), 0.5), tall);
    });
    along_y.forEach((n, bin) => {
      const long = place_on(n, 0.7, most_y, this.#log) * wide;
      context.fillRect(box.left + box.width + 4, edge_y(bin + 1), long, Math.max(edge_y(bin) - edge_y(bin + 1), 0.5));
    });
    if (this.#curve && this.#curve.length === along_y.length) {
      context.strokeStyle = colour("line-1");
      context.lineWidth = 1.5;
      context.beginPath();
      this.#curve.forEach((n, bin) => {
        const long = place_on(n, 0.7, most_y, this.#log) * wide;
        context.lineTo(box.left + box.width + 4 + long, (edge_y(bin) + edge_y(bin + 1)) / 2);
      });
      context.stroke();
    }
  }

  #draw_bar(context: CanvasRenderingContext2D, box: Box, width: number): void {
    const left = width - 46;
    for (let row = 0; row < box.height; row++) {
      context.fillStyle = cividis_style(1 - row / box.height);
      context.fillRect(left, box.top + row, 10, 1.2);
    }
    context.fillStyle = colour("ink-2");
    context.textAlign = "left";
    context.textBaseline = "middle";
    const values = this.#log ? decades(1, Math.max(this.#most, 1)) : ticks(0, Math.max(this.#most, 1), 5);
    let above = Infinity;
    for (const value of values.slice(-9)) {
      const y = box.top + box.height * (1 - place_on(value, 0.7, Math.max(this.#most, 1), this.#log));
      if (above - y > 11) context.fillText(tick(value), left + 14, (above = y));
    }
    context.textBaseline = "alphabetic";
    context.textAlign = "right";
    context.fillText("counts", width, box.top - 6);
  }

  #draw_shape(context: CanvasRenderingContext2D, shown: View, box: Box): void {
    const place = places(shown, box);
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    // Two strokes: one of them is seen on every colour.
    const outlined = (dashed: boolean) => {
      for (const [stroke, wide] of [
        ["#000000b0", 4],
        ["#ffffff", 1.8],
      ] as const) {
        context.setLineDash(dashed ? [6, 4] : []);
        context.strokeStyle = stroke;
        context.lineWidth = wide;
        context.stroke();
      }
    };
    if (this.#band) {
      const [left, right, top, bottom] = [
        place.x(this.#band.x[0]),
        place.x(this.#band.x[1]),
        place.y(this.#band.y[1]),
        place.y(this.#band.y[0]),
      ];
      context.beginPath();
      context.rect(left, top, right - left, bottom - top);
      outlined(true);
    }
    if (this.#shape.length > 0) {
      context.beginPath();
      this.#shape.forEach(([x, y]) => context.lineTo(place.x(x), place.y(y)));
      if (this.#shape_closed) context.closePath();
      outlined(false);
      for (const [x, y] of this.#shape) {
        context.beginPath();
        context.rect(place.x(x) - 3, place.y(y) - 3, 6, 6);
        context.fillStyle = "#ffffff";
        context.fill();
        outlined(false);
      }
    }
    context.restore();
  }
}

function places({ x, y }: View, box: Box): { x(value: number): number; y(value: number): number } {
  return {
    x: (value) => box.left + ((value - x[0]) / (x[1] - x[0])) * box.width,
    y: (value) => box.top + (1 - (value - y[0]) / (y[1] - y[0])) * box.height,
  };
}

/** What stands beside an axis. */
export function labelled(axis: Axis): string {
  const name = axis.label === axis.unit ? "energy" : axis.label;
  return axis.unit && axis.unit !== "ps" ? `${name} / ${axis.unit}` : name;
}
