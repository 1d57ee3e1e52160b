// One spectrum, large: zoom, rebin, compare, measure a peak, and calibrate by peaks of known energy.
//
//   counts ─► rebin ─► background off │ shown │ subtracted ─► steps
//   region ─► gross and net counts, fit ─► curve on top, numbers beside ─ energies of two ─► energy_kev

import { Plot, type Line } from "../draw/plot.js";
import { count, exact, measured, measured_as, quantity, rough, share } from "../figures/quantity.js";
import { along } from "../figures/ticks.js";
import { calibration, calibration_lines, coefficients, from_known_peaks, known_peaks } from "../figures/calibration.js";
import { background, bin_width, bins_of, rebinned } from "../figures/spectrum.js";
import { fit_fact, why_unfit } from "../figures/likelihood.js";
import { fit_peak, type Measured, type Peak } from "../figures/peak.js";
import { from_range, range } from "../figures/address.js";
import { coincidence_window_ps } from "../live/configuration.js";
import { get, in_words, post } from "../live/requests.js";
import type { LiveState } from "../live/generated.js";
import type { Axis, Spectrum } from "../live/generated_spectra.js";
import { CountsFeed, short_name } from "../live/spectra.js";
import { is_taking } from "../live/state.js";
import { labelled } from "../draw/heat.js";
import { ask_to_apply } from "../parts/applied.js";
import { ChannelTimes } from "../parts/channel_times.js";
import { button, Choice, copy, Facts, notice, panel, segments, Toggle } from "../parts/controls.js";
import { h, set_text, show } from "../parts/element.js";
import { saved_counts } from "./saved_spectra.js";
import type { Scene } from "./screen.js";
import type { Picture } from "./spectra.js";
import { choices, exports } from "./spectra_grid.js";

const REBINS = [1, 2, 4, 8, 16, 32];
const BACKGROUNDS = [
  ["", "off"],
  ["shown", "shown"],
  ["less", "subtracted"],
] as const;
/** Peaks narrower than this part of the spectrum stand above the estimated background. */
const BACKGROUND_WIDTH = 1 / 128;
/** That of no spectrum beside it. */
const FIT_COLOUR = 1;

/** The large picture of a spectrum with one axis. */
export class LargeSpectrum implements Picture {
  readonly root: HTMLElement;
  readonly #plot: Plot;
  readonly #feed: CountsFeed;
  readonly #facts = new Facts();
  readonly #times: ChannelTimes;
  readonly #hint = h("p", { class: "quiet" });
  readonly #trouble = h("output", { class: "readout" });
  readonly #log: Toggle;
  readonly #marking: Toggle;
  readonly #lines_to_copy = h("pre", { class: "configuration", tabindex: 0 });
  readonly #copying: HTMLElement;
  readonly #apply = button("apply to this run …", () => this.#ask_to_apply(), { title: "while a run takes data" });
  readonly #kev = h("input", { type: "number", min: 0, step: "any", "aria-label": "Energy of the peak, keV" });
  readonly #is_time: boolean;
  #counts: Float64Array | null = null;
  #other: Float64Array | null = null;
  #saved: number[] | null = null;
  #saved_run = "";
  #peak: Peak | null = null;
  #window_ps: number | null = null;

