// Digital probes as strips beneath the analog ones: high is filled, low is a line.

import { h, on_resize } from "../parts/element.js";
import { colour, on_theme } from "../parts/theme.js";
import { of_line } from "./colours.js";

const STRIP_PX = 20;
// The picture above has its axis there.
const LEFT_PX = 52;

/** The strips of one pulse. */
export class Strips {
  readonly root = h("div", { class: "strips" });
  readonly #canvas = h("canvas", { role: "img", "aria-label": "Digital probes" });
  readonly #ended: (() => void)[];
  #probes: readonly (readonly number[])[] = [];
  #right_px = 0;

  constructor() {
    this.root.append(this.#canvas);
    const observer = on_resize(this.root, () => this.#draw());
    this.#ended = [() => observer.disconnect(), on_theme(() => this.#draw())];
  }

  /** Shows these probes, as wide as the picture above, which leaves `right_px` free. */
  show(probes: readonly (readonly number[])[], right_px: number): void {
    this.#right_px = right_px;
    this.#probes = probes.filter((probe) => probe.length > 0);
    const height = `${this.#probes.length * STRIP_PX}px`;
    if (this.root.style.height !== height) this.root.style.height = height;
    this.#draw();
  }

  /** Ends it. */
  destroy(): void {
    this.#ended.forEach((end) => end());
  }

  #draw(): void {
    const context = this.#canvas.getContext("2d");
    const [width, height] = [this.root.clientWidth, this.#probes.length * STRIP_PX];
    if (!context || width === 0 || height === 0) return;
    const ratio = devicePixelRatio;
    [this.#canvas.width, this.#canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const wide = width - LEFT_PX - this.#right_px;
    this.#probes.forEach((probe, index) => {
      const [top, low] = [index * STRIP_PX + 4, index * STRIP_PX + STRIP_PX - 4];
      const at = (sample: number) => LEFT_PX + (sample / Math.max(probe.length - 1, 1)) * wide;
      context.fillStyle = colour("ink-2");
      context.textAlign = "right";
      context.fillText(`digital ${index + 1}`, LEFT_PX - 5, (top + low) / 2, LEFT_PX - 6);
      context.fillStyle = of_line(index + 2);
      context.fillRect(LEFT_PX, low - 1, wide, 1);
      for (let sample = 0; sample < probe.length;) {
        let end = sample;
        while (end < probe.length && (probe[end] ?? 0) > 0) end++;
        if (end > sample) context.fillRect(at(sample), top, Math.max(at(end) - at(sample), 1), low - top);
        sample = Math.max(end, sample + 1);
      }
    });
  }
}
