// Events: triggered runs. Which board is missing, how large events are, how long they are built, how often the trigger waits.

import { Plot } from "../draw/plot.js";
import { event_counts } from "../figures/channel_times.js";
import { count, quantity, rate, share, UNKNOWN } from "../figures/quantity.js";
import { ago, AGO_STEPS, elapsed } from "../figures/time.js";
import { logarithmic_ticks, tick, unit_tick } from "../figures/ticks.js";
import type { EventState, Kept, LiveState, Past } from "../live/generated.js";
import { History } from "../live/history.js";
import { Boards } from "../parts/boards.js";
import { Facts, panel } from "../parts/controls.js";
import { h, set_text, show } from "../parts/element.js";
import type { MakeScreen } from "./screen.js";

const busy = new History();
const IN_ONE_PIECE = "events were there at once: all their fragments came in one batch";
// In the order in which the builder counts them.
const CLOSED = ["complete", "too old", "too many open", "at the end", "unit lost"];

/** Notes what is drawn over time; called with every state, whatever screen is shown. */
export function note_busy({ recent_busy_fraction }: LiveState): void {
  // Where builder units are elsewhere, nobody here knows.
  if (typeof recent_busy_fraction !== "number") return;
  busy.note(Date.now() / 1000, new Map([["busy", recent_busy_fraction * 100]]));
}

/** Draws what was before this page was opened, too. */
export function fill_busy(now_seconds: number, past: Past): void {
  const percent = (share: number | null | undefined) => (typeof share === "number" ? share * 100 : null);
  const moment = (ago: number, place: number) => ({
    at_seconds: now_seconds - ago,
    values: new Map([["busy", percent(past.busy[place])]]),
  });
  if (past.busy.some((share) => share !== null)) busy.fill(past.ago_seconds.map(moment));
}

/** Makes the screen. */
export const events_screen: MakeScreen = () => {
  const boards = new Boards();
  const facts = new Facts();
  const unit_plot = (label: string, unit: string) =>
    new Plot({
      label,
      along_x: (power) => unit_tick(10 ** power, unit),
      ticks: logarithmic_ticks,
      height: 200,
      empty: "no event has been built yet",
    });
  const sizes = unit_plot("Event sizes", "B");
  const latency = unit_plot("Time to build an event", "s");
  const multiplicity = new Plot({
    label: "Multiplicity of coincidences",
    along_x: tick,
    height: 200,
    empty: "no coincidence yet",
  });
  const busy_plot = new Plot({
    label: "Busy share, last ten minutes",
    along_x: ago,
    steps: AGO_STEPS,
    along_y: (percent) => `${tick(percent)} %`,
    height: 200,
    empty: "no busy yet",
  });
  const none = h(
    "p",
    { class: "empty" },
    "no events are built: this configuration has neither triggered sources nor [coincidence]",
  );
  const multiplicity_panel = panel("Multiplicity of coincidences", "", [multiplicity.readout], multiplicity.root);
  const triggered = [
    panel("Boards by completeness", "wide boards-panel", [boards.summary], boards.root),
    panel("Now", "", [], facts.root),
    panel("Event size", "", [sizes.readout], sizes.root),
    panel("Time to build", "", [latency.readout], latency.root),
    panel("Busy", "", [busy_plot.readout], busy_plot.root),
  ];
  let last_drawn = 0;
  return {
    root: h("div", { class: "screen events-screen" }, none, ...triggered, multiplicity_panel),
    update({ state }) {
      const { events, coincidences } = state;
      show(none, !events && !coincidences);
      triggered.forEach((each) => show(each, !!events));
      show(multiplicity_panel, !!coincidences);
      if (events) {
        boards.show(events.completeness);
        facts.show(event_facts(events, state));
      }
      if (performance.now() - last_drawn < 480) return;
      last_drawn = performance.now();
      if (events) draw(events, sizes, latency, busy_plot);
      const seen = coincidences?.multiplicity ?? [];
      const last = seen.findLastIndex((n) => n > 0);
      if (last >= 0)
        multiplicity.set(
          Array.from({ length: last + 2 }, (_, hits) => hits),
          [{ name: "events", values: [...seen.slice(0, last + 1), 0], style: "steps" }],
        );
      set_text(none, none.textContent ?? "");
    },
    leave: () => [sizes, latency, multiplicity, busy_plot].forEach((plot) => plot.destroy()),
  };
};

