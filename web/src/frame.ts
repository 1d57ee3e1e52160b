// The frame around every screen: the bar that always tells how the run stands, the way to the screens, the keys.

import { parsed, SCREENS, written, type ScreenName } from "./figures/address.js";
import { exact, rate, share, UNKNOWN } from "./figures/quantity.js";
import { elapsed, lasting } from "./figures/time.js";
import { STALE_SECONDS, type Connection, type Known } from "./live/connection.js";
import type { DeadTimeOf, LiveState } from "./live/generated.js";
import { is_taking, losses, standing } from "./live/state.js";
import { in_words, lost_words, share_words } from "./draw/flow_layout.js";
import { button } from "./parts/controls.js";
import { h, set, set_text, show } from "./parts/element.js";
import { ask, ask_for_run, ask_to_stop } from "./parts/start_run.js";
import { is_dark, on_theme, toggle_theme } from "./parts/theme.js";
import type { MakeScreen, Screen } from "./screens/screen.js";
import { title_of } from "./screens/run.js";

const NAMES: Record<ScreenName, string> = {
  run: "Run",
  spectra: "Spectra",
  pulses: "Pulses",
  events: "Events",
  runs: "Runs",
  system: "System",
};

// Above this, somebody should know: a tenth of what happened was not taken.
const MUCH_DEAD = 0.1;

// An hour: after that a shifter has to do something tonight.
const DISK_SHORT_SECONDS = 3600;

/** The page but for its screens. */
export class Frame {
  readonly #bar = new Bar();
  readonly #links = new Map<ScreenName, HTMLAnchorElement>();
  readonly #main = h("main", { tabindex: -1 });
  #screen: Screen | null = null;
  #name: ScreenName | null = null;
  #shown: Record<string, string> = {};