  constructor(
    private readonly scene: Scene,
    private readonly spectrum: Spectrum,
    private readonly of_view: readonly Spectrum[],
    private readonly back: () => void,
    private readonly other_spectrum: () => void,
  ) {
    this.#is_time = spectrum.axes[0]?.field === "dt";
    // Events are of several channels.
    this.#times = new ChannelTimes(spectrum.at === "events" ? null : spectrum.channel);
    const unit = spectrum.axes[0]?.unit ?? "";
    this.#plot = new Plot({
      label: spectrum.name,
      along_x: (value) => along(value, unit),
      empty: this.#why_empty(),
      zoomed: (limits) => this.#show({ x: from_range(limits) }),
      marked: (limits) => this.#show(this.#is_time ? { window: from_range(limits) } : { region: from_range(limits) }),
    });
    this.#log = new Toggle("log", this.#is_log(), (on) => this.#show({ log: on ? "1" : "0" }), "logarithmic (l)");
    this.#marking = new Toggle(
      this.#is_time ? "set window" : "mark a peak",
      false,
      (on) => this.#plot.marking(on),
      "drag over the spectrum (m)",
    );
    this.#copying = h(
      "div",
      { class: "copying" },
      this.#lines_to_copy,
      h(
        "div",
        { class: "tools" },
        button("copy", () => void copy(this.#lines_to_copy.textContent ?? "", "lines")),
        this.#apply,
      ),
    );
    this.root = this.#build();
    this.#feed = new CountsFeed(
      () => [this.spectrum.id, ...(this.#overlaid() ? [this.#overlaid()?.id ?? 0] : [])],
      (frames) => {
        for (const { id, counts } of frames) {
          if (id === this.spectrum.id) this.#counts = counts;
          else this.#other = counts;
        }
        if (frames.length > 0) this.#draw();
      },
      (words) => set_text(this.#trouble, words),
    );
    if (this.#is_time) void this.#ask_window();
    this.moved();
  }

  #why_empty(): string {
    const label = this.spectrum.axes[0]?.label ?? "";
    if (!this.#is_time) return "no counts yet: the spectrum grows as soon as hits of this channel come";
    return label.includes("lowest channel")
      ? "no counts yet: a pair is counted in the spectrum of its higher channel, and this one was the lowest of all its events"
      : "no counts yet: no event has had this channel and the reference";
  }

  moved(): void {
    this.#log.set(this.#is_log());
    this.#plot.log(this.#is_log());
    this.#plot.view(range(this.scene.shown.x));
    if (!this.#overlaid()) this.#other = null;
    void this.#load_saved();
    this.#draw();
  }

  key(key: string): boolean {
    if (key === "l") this.#log.press();
    else if (key === "m") this.#marking.press();
    else if (key === "z") this.#show({ x: "" });
    else if (key === "Escape") this.back();
    else if (key === "ArrowRight" || key === "ArrowLeft") this.#step(key === "ArrowRight" ? 1 : -1);
    else return false;
    return true;
  }

  update(state: LiveState): void {
    this.#apply.disabled = !is_taking(state);
    this.#times.update(state);
  }

  leave(): void {
    this.#feed.close();
    this.#plot.destroy();
  }

  #build(): HTMLElement {
    const { spectrum, scene, of_view } = this;
    const channels = new Choice("spectrum", (id) => this.#go(Number(id)));
    const alike = of_view.filter(
      ({ at, axes }) => at === spectrum.at && axes[0]?.field === spectrum.axes[0]?.field && axes.length === 1,
    );
    channels.offer(
      alike.map((each) => [String(each.id), short_name(each)]),
      String(spectrum.id),
    );
    const rebin = new Choice("rebin", (factor) => this.#show({ rebin: factor === "1" ? "" : factor }));
    rebin.offer(
      REBINS.map((factor) => [String(factor), factor === 1 ? "off" : `× ${factor}`]),
      String(this.#rebin()),
    );
    const overlay = new Choice("compare with", (value) => this.#show({ overlay: value }));
    overlay.offer([["", "–"]], "");
    void this.#offer_overlays(overlay, alike);
    const below = segments("Background", BACKGROUNDS, this.#background(), (background) => this.#show({ background }));
    const empty = button("reset", () => void this.#empty(), {
      title: "begin this spectrum anew; nothing recorded changes",
    });
    show(this.#copying, this.#is_time);
    show(this.#apply, false);
    const beside = panel(
      this.#is_time ? "Window" : "Peak",
      "beside",
      [],
      this.#hint,
      this.#facts.root,
      ...(this.#is_calibratable() ? [this.#calibrating()] : []),
      this.#copying,
      this.#times.root,
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
        this.#marking.root,
        button("zoom out", () => this.#show({ x: "" }), { key: "z" }),
        rebin.root,
        overlay.root,
        this.#is_time ? null : h("span", { class: "field" }, h("span", {}, "background"), below.root),
        ...choices(scene, of_view),
        exports(spectrum),
        empty,
      ),
      h(
        "div",
        { class: "large-body" },
        panel(
          spectrum.name,
          "large-plot",
          [
            h("span", { class: "quiet" }, spectrum.axes[0] ? labelled(spectrum.axes[0]) : ""),
            this.#plot.readout,
            this.#trouble,
          ],
          this.#plot.root,
        ),
        beside,
      ),
    );
  }

  /** Whether peaks of this spectrum can say what its channel's energy is in keV. */
  #is_calibratable(): boolean {
    const [axis] = this.spectrum.axes;
    return !this.#is_time && this.spectrum.channel !== null && axis?.field === "energy";
  }

  #calibrating(): HTMLElement {
    const take = (event: Event) => {
      event.preventDefault();
      const kev = Number(this.#kev.value);
      if (!this.#peak || !(kev > 0)) {
        notice(this.#peak ? "write the energy of the peak in keV" : "mark a peak first", true);
        return;
      }
      const centroid = this.#peak.centroid.value;
      const others = known_peaks(this.scene.shown.peaks).filter((each) => each.kev !== kev);
      this.#kev.value = "";
      this.#show({ peaks: from_known_peaks([...others, { centroid, kev }]) });
    };
    return h(
      "form",
      { class: "calibrating", onsubmit: take },
      h("label", { class: "field" }, h("span", {}, "its energy, keV"), this.#kev),
      h("button", { type: "submit" }, "calibrate with it"),
      button("forget", () => this.#show({ peaks: "" })),
    );
  }

  #ask_to_apply(): void {
    const line = calibration(known_peaks(this.scene.shown.peaks));
    const channel = this.spectrum.channel;
    if (!line || channel === null) return;
    ask_to_apply(
      {
        path: "/api/view/calibrate",
        body: { channel, energy_kev: coefficients(line) },
        lines: calibration_lines(channel, line),
        outcome: `From now on the energy of ${short_name(this.spectrum)} is shown in keV by this line: its calibrated spectrum begins anew, and so does what is cut or drawn in keV.`,
      },
      () => {
        // The peaks are in measured energies: they stay on the screen.
        this.#show({ raw: "1" });
        notice("applied: choose “keV” to see it");
      },
    );
  }

  #tell_calibration(): void {
    if (!this.#is_calibratable()) return;
    const peaks = known_peaks(this.scene.shown.peaks);
    const line = calibration(peaks);
    show(this.#copying, peaks.length > 0);
    show(this.#apply, line !== null);
    const heads = peaks.map(({ centroid, kev }) => `# ${kev} keV at ${Number(centroid.toPrecision(7))}`);
    const off = line?.residual_kev ? [`# ${line.residual_kev.toPrecision(2)} keV off the line, root mean square`] : [];
    const wanted = ["# one more peak of another energy makes a calibration"];
    const lines = line ? [...off, calibration_lines(this.spectrum.channel ?? 0, line)] : wanted;
    set_text(this.#lines_to_copy, [...heads, ...lines].join("\n"));
  }

  #show(changes: Record<string, string>): void {
    this.scene.show(changes);
    this.moved();
  }

  #go(id: number): void {
    const next = this.of_view.find((each) => each.id === id);
    if (!next) return;
    this.scene.show(
      next.channel === null
        ? { id: String(id), channel: "", peaks: "" }
        : { channel: String(next.channel), id: "", peaks: "" },
    );
    this.other_spectrum();
  }

  #step(by: number): void {
    const alike = this.of_view.filter(
      ({ at, axes }) => at === this.spectrum.at && axes[0]?.field === this.spectrum.axes[0]?.field,
    );
    const next = alike[alike.findIndex(({ id }) => id === this.spectrum.id) + by];
    if (next) this.#go(next.id);
  }

  #is_log(): boolean {
    return this.scene.shown.log ? this.scene.shown.log === "1" : !this.#is_time;
  }

  #rebin(): number {
    const factor = Number(this.scene.shown.rebin ?? 1);
    return REBINS.includes(factor) ? factor : 1;
  }

  #background(): "" | "shown" | "less" {
    return BACKGROUNDS.find(([value]) => value === this.scene.shown.background)?.[0] ?? "";
  }

  #overlaid(): Spectrum | undefined {
    return this.of_view.find(({ id }) => `live:${id}` === this.scene.shown.overlay);
  }

  async #offer_overlays(choice: Choice, alike: readonly Spectrum[]): Promise<void> {
    const live = alike
      .filter(({ id }) => id !== this.spectrum.id)
      .map((each) => [`live:${each.id}`, short_name(each)] as const);
    const chosen = () => this.scene.shown.overlay ?? "";
    choice.offer([["", "–"], ...live], chosen());
    const runs = await get<{ name: string; state?: string }[]>("/api/runs").catch(() => []);
    choice.offer(
      [
        ["", "–"],
        ...live,
        ...runs
          .filter(({ state }) => state !== "running")
          .slice(0, 30)
          .map(({ name }) => [`run:${name}`, name] as const),
      ],
      chosen(),
    );
  }

  async #load_saved(): Promise<void> {
    const run = (this.scene.shown.overlay ?? "").match(/^run:(.*)$/)?.[1] ?? "";
    if (run === this.#saved_run) return;
    [this.#saved_run, this.#saved] = [run, null];
    if (run === "") return;
    try {
      this.#saved = await saved_counts(run, this.spectrum);
      if (!this.#saved) notice(`${run} has no spectrum "${this.spectrum.name}" with these bins`, true);
    } catch (error) {
      notice(`${run}: ${in_words(error)}`, true);
    }
    this.#draw();
  }

  async #ask_window(): Promise<void> {
    this.#window_ps = coincidence_window_ps(await get<unknown>("/api/configuration").catch(() => null));
    this.#draw();
  }

  async #empty(): Promise<void> {
    try {
      await post("/api/spectra/reset", { ids: [this.spectrum.id] });
    } catch (error) {
      notice(in_words(error), true);
    }
  }

  #draw(): void {
    const axis = this.spectrum.axes[0];
    if (!this.#counts || !axis) return;
    const joined = rebinned(axis, this.#counts, this.#rebin());
    const below =
      this.#background() && !this.#is_time ? background(joined.counts, joined.axis.bins * BACKGROUND_WIDTH) : null;
    const counts =
      below && this.#background() === "less" ? joined.counts.map((n, bin) => n - (below[bin] ?? 0)) : joined.counts;
    const lines: Line[] = [{ name: short_name(this.spectrum), values: counts, style: "steps", colour: 0 }];
    const [compared, overlaid] = [this.#saved ?? this.#other, this.#overlaid()];
    if (compared)
      lines.push({
        name: this.#saved ? this.#saved_run : overlaid ? short_name(overlaid) : "",
        values: rebinned(axis, compared, this.#rebin()).counts,
        style: "steps",
        colour: 2,
      });
    if (below && this.#background() === "shown")
      lines.push({ name: "background", values: below, style: "dashed", colour: 6 });
    const x = Float64Array.from({ length: joined.axis.bins }, (_, bin) => axis.low + bin * bin_width(joined.axis));
    if (this.#is_time) this.#measure_window(joined.axis, joined.counts);
    else this.#measure_peak(joined.axis, counts, lines);
    this.#plot.set(x, lines);
  }

  #measure_window(axis: Axis, counts: Float64Array): void {
    const drawn = range(this.scene.shown.window);
    const limits =
      drawn ?? (this.#window_ps === null ? null : ([-this.#window_ps, this.#window_ps] as [number, number]));
    this.#plot.marks(limits && { limits, title: "window" });
    set_text(
      this.#hint,
      drawn
        ? "the window that you have drawn"
        : limits
          ? "the window of the running configuration"
          : "“set window”, then drag over the spectrum",
    );
    if (!limits) return;
    const [first, end] = bins_of(axis, ...limits);
    const inside = counts.slice(first, end).reduce((sum, n) => sum + n, 0);
    const all = counts.reduce((sum, n) => sum + n, 0);
    const low = axis.low + first * bin_width(axis);
    const fitted = fit_peak({ counts: counts.slice(first, end), low, bin_width: bin_width(axis) });
    // Time differences are often no Gaussian: γ and neutrons, or cables of several lengths. Then its numbers would say nothing.
    const peak = fitted?.goodness.fits ? fitted : null;
    const most = counts.slice(first, end).reduce((at, n, bin, all) => (n > (all[at] ?? 0) ? bin : at), 0);
    if (all === 0) set_text(this.#hint, this.#why_empty());
    const seconds = (value: number) => quantity(value * 1e-12, "s");
    const in_seconds = ({ value, deviation }: Measured) => measured_as(value * 1e-12, deviation * 1e-12, "s");
    this.#facts.show([
      ["from", seconds(limits[0])],
      ["to", seconds(limits[1])],
      ["counts inside", exact(inside)],
      ["of all", share(all > 0 ? inside / all : null)],
      ["highest at", inside > 0 ? seconds(low + (most + 0.5) * bin_width(axis)) : "–"],
      ["centroid", peak ? in_seconds(peak.centroid) : "–"],
      ["FWHM", peak ? in_seconds(peak.fwhm) : "–"],
      ["one Gaussian", fitted ? fit_fact(fitted.goodness) : "– no peak found"],
    ]);
    const reach = Math.max(Math.abs(limits[0]), Math.abs(limits[1]));
    set_text(this.#lines_to_copy, `[coincidence]\nwindow_ps = ${Math.ceil(reach)}`);
  }

  #measure_peak(axis: Axis, counts: Float64Array, lines: Line[]): void {
    const region = range(this.scene.shown.region);
    this.#plot.marks(region && { limits: region, title: "region" });
    this.#tell_calibration();
    if (!region) {
      this.#peak = null;
      set_text(this.#hint, "“mark a peak”, then drag over it: centroid, width and net area are fitted");
      this.#facts.show([["counts", exact(counts.reduce((sum, n) => sum + n, 0))]]);
      return;
    }
    const [first, end] = bins_of(axis, ...region);
    const inside = counts.slice(first, end);
    const low = axis.low + first * bin_width(axis);
    const peak = fit_peak({ counts: inside, low, bin_width: bin_width(axis) }, this.#background() !== "less");
    if (peak) {
      const over = (curve: Float64Array) =>
        Array.from({ length: counts.length }, (_, bin) =>
          bin >= first && bin < end ? (curve[bin - first] ?? null) : null,
        );
      lines.push(
        { name: "fit", values: over(peak.curve), style: "curve", colour: FIT_COLOUR },
        { name: "under it", values: over(peak.background), style: "dashed", colour: FIT_COLOUR },
      );
    }
    this.#peak = peak;
    const unfit = peak ? why_unfit(peak.goodness) : "";
    this.#hint.classList.toggle("refusal", unfit !== "");
    set_text(
      this.#hint,
      unfit
        ? `${unfit}; the numbers are rough and have no errors: mark one peak alone, or less of its tails`
        : peak
          ? "a Gaussian on a straight background, by likelihood"
          : "no peak can be told in this region: mark one peak with some background on both sides",
    );
    this.#facts.show(
      peak_facts(
        axis,
        inside.reduce((sum, n) => sum + n, 0),
        peak,
      ),
    );
  }
}

function peak_facts(axis: Axis, gross: number, peak: Peak | null): (readonly [string, string])[] {
  const unit = axis.unit ? ` ${axis.unit}` : "";
  if (!peak) return [["gross counts", exact(gross)]];
  const { fits } = peak.goodness;
  const told = ({ value, deviation }: Measured) => (fits ? measured(value, deviation) : rough(value));
  return [
    ["centroid", `${told(peak.centroid)}${unit}`],
    ["FWHM", `${told(peak.fwhm)}${unit}`],
    ["resolution", `${fits ? "" : "≈ "}${share(peak.resolution)} at ${count(Math.round(peak.centroid.value))}${unit}`],
    ["net area", told(peak.net_area)],
    ["gross counts", exact(gross)],
    ["fit", fit_fact(peak.goodness)],
  ];
}
