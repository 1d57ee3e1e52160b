// Run: is it all right? The ledger as a flow, the channels by rate, the boards over time, and what the system has to say.

import { ChannelCells, RateBar } from "../draw/cells.js";
import { FlowDrawing } from "../draw/flow.js";
import { Plot } from "../draw/plot.js";
import { count, measured_as, plain, quantity, rate, share } from "../figures/quantity.js";
import { ago, AGO_STEPS, elapsed, lasting } from "../figures/time.js";
import { written } from "../figures/address.js";
import type { ClockState, CopyState, Kept, LiveState, Past, RunState } from "../live/generated.js";
import { History } from "../live/history.js";
import { flow_of, source_rate } from "../live/lanes.js";
import { in_words, LossHistory } from "../live/loss_history.js";
import { Facts, panel } from "../parts/controls.js";
import { h, set_text, show } from "../parts/element.js";
import { Boards } from "../parts/boards.js";
import { Messages } from "../parts/messages.js";
import { NewNote } from "../parts/notes.js";
import { SlowControl } from "../parts/slow_control.js";
import type { MakeScreen } from "./screen.js";

/** Rates of the boards, kept while other screens are shown. */
const rates = new History();
/** Their losses. */
const lost = new LossHistory();

// A run that has begun and not ended takes no notes for the next one, which would be mistaken for its own.
const UNDER_WAY: readonly RunState[] = ["running", "paused", "stopping"];

// More lines than this cannot be distinguished: of more boards, the fastest and the slowest are drawn.
const MOST_LINES = 8;

// Files of tables are proved when they are closed, or some batches at a time: a pause of this length says nothing.
const SILENT_SECONDS = 60;

/** Notes what is drawn over time; called with every state, whatever screen is shown. */
export function note_rates(state: LiveState): void {
  const now = new Map(state.sources.map((source) => [source.name, source_rate(source)]));
  if (now.size > 0) rates.note(Date.now() / 1000, now);
  lost.note(Date.now() / 1000, state);
}

/** Draws what was before this page was opened, too. */
export function fill_rates(now_seconds: number, { ago_seconds, sources, losses }: Past): void {
  const moment = (ago: number, place: number) => ({
    at_seconds: now_seconds - ago,
    values: new Map(sources.map(({ source, rates_hz }) => [source, rates_hz[place] ?? null])),
  });
  rates.fill(ago_seconds.map(moment));
  lost.fill(
    losses.map(({ from_ago_seconds, until_ago_seconds, losses }) => ({
      from_seconds: now_seconds - from_ago_seconds,
      until_seconds: now_seconds - until_ago_seconds,
      losses,
    })),
  );
}

/** Makes the screen. */
export const run_screen: MakeScreen = () => {
  const flow_panel = panel("From the boards to the disk", "wide", []);
  const flow = new FlowDrawing(flow_panel);
  const bar = new RateBar();
  const cells = new ChannelCells((channel) => written({ screen: "spectra", shown: { channel: String(channel) } }));
  const cells_panel = panel("Channels", "cells-panel", [bar.root], cells.root);
  const boards = new Boards();
  const boards_panel = panel("Boards by completeness", "boards-panel", [boards.summary], boards.root);
  const plot = new Plot({
    label: "Rate of each board, last ten minutes",
    along_x: ago,
    steps: AGO_STEPS,
    ends: true,
    height: 210,
    empty: "rates are drawn while a run takes data",
  });
  const messages = new Messages();
  let run: string | null = null;
  const new_note = new NewNote(() => (run === null ? null : { run }));
  const next_note = new NewNote(() => "next", "note for the next run");
  const facts = new Facts();
  const clocks = new Facts();
  const clocks_panel = panel("Clocks", "one-column", [], clocks.root);
  const copies = new Facts();
  const copies_panel = panel("Copies elsewhere", "one-column", [], copies.root);
  const slow_control = new SlowControl();
  const values_panel = panel("Slow control", "", [], slow_control.values.root);
  const series_panel = panel("Slow control over time", "", [], slow_control.plots);
  const root = h(
    "div",
    { class: "screen run-screen" },
    flow_panel,
    h(
      "div",
      { class: "left column" },
      boards_panel,
      cells_panel,
      panel("Rate of each board", "", [plot.readout], plot.root),
      series_panel,
    ),
    h(
      "div",
      { class: "right column" },
      panel("Messages", "messages-panel", [], new_note.root, next_note.root, messages.root),
      panel("Now", "", [], facts.root),
      copies_panel,
      values_panel,
      clocks_panel,
    ),
  );
  let last_drawn = 0;
  return {
    root,
    update({ state }) {
      const now = performance.now();
      flow.show(flow_of(state));
      messages.show(state);
      run = state.run.name;
      show(new_note.root, run !== null);
      show(next_note.root, !UNDER_WAY.includes(state.state));
      facts.show(now_facts(state));
      const completeness = state.events?.completeness ?? [];
      show(boards_panel, completeness.length > 0);
      boards.show(completeness);
      clocks.show(state.clocks.map(clock_fact));
      show(clocks_panel, state.clocks.length > 0);
      copies.show(state.copies.flatMap((copy) => copy_facts(copy, state.disk_left_seconds)));
      show(copies_panel, state.copies.length > 0);
      slow_control.show(state);
      const has_series = Object.keys(state.series).length > 0;
      show(values_panel, has_series);
      show(series_panel, has_series);
      if (now - last_drawn < 480) return;
      last_drawn = now;
      const has_channels = state.sources.some(({ channels }) => channels.length > 0);
      show(cells_panel, has_channels);
      bar.show(cells.show(state.sources));
      draw_rates(plot);
      if (has_series) slow_control.draw();
    },
    leave: () => {
      plot.destroy();
      slow_control.destroy();
    },
  };
};

