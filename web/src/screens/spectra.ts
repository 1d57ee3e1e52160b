// Spectra: what do I see? Three views of the same hits, and the one large picture that a click opens.
//
//   view = grid │ planes │ times        channel = … opens the large one of that view

import { narrowed } from "../live/chosen_spectra.js";
import type { LiveState } from "../live/generated.js";
import type { Spectrum } from "../live/generated_spectra.js";
import { spectra } from "../live/spectra.js";
import { in_words } from "../live/requests.js";
import { AppliedChanges } from "../parts/applied.js";
import { segments } from "../parts/controls.js";
import { h } from "../parts/element.js";
import { Grid } from "./spectra_grid.js";
import { LargePlane } from "./large_plane.js";
import { LargeSpectrum } from "./large_spectrum.js";
import type { Heard, MakeScreen, Screen, Scene } from "./screen.js";

/** What the views are called in the address and on the page. */
const VIEWS = [
  ["energy", "Energy"],
  ["plane", "Pulse shape"],
  ["time", "Time difference"],
  ["own", "Custom"],
] as const;
type View = (typeof VIEWS)[number][0];

/** A picture that fills the screen: a grid, or one spectrum. */
export interface Picture {
  readonly root: HTMLElement;
  moved(): void;
  key(key: string): boolean;
  leave(): void;
  /** The run is in this state: only while it takes data can something be applied to it. */
  update(state: LiveState): void;
}

/** Which view a spectrum belongs to. */
export function view_of({ what, axes, channel }: Spectrum): View {
  if (channel === null || what === "own") return "own";
  if (axes.length === 2) return "plane";
  return axes[0]?.field === "dt" ? "time" : "energy";
}

// The list changes with a run's configuration only; asked now and then, it follows by itself.
const LIST_EVERY_MS = 4000;

/** Makes the screen. */
export const spectra_screen: MakeScreen = (scene) => new SpectraScreen(scene);

class SpectraScreen implements Screen {
  readonly root = h("div", { class: "screen spectra-screen" });
  readonly #scene: Scene;
  readonly #tabs: { root: HTMLElement; set(choice: View): void };
  readonly #body = h("div", { class: "spectra-body" });
  #picture: Picture | null = null;
  #pictured = "";
  #list: Spectrum[] = [];
  #known = "";
  readonly #applied = new AppliedChanges();
  readonly #timer: number;
  #run = "";
  #state: LiveState | null = null;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#tabs = segments<View>("What of the hits", VIEWS, this.#view(), (view) => {
      const gone = {
        channel: "",
        id: "",
        x: "",
        y: "",
        region: "",
        shape: "",
        peaks: "",
        overlay: "",
        with: "",
        window: "",
      };
      scene.show({ ...gone, view: view === "energy" ? "" : view });
      this.moved();
    });
    const tabs = h("nav", { class: "tabs", "aria-label": "Views" }, this.#tabs.root);
    this.root.append(h("div", { class: "spectra-head" }, tabs, this.#applied.root), this.#body);
    this.#body.append(h("p", { class: "empty" }, "asking for the list of spectra …"));
    void this.#ask();
    this.#timer = window.setInterval(() => void this.#ask(), LIST_EVERY_MS);
  }

  update({ state }: Heard): void {
    this.#applied.show(state);
    this.#state = state;
    this.#picture?.update(state);
    // What is applied changes which spectra there are, as another run does.
    const run = JSON.stringify([
      state.run.name,
      state.applied.map(({ number, since_seconds }) => [number, since_seconds]),
    ]);
    if (run === this.#run) return;
    this.#run = run;
    void this.#ask();
  }

  moved(): void {
    this.#tabs.set(this.#view());
    const pictured = `${this.#view()} ${this.#scene.shown.channel ?? ""} ${this.#scene.shown.id ?? ""} ${this.#scene.shown.at ?? ""} ${this.#scene.shown.raw ?? ""} ${this.#known}`;
    if (pictured === this.#pictured) {
      this.#picture?.moved();
      return;
    }
    this.#pictured = pictured;
    this.#picture?.leave();
    this.#picture = this.#make();
    if (!this.#picture) return;
    if (this.#state) this.#picture.update(this.#state);
    this.#body.replaceChildren(this.#picture.root);
  }

  key(key: string): boolean {
    return this.#picture?.key(key) ?? false;
  }

  leave(): void {
    clearInterval(this.#timer);
    this.#picture?.leave();
  }

  #view(): View {
    return VIEWS.find(([view]) => view === this.#scene.shown.view)?.[0] ?? "energy";
  }

  async #ask(): Promise<void> {
    try {
      const list = await spectra();
      const known = JSON.stringify(list.map(({ id, name, axes }) => [id, name, axes]));
      if (known === this.#known) return;
      [this.#list, this.#known] = [list, known];
      this.moved();
    } catch (error) {
      if (this.#list.length === 0)
        this.#body.replaceChildren(h("p", { class: "empty" }, `no spectra: ${in_words(error)}`));
    }
  }

  #make(): Picture | null {
    const view = this.#view();
    const { shown } = this.#scene;
    const of_view = this.#list.filter((spectrum) => view_of(spectrum) === view);
    if (of_view.length === 0) {
      this.#body.replaceChildren(h("p", { class: "empty" }, why_empty(view, this.#list.length)));
      return null;
    }
    const candidates = narrowed(of_view, shown.at, shown.raw);
    const chosen = shown.id
      ? of_view.find(({ id }) => String(id) === shown.id)
      : candidates.find(({ channel }) => String(channel) === shown.channel);
    if (!chosen) return new Grid(this.#scene, candidates, of_view);
    const back = () => {
      const gone = { channel: "", id: "", x: "", y: "", region: "", shape: "", peaks: "", overlay: "", with: "" };
      this.#scene.show({ ...gone, window: "" });
      this.moved();
    };
    const moved = () => this.moved();
    return chosen.axes.length === 2
      ? new LargePlane(this.#scene, chosen, of_view, back, moved)
      : new LargeSpectrum(this.#scene, chosen, of_view, back, moved);
  }
}

function why_empty(view: View, others: number): string {
  if (others === 0) return "there are no spectra: they begin with a run, and [spectra] enabled = false leaves them out";
  if (view === "time") return "there are no time differences: they need [coincidence] in the configuration";
  if (view === "plane") return "there are no planes: [spectra] planes = false leaves them out";
  return view === "own"
    ? "there are no spectra of your own: describe them with [[spectrum]] in the configuration"
    : "there are no energy spectra";
}