function draw(events: EventState, sizes: Plot, latency: Plot, busy_plot: Plot): void {
  distribution(sizes, events.event_bytes, 1, "events without a byte");
  distribution(latency, events.build_ns, 1e-9, IN_ONE_PIECE);
  const [times, ...lines] = busy.columns();
  const latest = times.at(-1) ?? 0;
  busy_plot.set(
    times.map((time) => time - latest),
    lines.map((values) => ({ name: "busy", values, style: "curve" as const, colour: 5 })),
  );
}

// Bins grow with the value, so they are drawn over its logarithm, as counts per bin.
// Zero has no place there; where there is nothing else, that is said.
function distribution(plot: Plot, bins: EventState["event_bytes"], scale: number, of_nothing: string): void {
  const filled = bins.filter(([low, n]) => low > 0 && n > 0);
  const nothing = bins.find(([low]) => low === 0)?.[1] ?? 0;
  if (filled.length === 0 && nothing > 0) plot.say(`${count(nothing)} ${of_nothing}`);
  if (filled.length === 0) return;
  const x = filled.map(([low]) => Math.log10(low * scale));
  const width = x.length > 1 ? Math.min(...x.slice(1).map((each, index) => each - (x[index] ?? 0))) : 0.05;
  const padded_x = [(x[0] ?? 0) - 3 * width, ...x, (x.at(-1) ?? 0) + width, (x.at(-1) ?? 0) + 4 * width];
  plot.set(padded_x, [{ name: "events", values: [0, ...filled.map(([, n]) => n), 0, 0], style: "steps" }]);
}

/** What the event filter has done, in a run with one. */
function selection_facts(selection: EventState["selection"]): (readonly [string, string])[] {
  if (!selection) return [];
  const { rejected, prescaled, undecided_kept, undecided_lost } = selection;
  const others: (readonly [string, number])[] = [
    ["rejected, recorded to monitor", prescaled],
    ["undecided, recorded", undecided_kept],
    ["undecided, lost", undecided_lost],
  ];
  return [
    ["rejected by the filter", count(rejected)],
    ...others.filter(([, n]) => n > 0).map(([what, n]) => [what, count(n)] as const),
  ];
}

function recorded({ events_kept, events_recorded }: EventState): string {
  const words: Record<Kept, string> = { rows: count(events_recorded), raw_bytes: "raw bytes", nothing: "nothing" };
  return words[events_kept];
}

function event_facts(
  events: EventState,
  { trigger, busy_time, recent_busy_fraction }: LiveState,
): (readonly [string, string])[] {
  const { closed } = events;
  const built = closed.reduce((sum, n) => sum + n, 0);
  return [
    ["events", rate(events.event_rate_hz)],
    ["recorded", recorded(events)],
    ...selection_facts(events.selection),
    ["complete", built > 0 ? share(closed[0] / built) : "–"],
    ["partial", count(events.events_partial)],
    ["size, median", quantity(events.median_event_bytes, "B")],
    ["built within, median", seconds(events.median_build_ns)],
    ["99 % within", seconds(events.p99_build_ns)],
    ["open now", count(events.open_events)],
    ["held", quantity(events.held_bytes, "B")],
    ["BUSY, last seconds", `${events.busy ? "▲ now, " : ""}${share(recent_busy_fraction)}`],
    ["live time", busy_time ? elapsed(busy_time.live_seconds) : UNKNOWN],
    ["time BUSY", share(busy_time?.fraction)],
    ["triggers refused", trigger ? count(trigger.refused) : UNKNOWN],
    ["of all offered", share(trigger?.dead_time_fraction)],
    ...event_counts(events.normalised),
    ...closed
      .slice(1)
      .map((n, index) => [`closed ${CLOSED[index + 1] ?? index + 1}`, count(n)] as const)
      .filter(([, n]) => n !== "0"),
  ];
}

function seconds(ns: number): string {
  return ns === 0 ? "at once" : quantity(ns * 1e-9, "s");
}