  constructor(
    private readonly connection: Connection,
    private readonly screens: Record<ScreenName, MakeScreen>,
  ) {
    const links = SCREENS.map((name, index) => {
      const link = h("a", { href: `#/${name}`, title: `${NAMES[name]} (${index + 1})` }, NAMES[name]);
      this.#links.set(name, link);
      return link;
    });
    document.body.append(this.#bar.root, h("nav", { class: "screens", "aria-label": "Screens" }, ...links), this.#main);
    addEventListener("hashchange", () => this.#go());
    addEventListener("keydown", (event) => this.#pressed(event));
    connection.listen((known) => this.#heard(known));
    this.#go();
  }

  #heard(known: Known): void {
    document.body.classList.toggle("stale", known.age_seconds > STALE_SECONDS);
    this.#bar.show(known);
    this.#update(known);
  }

  // Before the first state there is nothing to show.
  #update(known: Known): void {
    const { state } = known;
    if (state) this.#screen?.update({ ...known, state });
  }

  #go(): void {
    const { screen, shown } = parsed(location.hash);
    this.#shown = shown;
    if (screen === this.#name) {
      this.#screen?.moved?.();
      return;
    }
    this.#screen?.leave();
    this.#name = screen;
    this.#links.forEach((link, name) => set(link, "aria-current", name === screen ? "page" : null));
    const frame = this;
    const made = this.screens[screen]({
      get shown() {
        return frame.#shown;
      },
      show: (changes) => this.#change(changes),
    });
    this.#screen = made;
    this.#main.replaceChildren(h("h1", { class: "unseen" }, NAMES[screen]), made.root);
    this.#main.scrollTop = 0;
    this.#update(this.connection.known());
  }

  // In place: what is shown is in the address at every moment, and "back" still leads to the screen before.
  #change(changes: Record<string, string>): void {
    const merged = Object.entries({ ...this.#shown, ...changes }).filter(([, value]) => value !== "");
    this.#shown = Object.fromEntries(merged);
    history.replaceState(null, "", written({ screen: this.#name ?? "run", shown: this.#shown }));
  }

  #pressed(event: KeyboardEvent): void {
    const { target, key } = event;
    const is_typing = target instanceof HTMLElement && target.matches("input, textarea, select");
    // Out of a field, so that the keys work again.
    if (is_typing && key === "Escape") target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || is_typing || document.querySelector("dialog[open]")) return;
    const screen = SCREENS[Number(key) - 1];
    if (screen) location.hash = written({ screen, shown: {} });
    else if (key === "?") help();
    else if (key === "t") toggle_theme();
    else if (
      !(key === "Enter" && target instanceof HTMLElement && target.matches("a, button")) &&
      this.#screen?.key?.(key)
    )
      event.preventDefault();
  }
}

/** The bar at the top. */
class Bar {
  readonly root: HTMLElement;
  readonly #state = h("span", { class: "run-state", role: "status" });
  readonly #run = h("span", { class: "run-title" });
  readonly #elapsed = h("b");
  readonly #rate = h("b");
  readonly #lost = h("b");
  readonly #why = h("span", { class: "why" });
  readonly #dead = h("b");
  readonly #live = h("span", { class: "why" });
  readonly #disk = h("b");
  readonly #start = button("start …", ask_for_run, { class: "main" });
  readonly #pause = button("pause", () => void ask(this.#is_paused ? "/api/run/resume" : "/api/run/pause"));
  readonly #stop = button("stop", () => ask_to_stop(this.#name));
  readonly #no_next = button("no next run", () => void ask("/api/run/stop"));
  readonly #theme = button("", toggle_theme, { class: "quiet-button" });
  readonly #age = h("div", { class: "age", role: "alert", hidden: true });
  readonly #title = document.querySelector("title") ?? document.createElement("title");
  #is_paused = false;
  #name = "the run";

  constructor() {
    set_text(this.#state, "○ unknown");
    set_text(this.#run, "no run");
    show(this.#pause, false);
    show(this.#stop, false);
    show(this.#no_next, false);
    const value = (name: string, text: string, ...children: HTMLElement[]) =>
      h("div", { class: `value ${name}` }, h("span", {}, text), ...children);
    this.root = h(
      "header",
      { class: "bar" },
      h("div", { class: "identity" }, this.#state, this.#run),
      value("elapsed", "elapsed", this.#elapsed),
      value("rate", "accepted", this.#rate),
      value("losses", "lost", this.#lost, this.#why),
      value("dead-time", "dead time", this.#dead, this.#live),
      value("disk", "disk left", this.#disk),
      h(
        "div",
        { class: "commands" },
        this.#start,
        this.#pause,
        this.#stop,
        this.#no_next,
        this.#theme,
        button("?", help, { class: "quiet-button", title: "keys" }),
      ),
      this.#age,
    );
    const show_theme = () => {
      set_text(this.#theme, is_dark() ? "☀" : "☾");
      set(this.#theme, "title", `${is_dark() ? "light" : "dark"} (t)`);
      set(this.#theme, "aria-label", `change to ${is_dark() ? "light" : "dark"}`);
    };
    show_theme();
    on_theme(show_theme);
  }

  /** Shows what is known. */
  show(known: Known): void {
    if (known.state) this.#show_state(known.state);
    this.#show_age(known);
  }

  #show_state(state: LiveState): void {
    const word = state.state;
    const dead = state.dead_time?.recent_fraction ?? state.dead_time?.fraction ?? null;
    const is_dead = is_taking(state) && (dead ?? 0) > MUCH_DEAD;
    const { sign, text, level } = standing(state, is_dead);
    set_text(this.#state, `${sign} ${text}`);
    set(this.#state, "class", `run-state ${level}`);
    const { number, title, comment } = state.run;
    this.#name = number ? `run ${number}` : "the run";
    const kept = state.run.keeps_data ? "" : " · data not kept";
    set_text(this.#run, number ? `${this.#name}${title ? ` · ${title}` : ""}${kept}` : "no run");
    set(this.#run, "title", comment);
    set_text(this.#elapsed, elapsed(state.elapsed_seconds));
    set_text(this.#rate, accepted(state));
    this.#show_losses(state);
    this.#show_dead_time(state, dead, is_dead);
    set_text(this.#disk, state.disk_left_seconds === null ? UNKNOWN : lasting(state.disk_left_seconds));
    this.#disk.classList.toggle("short", (state.disk_left_seconds ?? Infinity) < DISK_SHORT_SECONDS);
    this.#is_paused = word === "paused";
    set_text(this.#pause, this.#is_paused ? "resume" : "pause");
    show(this.#start, !is_taking(state) && word !== "stopping");
    show(this.#pause, is_taking(state));
    show(this.#stop, is_taking(state));
    show(this.#no_next, state.next_run_seconds !== null);
    title_of(state, this.#title);
  }

  #show_age({ age_seconds, connected, refusal }: Known): void {
    const is_stale = age_seconds > STALE_SECONDS;
    show(this.#age, is_stale);
    if (is_stale)
      set_text(
        this.#age,
        `${connected ? "nothing heard" : "not connected"} for ${lasting(Math.floor(age_seconds)).replace(".0", "")}${refusal ? `: ${refusal}` : ""} – trying again by itself`,
      );
  }

  #show_losses(state: LiveState): void {
    const found = losses(state);
    const lost = state.lost_in;
    const [most] = lost;
    const is_lost = most !== undefined;
    set_text(this.#lost, is_lost ? lost.map(lost_words).join(", ") : "0");
    this.#lost.parentElement?.classList.toggle("lost", is_lost);
    const [part, worst] = [most ? share_words(most) : "", found.find(({ unit }) => unit === most?.unit) ?? found[0]];
    const why = worst ? [worst.reason.replaceAll("_", " "), worst.source].filter(Boolean).join(", ") : "";
    set_text(this.#why, is_lost ? [part, why].filter(Boolean).join(" · ") : "");
    const every = [...lost.map((each) => `${lost_words(each)} lost`), ...found.map(in_words)].join("\n");
    set(this.#why, "title", every);
    set(this.#lost, "title", every);
  }

  #show_dead_time(state: LiveState, dead: number | null, is_much: boolean): void {
    const { trigger } = state;
    const holder = this.#dead.parentElement;
    // Nobody reports it of a run without a trigger whose boards do not know: then it is not zero, but not known.
    set_text(this.#dead, dead === null ? UNKNOWN : share(dead));
    holder?.classList.toggle("much", is_much);
    const live = state.dead_time?.live_seconds;
    set_text(this.#live, typeof live === "number" ? `live ${elapsed(live)}` : "");
    const refused = trigger ? `${exact(trigger.refused)} of ${exact(trigger.offered)} triggers refused` : "";
    const why = dead_time_of(state);
    if (holder) set(holder, "title", [why, refused].filter(Boolean).join("\n"));
  }
}

/** What the dead time in the bar is a part of. */
function dead_time_of({ dead_time }: LiveState): string {
  if (!dead_time) return "nobody reports dead time";
  const since = dead_time.recent_fraction === null ? "since the start" : "of the last seconds";
  const of: Record<DeadTimeOf, string> = {
    triggers: `of the triggers ${since}, those refused`,
    busy: `of the time ${since}, that BUSY`,
    boards: `of the time ${since}, that of the source that was dead longest, as its boards report it`,
  };
  return of[dead_time.of];
}

function accepted({ run, ordered_rate_hz, recorded_rate_hz, events }: LiveState): string {
  if (!run.keeps_data && !events) return rate(ordered_rate_hz);
  return rate(events && !recorded_rate_hz ? events.event_rate_hz : recorded_rate_hz);
}

const KEYS = [
  ["1 – 6", "screens"],
  ["l", "linear or logarithmic"],
  ["z", "zoom out"],
  ["m", "mark a peak or a window"],
  ["p, r", "polygon, rectangle (planes)"],
  ["← →", "neighbouring spectrum"],
  ["f, p", "freeze, persistence (pulses)"],
  ["n, /", "new run, search (runs)"],
  ["t", "light or dark"],
  ["Esc", "back"],
  ["?", "this"],
] as const;

function help(): void {
  const dialog = h(
    "dialog",
    { "aria-label": "Keys" },
    h(
      "form",
      { method: "dialog" },
      h("h2", {}, "Keys"),
      h(
        "dl",
        { class: "facts keys" },
        ...KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what))),
      ),
      h("div", { class: "tools" }, h("button", { type: "submit", autofocus: true }, "close")),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
