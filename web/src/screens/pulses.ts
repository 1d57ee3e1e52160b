// Pulses: what does a pulse look like? The newest ones of a channel, probes on one time axis, or all laid over each other.
//
//   analog probes  ~~~/\~~~~~     live │ frozen │ persistence
//   digital probes ▁▁▔▔▁▁▁▁▁▁

import { HEAT_RIGHT_PX, HeatMap } from "../draw/heat.js";
import { Plot, PLOT_RIGHT_PX, type Line } from "../draw/plot.js";
import { exact, quantity } from "../figures/quantity.js";
import { Persistence } from "../figures/pulse.js";
import { along, tick } from "../figures/ticks.js";
import type { PulseChannel, PulseTrace } from "../live/generated_spectra.js";
import { get, in_words, post } from "../live/requests.js";
import { Choice, Facts, panel, segments, Toggle } from "../parts/controls.js";
import { h, set_text, show } from "../parts/element.js";
import { Strips } from "../draw/strips.js";
import type { MakeScreen, Scene, Screen } from "./screen.js";

// Quick enough for an eye, slow enough for a trace to be seen.
const PERIOD_MS = 250;
const SHOWN_AT_ONCE = ["1", "5", "20"] as const;
const NO_PULSES = "no waveforms: the boards send none, or none has met the condition";

/** Conditions that are asked for most, as expressions of the cuts. */
const CONDITIONS = [
  ["", "all"],
  ["saturated", "saturated"],
  ["pile_up", "piled up"],
] as const;

/** Makes the screen. */
export const pulses_screen: MakeScreen = (scene) => new PulsesScreen(scene);