function draw_rates(plot: Plot): void {
  const [times, ...lines] = rates.columns();
  const latest = times.at(-1) ?? 0;
  const names = rates.names();
  const named = lines.map((values, index) => ({ name: names[index] ?? "", values, colour: index }));
  const by_rate =
    named.length > MOST_LINES ? named.toSorted((a, b) => (b.values.at(-1) ?? 0) - (a.values.at(-1) ?? 0)) : named;
  const drawn =
    by_rate.length > MOST_LINES ? [...by_rate.slice(0, MOST_LINES / 2), ...by_rate.slice(-MOST_LINES / 2)] : by_rate;
  plot.bands(
    lost
      .marks()
      .map((mark) => ({ limits: [mark.from_seconds - latest, mark.until_seconds - latest], words: in_words(mark) })),
  );
  plot.set(
    times.map((time) => time - latest),
    drawn.map((line, index) => ({ ...line, colour: named.length > MOST_LINES ? index : line.colour })),
  );
}

const HITS_KEPT: Record<Kept, string> = {
  rows: "hits recorded",
  raw_bytes: "hits, raw bytes kept",
  nothing: "hits, not recorded",
};

function now_facts(state: LiveState): (readonly [string, string])[] {
  const has_hits = !state.events || state.sources.some(({ kind }) => kind === "hits");
  const of_hits: (readonly [string, string])[] = [
    [HITS_KEPT[state.hits_kept], count(state.hits_recorded)],
    ["hit rate", rate(state.recorded_rate_hz)],
  ];
  const facts: (readonly [string, string])[] = [
    ...(has_hits ? of_hits : []),
    ["written", quantity(state.bytes_recorded, "B")],
    ["disk free", quantity(state.disk_free_bytes, "B")],
  ];
  if (state.coincidences) facts.push(["coincidences", `${rate(state.coincidences.rate_hz)}`]);
  const { events } = state;
  if (events) {
    facts.push(
      ["events", rate(events.event_rate_hz)],
      ["event size, median", quantity(events.median_event_bytes, "B")],
    );
    facts.push(
      ["built within, median", events.median_build_ns === 0 ? "at once" : quantity(events.median_build_ns * 1e-9, "s")],
      ["BUSY, last seconds", share(state.recent_busy_fraction)],
    );
  }
  if (state.busy_time)
    facts.push(["live time", elapsed(state.busy_time.live_seconds)], ["time BUSY", share(state.busy_time.fraction)]);
  if (state.trigger) facts.push(["triggers refused", share(state.trigger.dead_time_fraction)]);
  for (const { name, dead_time } of state.sources)
    if (dead_time) facts.push([`dead time, ${name}`, share(dead_time.fraction)]);
  for (const { name, in: into, kept } of state.cuts)
    facts.push([`cut ${name}`, into ? `keeps ${share(kept / into)}` : "–"]);
  // Of what the spectra show, and not of what is recorded: said on the screen that everybody looks at.
  const applied = state.applied.length;
  if (applied > 0) facts.push(["applied to spectra", applied === 1 ? "1 change" : `${applied} changes`]);
  return facts;
}

// What is behind and for how long, then how much of this run is there: the ledger of the stage ship.
function copy_facts(copy: CopyState, disk_left_seconds: number | null): (readonly [string, string])[] {
  const { to, recorded, proved, refused, backlog_bytes, runs_behind, silent_seconds } = copy;
  const runs = runs_behind === 1 ? "1 run" : `${runs_behind} runs`;
  const behind = backlog_bytes === 0 ? "● up to date" : `${quantity(backlog_bytes, "B")} of ${runs} to go`;
  const silent = silent_seconds < SILENT_SECONDS ? "" : `, ▲ nothing proved for ${lasting(silent_seconds)}`;
  const full = backlog_bytes === 0 || disk_left_seconds === null ? "" : `, disk full in ${lasting(disk_left_seconds)}`;
  const refusal = refused.bytes === 0 ? "" : `, ▲ ${quantity(refused.bytes, "B")} refused`;
  const balance = copy.balances === false ? ", ▲ the ledger does not balance" : "";
  const here = `${quantity(proved.bytes, "B")} of ${quantity(recorded.bytes, "B")} proved${refusal}${balance}`;
  return [
    [to, `${behind}${silent}${full}`],
    [`this run at ${to}`, here],
  ];
}

function clock_fact({
  source,
  reference,
  offset_ps,
  offset_error_ps,
  drift_ppb,
  offset_at_start_ps,
  locked,
}: ClockState): readonly [string, string] {
  const offset =
    offset_ps === null ? "no peak found" : measured_as(offset_ps * 1e-12, (offset_error_ps ?? 0) * 1e-12, "s");
  const drift = drift_ppb === null ? "" : `, drifts ${plain(Number(drift_ppb.toPrecision(3)))} ppb`;
  const at_start = offset_at_start_ps === null ? "" : ` from ${plain(Math.round(offset_at_start_ps))} ps at run start`;
  return [`${source} − ${reference}`, `${locked ? "●" : "▲ not locked,"} ${offset}${drift}${at_start}`];
}

/** Kept for the title of the page: the state in a word. */
export function title_of({ run, state }: LiveState, element: Element): void {
  set_text(element, run.number ? `run ${run.number} · ${state} · thalweg` : "thalweg");
}
