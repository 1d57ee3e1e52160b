// All spectra of a view as stamps on one scale. Only those that are on the screen are asked for.

import { count } from "../figures/quantity.js";
import type { Frame } from "../figures/packed.js";
import { all_calibrated } from "../live/chosen_spectra.js";
import type { Spectrum } from "../live/generated_spectra.js";
import { CountsFeed, PERIOD_MS, short_name } from "../live/spectra.js";
import { draw_spark } from "../draw/spark.js";
import { draw_stamp } from "../draw/stamp.js";
import { Choice, segments, Toggle } from "../parts/controls.js";
import { h, set_text } from "../parts/element.js";
import { on_theme } from "../parts/theme.js";
import type { Scene } from "./screen.js";
import type { Picture } from "./spectra.js";

interface Stamp {
  spectrum: Spectrum;
  root: HTMLElement;
  canvas: HTMLCanvasElement;
  entries: HTMLElement;
  counts: Float64Array | null;
  most: number;
  visible: boolean;
}

// A screen of planes is hundreds of times as much to fetch and to draw.
const PLANES_PERIOD_MS = 400;

/** The grid. */
export class Grid implements Picture {
  readonly root = h("div", { class: "grid-picture" });
  readonly #scene: Scene;
  readonly #stamps = new Map<number, Stamp>();
  readonly #observer: IntersectionObserver;
  readonly #feed: CountsFeed;
  readonly #log: Toggle;
  readonly #unthemed: () => void;
  readonly #trouble = h("output", { class: "readout" });

  constructor(scene: Scene, shown: readonly Spectrum[], of_view: readonly Spectrum[]) {
    this.#scene = scene;
    this.#log = new Toggle(
      "log",
      scene.shown.log !== "0",
      (on) => {
        scene.show({ log: on ? "" : "0" });
        this.#draw();
      },
      "logarithmic (l)",
    );
    const holder = h("div", { class: "stamps" });
    this.#observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          const stamp = this.#stamps.get(Number((target as HTMLElement).dataset.id));
          if (stamp) stamp.visible = isIntersecting;
        }
      },
      { rootMargin: "120px" },
    );
    for (const spectrum of shown) {
      const stamp = this.#stamp(spectrum);
      this.#stamps.set(spectrum.id, stamp);
      holder.append(stamp.root);
      this.#observer.observe(stamp.root);
    }
    const scale = h("span", { class: "quiet" }, shown[0] ? axis_words(shown[0]) : "");
    this.root.append(
      h("div", { class: "tools" }, this.#log.root, ...choices(scene, of_view), scale, this.#trouble),
      holder,
    );
    this.#feed = new CountsFeed(
      () => [...this.#stamps.values()].filter(({ visible }) => visible).map(({ spectrum }) => spectrum.id),
      (frames) => this.#taken(frames),
      (words) => set_text(this.#trouble, words),
      () => (this.#has_planes() ? PLANES_PERIOD_MS : PERIOD_MS),
    );
    this.#unthemed = on_theme(() => this.#draw());
  }

  moved(): void {
    this.#log.set(this.#scene.shown.log !== "0");
    this.#draw();
  }

  key(key: string): boolean {
    if (key !== "l") return false;
    this.#log.press();
    return true;
  }

  // Nothing is applied from here.
  update(): void {}

  leave(): void {
    this.#feed.close();
    this.#observer.disconnect();
    this.#unthemed();
  }

  #stamp(spectrum: Spectrum): Stamp {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const entries = h("span", { class: "entries" }, "–");
    const root = h(
      "a",
      {
        class: `stamp${spectrum.axes.length === 2 ? " square" : ""}`,
        href: this.#address(spectrum),
        "data-id": spectrum.id,
        "aria-label": spectrum.name,
        title: spectrum.name,
      },
      h("span", { class: "stamp-name" }, short_name(spectrum)),
      entries,
      canvas,
    );
    return { spectrum, root, canvas, entries, counts: null, most: 0, visible: false };
  }

  #address({ channel, id }: Spectrum): string {
    const query = new URLSearchParams(this.#scene.shown);
    if (channel === null) query.set("id", String(id));
    else query.set("channel", String(channel));
    return `#/spectra?${query}`;
  }

  #has_planes(): boolean {
    return [...this.#stamps.values()].some(({ visible, spectrum }) => visible && spectrum.axes.length === 2);
  }

  #taken(frames: Frame[]): void {
    for (const { id, counts, entries } of frames) {
      const stamp = this.#stamps.get(id);
      if (!stamp) continue;
      stamp.counts = counts;
      stamp.most = counts.reduce((most, n) => (n > most ? n : most), 0);
      set_text(stamp.entries, entries === 0 ? "empty" : count(entries));
    }
    if (frames.length > 0) this.#draw();
  }

  #draw(): void {
    const most = Math.max(0, ...[...this.#stamps.values()].map((stamp) => stamp.most));
    for (const { canvas, counts, visible, spectrum, most: own } of this.#stamps.values()) {
      if (!visible || !counts) continue;
      const [x, y] = spectrum.axes;
      if (x && y) draw_stamp(canvas, counts, x.bins, y.bins, own);
      else draw_spark(canvas, counts, most, this.#log.on);
    }
  }
}

/** Choices that all pictures of spectra share: where filled, raw or calibrated. */
export function choices(scene: Scene, of_view: readonly Spectrum[]): HTMLElement[] {
  const found: HTMLElement[] = [];
  const places = [...new Set(of_view.map(({ at }) => at))];
  if (places.length > 1) {
    const choice = new Choice("filled with", (at) => {
      scene.show({ at, id: "" });
      dispatchEvent(new HashChangeEvent("hashchange"));
    });
    const words: Record<string, string> = {
      received: "all hits",
      kept: "hits after cuts",
      events: "hits in coincidence",
    };
    choice.offer(
      places.map((place) => [place, words[place] ?? place]),
      scene.shown.at ?? places[0] ?? "",
    );
    found.push(choice.root);
  }
  if (of_view.some(({ axes }) => axes[0]?.field === "keV") && of_view.some(({ axes }) => axes[0]?.field === "energy")) {
    found.push(
      segments(
        "Energy",
        [
          ["kev", "keV"],
          ["raw", "raw"],
        ],
        (scene.shown.raw ?? (all_calibrated(of_view.filter(({ at }) => at === of_view[0]?.at)) ? "0" : "1")) === "1"
          ? "raw"
          : "kev",
        (unit) => {
          scene.show({ raw: unit === "raw" ? "1" : "0", x: "", region: "" });
          dispatchEvent(new HashChangeEvent("hashchange"));
        },
      ).root,
    );
  }
  return found;
}

/** Links to one spectrum for other programs. */
export function exports({ id, name }: Spectrum): HTMLElement {
  const link = (format: string, file: string, text: string) =>
    h("a", { href: `/api/spectra/${id}/export?format=${format}`, download: file }, text);
  return h(
    "span",
    { class: "links" },
    "save as ",
    link("uhi", `${name}.json`, "UHI"),
    " ",
    link("root", `${name}.root.json`, "ROOT"),
  );
}

function axis_words({ axes: [x, y] }: Spectrum): string {
  if (!x) return "";
  const range = (axis: typeof x) => `${axis.label} ${axis.low} to ${axis.high}${axis.unit ? ` ${axis.unit}` : ""}`;
  return y ? `${range(x)}; ${range(y)}` : `${range(x)}; all on one scale`;
}