class PulsesScreen implements Screen {
  readonly root: HTMLElement;
  readonly #plot = new Plot({
    label: "Analog probes of the newest pulses",
    along_x: (value) => (this.#in_ns ? along(value * 1000, "ps") : tick(value)),
    empty: NO_PULSES,
  });
  // Else the horizontal axis counts samples.
  #in_ns = true;
  readonly #heat = new HeatMap(
    "Persistence: all pulses laid over each other",
    { down: () => {}, move: () => {}, up: () => {}, twice: () => {} },
    false,
  );
  readonly #strips = new Strips();
  readonly #facts = new Facts();
  readonly #channel = new Choice("channel", (channel) => this.#show({ channel }));
  readonly #frozen: Toggle;
  readonly #persistence: Toggle;
  readonly #condition = h("input", {
    type: "text",
    placeholder: "energy in [2000, 3000]",
    "aria-label": "Condition on a pulse, as in cuts",
    spellcheck: "false",
    size: 28,
  });
  readonly #refusal = h("output", { class: "refusal" });
  readonly #counter = h("output", { class: "readout" });
  #timer = 0;
  #left = false;
  #channels: PulseChannel[] = [];
  #asked_channels_ms = -Infinity;
  #laid = new Persistence();
  #laid_channel = "";

  constructor(private readonly scene: Scene) {
    const { shown } = scene;
    this.#frozen = new Toggle("freeze", false, () => {}, "stop the picture, not the run (f)");
    this.#persistence = new Toggle(
      "persistence",
      shown.persistence === "1",
      (on) => this.#show({ persistence: on ? "1" : "" }),
      "all pulses laid over each other (p)",
    );
    this.#condition.value = shown.condition ?? "";
    const presets = segments(
      "Which pulses",
      CONDITIONS,
      CONDITIONS.find(([value]) => value === shown.condition)?.[0] ?? "",
      (condition) => {
        this.#condition.value = condition;
        void this.#filter();
      },
    );
    const at_once = segments(
      "How many at once",
      SHOWN_AT_ONCE.map((each) => [each, each] as const),
      this.#at_once(),
      (number) => this.#show({ count: number === "5" ? "" : number }),
    );
    const form = h(
      "form",
      {
        class: "field",
        onsubmit: (event: Event) => {
          event.preventDefault();
          void this.#filter();
        },
      },
      h("span", {}, "only"),
      presets.root,
      this.#condition,
      h("button", { type: "submit" }, "apply"),
    );
    const plot_panel = panel(
      "Pulses",
      "large-plot",
      [this.#plot.readout, this.#counter],
      this.#plot.root,
      this.#heat.root,
      this.#strips.root,
    );
    this.root = h(
      "div",
      { class: "screen pulses-screen" },
      h(
        "div",
        { class: "tools" },
        this.#channel.root,
        at_once.root,
        this.#frozen.root,
        this.#persistence.root,
        form,
        this.#refusal,
      ),
      h("div", { class: "large-body" }, plot_panel, panel("Newest", "beside", [], this.#facts.root)),
    );
    this.moved();
    void this.#ask();
  }

  update(): void {}

  moved(): void {
    const persistent = this.scene.shown.persistence === "1";
    this.#persistence.set(persistent);
    show(this.#heat.root, persistent);
    show(this.#plot.root, !persistent);
    const channel = this.#chosen();
    if (channel !== this.#laid_channel) [this.#laid, this.#laid_channel] = [new Persistence(), channel];
    this.#offer();
  }

  key(key: string): boolean {
    if (key === "f") this.#frozen.press();
    else if (key === "p") this.#persistence.press();
    else return false;
    return true;
  }

  leave(): void {
    this.#left = true;
    clearTimeout(this.#timer);
    this.#plot.destroy();
    this.#heat.destroy();
    this.#strips.destroy();
  }

  #show(changes: Record<string, string>): void {
    this.scene.show(changes);
    this.moved();
  }

  #at_once(): (typeof SHOWN_AT_ONCE)[number] {
    return SHOWN_AT_ONCE.find((each) => each === this.scene.shown.count) ?? "5";
  }

  #chosen(): string {
    return this.scene.shown.channel ?? String(this.#channels[0]?.channel ?? "");
  }

  #offer(): void {
    this.#channel.offer(
      this.#channels.map(({ channel, name }) => [
        String(channel),
        !name || name === `channel ${channel}` ? `channel ${channel}` : `${name} (${channel})`,
      ]),
      this.#chosen(),
    );
  }

  async #filter(): Promise<void> {
    const expression = this.#condition.value.trim();
    try {
      await post("/api/pulses/filter", { channel: Number(this.#chosen()), expression });
      set_text(this.#refusal, "");
      this.#laid = new Persistence();
      this.scene.show({ condition: expression });
    } catch (error) {
      set_text(this.#refusal, in_words(error));
    }
  }

  async #ask(): Promise<void> {
    try {
      if (performance.now() - this.#asked_channels_ms > 5000) {
        this.#channels = await get<PulseChannel[]>("/api/pulses");
        this.#asked_channels_ms = performance.now();
        this.moved();
      }
      const channel = this.#chosen();
      if (channel !== "" && !this.#frozen.on && !document.hidden) {
        const pulses = await get<PulseTrace[]>(`/api/pulses/${channel}?count=20`);
        if (!this.#left && !this.#frozen.on) this.#draw(pulses);
      }
      set_text(this.#counter, this.#frozen.on ? "frozen" : "");
    } catch (error) {
      this.#plot.say(`no pulses: ${in_words(error)}`);
    }
    if (!this.#left) this.#timer = window.setTimeout(() => void this.#ask(), PERIOD_MS);
  }

  #draw(pulses: readonly PulseTrace[]): void {
    const newest = pulses[0];
    if (!newest) {
      this.#plot.say(NO_PULSES);
      this.#plot.set([], []);
      this.#strips.show([], PLOT_RIGHT_PX);
      return;
    }
    this.#laid.add(pulses);
    const plane = this.scene.shown.persistence === "1" ? this.#laid.plane() : null;
    if (plane) this.#heat.set(plane);
    const longest = Math.max(...pulses.flatMap(({ analog }) => analog.map((probe) => probe.length)));
    const x = Float64Array.from({ length: longest }, (_, sample) => sample * (newest.ns_per_sample ?? 1));
    const drawn = pulses.slice(0, Number(this.#at_once())).reverse();
    const lines = drawn.flatMap((pulse, index) =>
      pulse.analog.map((probe, number): Line => ({
        name: `analog ${number + 1}`,
        values: filled(probe, longest),
        colour: number,
        style: index === drawn.length - 1 ? "curve" : "faint",
      })),
    );
    this.#in_ns = newest.ns_per_sample !== null;
    this.#plot.set(x, lines);
    this.#strips.show(newest.digital, plane ? HEAT_RIGHT_PX : PLOT_RIGHT_PX);
    this.#facts.show([
      ["energy", exact(newest.energy)],
      ["energy short", exact(newest.energy_short)],
      [
        "pulse shape",
        newest.energy && typeof newest.energy_short === "number"
          ? ((newest.energy - newest.energy_short) / newest.energy).toFixed(3)
          : "–",
      ],
      ["time", `${(newest.time_ps * 1e-12).toFixed(9)} s`],
      [
        "samples",
        newest.ns_per_sample === null
          ? `${longest}; how fast is not told`
          : `${longest}, every ${quantity(newest.ns_per_sample * 1e-9, "s")}`,
      ],
      ["flags", newest.flags?.length ? newest.flags.map((flag) => flag.replaceAll("_", " ")).join(", ") : "none"],
      ["laid over each other", exact(this.#laid.pulses)],
    ]);
  }
}

function filled(probe: readonly number[], length: number): (number | null)[] {
  return Array.from({ length }, (_, sample) => probe[sample] ?? null);
}
