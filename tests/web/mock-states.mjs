// The live state of two experiments that never were: eight digitizers at a neutron source, and 24 boards behind a trigger.

import { utc_ago } from "./mock-host.mjs";

export const BOARDS = 8;
export const CHANNELS = 16;
const TRIGGERED_BOARDS = 24;

/** What is the same in both, and of a run in which nothing has happened. */
export function live_state(run, elapsed_seconds) {
  const end = { seconds: null, hits: null, events: null };
  const { number = 0, title = "", comment = "" } = run ?? {};
  const run_directory = run ? `runs/run${number}` : "";
  return {
    sequence: Math.floor(elapsed_seconds * 20),
    paused_by: null,
    next_run_seconds: null,
    run: {
      number,
      name: run ? `run${number}` : null,
      title,
      comment,
      elapsed_seconds,
      limits: end,
      directory: run_directory,
      keeps_data: true,
    },
    title,
    run_directory,
    elapsed_seconds,
    end,
    ordered_rate_hz: 0,
    rate_window_seconds: 2.5,
    coincidences_recorded: null,
    busy: false,
    applied: [],
    trigger: null,
    busy_time: null,
    recent_busy_fraction: null,
    lost_in: [],
    dead_time: null,
    lost: 0,
    loss: [],
    losses: [],
    refused: [],
    snapshots: 0,
    discrepancies: [],
    failures: [],
    copies: [],
    alarms: [],
    series: {},
  };
}

/** What the ledger has of a loss, and the line of the flow with it. */
function lost_here(path, loss) {
  const { unit, count, quality } = loss;
  const lost_in = [{ unit, count, quality, share: null, share_now: null }];
  return { path, lost: count, ...(count > 0 ? { lost_in, losses: [loss] } : {}) };
}

/** A source, without what is counted of it. */
function source(name, more) {
  const counted = { hits: 0, fragments: 0, bytes: 0, lost_rate_hz: 0, loss: null, dead_time: null, boards: 0 };
  return { name, ...counted, pool_bytes: 16_777_216, drop_counters: {}, ...more };
}

function rate(board, channel) {
  if (board === 3 && channel === 11) return 0;
  const wobble = 1 + 0.04 * Math.sin(Date.now() / 7000 + board) + 0.01 * Math.sin(Date.now() / 900 + channel);
  return 25_000 * (1.15 - 0.08 * board) * Math.exp(-(((channel - 7.5) / 6) ** 2)) * wobble;
}

/** What stands over the stages, as the server says it. */
const HEADINGS = {
  wire: "on the wire",
  receive: "received",
  raw: "kept raw",
  unpack: "framed",
  decode: "decoded",
  order: "ordered",
  coincide: "coincident",
  build: "built",
  record: "recorded",
};

/** A line of the flow, whose totals grow with its rates. */
function line(experiment, stage, unit, in_rate_hz, out_rate_hz, ring_fill, more = {}) {
  const [into, out] = [experiment.total(`${stage} in`, in_rate_hz), experiment.total(`${stage} out`, out_rate_hz)];
  return {
    path: "hits",
    stage,
    stands_apart: false,
    heading: HEADINGS[stage] ?? stage,
    filtered_as: stage === "coincide" ? "single" : stage === "record" ? "not recorded" : "filtered",
    unit,
    in_rate_hz,
    out_rate_hz,
    filtered_rate_hz: 0,
    in: into,
    out,
    filtered: 0,
    held: 0,
    lost: 0,
    lost_in: [],
    losses: [],
    ring_fill,
    ...more,
  };
}

function digitizer(board, taking, lost) {
  const channels = Array.from({ length: CHANNELS }, (_, channel) => ({
    channel: board * CHANNELS + channel,
    name: `${board}-${String(channel).padStart(2, "0")}`,
    group: board < 4 ? "ring" : "wall",
    enabled: true,
    rate_hz: taking ? rate(board, channel) : 0,
    hits: 0,
    live_time_s: null,
    live_time_quality: "unknown",
    dead_time_fraction: null,
    corrected_hits: 0,
    corrected_quality: "exact",
    corrected_rate_hz: null,
    corrected_rate_uncertainty_hz: null,
  }));
  const hit_rate_hz = channels.reduce((sum, { rate_hz }) => sum + rate_hz, 0);
  const rates = { hit_rate_hz, fragment_rate_hz: 0, byte_rate_hz: hit_rate_hz * 16 };
  return source(`digitizer ${board}`, {
    kind: "hits",
    links: 0,
    ...rates,
    lost: board === 5 ? lost : 0,
    ring_fill: 0.04 + 0.02 * board,
    pool_fill: 0.11,
    channels,
  });
}

/** Eight digitizers of 16 channels, with coincidence and a cut; one of them loses a little. */
export function hits_state(experiment, taking) {
  const [seconds, lost] = [experiment.elapsed(), experiment.lost()];
  const sources = Array.from({ length: BOARDS }, (_, board) => digitizer(board, taking, lost));
  const all = sources.reduce((sum, { hit_rate_hz }) => sum + hit_rate_hz, 0);
  const [coincident, cut] = [all * 0.125, all * 0.097];
  const gap = {
    reason: "datagram_gap",
    source: "digitizer 5",
    stage: "receive",
    unit: "datagrams",
    count: lost,
    of: 1e9,
    quality: "exact",
    advice: "the kernel's receive buffer overflowed: raise net.core.rmem_max to 64 MiB",
  };
  const flow = [
    line(experiment, "receive", "datagrams", all / 480, all / 480, 0.06, lost_here("hits", gap)),
    line(experiment, "decode", "hits", all, all, 0.14),
    line(experiment, "order", "hits", all, all, 0.31, { held: 41_200 }),
    line(experiment, "coincide", "hits", all, coincident, 0.02, {
      filtered: experiment.total("single", all - coincident),
      filtered_rate_hz: all - coincident,
    }),
    line(experiment, "cut", "hits", coincident, cut, 0.01, {
      filtered: experiment.total("cut", coincident - cut),
      filtered_rate_hz: coincident - cut,
    }),
    line(experiment, "record", "hits", cut, cut, 0.22),
  ];
  const clock = (board) => ({
    source: `digitizer ${board}`,
    reference: "digitizer 0",
    offset_ps: 812.4 * board,
    offset_error_ps: 11.2,
    drift_ppb: 0.62 * board,
    offset_at_start_ps: 192.4 * board,
    locked: true,
    measured_at_s: 1,
  });
  return {
    sources,
    flow,
    lost,
    lost_in: flow.flatMap(({ lost_in }) => lost_in),
    events: null,
    hits_recorded: Math.round(cut * seconds),
    hits_kept: "rows",
    recorded_rate_hz: cut,
    bytes_recorded: Math.round(cut * seconds * 19.6),
    byte_rate_hz: cut * 19.6,
    cuts: [{ name: "neutrons", on: "hit", in: 1e6, kept: 776_000 }],
    clocks: [1, 2, 5].map(clock),
    coincidences: {
      rate_hz: coincident / 2.2,
      events: Math.round((coincident / 2.2) * seconds),
      made: Math.round((coincident / 2.2) * seconds),
      lost: 0,
      lost_rate_hz: 0,
      cut_short: 0,
      multiplicity: [0, 0, 812_345, 96_123, 11_890, 1_402, 143, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    },
  };
}

function crate(number, rate_hz) {
  const rates = {
    hit_rate_hz: 0,
    fragment_rate_hz: rate_hz * 8 * (number === 3 ? 0.93 : 1),
    byte_rate_hz: rate_hz * 8 * 212,
  };
  return source(`crate ${number}`, {
    kind: "triggered",
    links: 8,
    ...rates,
    lost: number === 3 ? 8123 : 0,
    ring_fill: 0.2,
    pool_fill: 0.35,
    channels: [],
  });
}

/** A distribution that is a bell over the logarithm. */
function bell(low, middle, bins, step, total) {
  const count = (value) => Math.round(total * Math.exp(-0.5 * (Math.log(value / middle) / 0.22) ** 2));
  return Array.from({ length: bins }, (_, bin) => Math.round(low * step ** bin))
    .map((value) => [value, count(value)])
    .filter(([, n]) => n > 0);
}

/** What recorded events stand for: 7 % of the triggers came in dead time. */
function stand_for(events, seconds) {
  const [offered, live_fraction] = [Math.round(events / 0.93), 0.93];
  const counted = (n, factor) => ({
    value: n * factor,
    uncertainty: Math.sqrt(n) * factor,
    low_95: (n - 2 * Math.sqrt(n)) * factor,
    high_95: (n + 2 * Math.sqrt(n)) * factor,
    quality: "exact",
  });
  return {
    triggers_offered: offered,
    triggers_accepted: events,
    triggers_refused: offered - events,
    live_fraction,
    real_time_s: seconds,
    live_time_s: seconds * live_fraction,
    live_time_quality: "exact",
    lost_before_building: 0,
    lost_before_building_quality: "exact",
    recorded: events,
    loss_corrected: counted(events, 1),
    rate_hz: counted(offered, 1 / Math.max(seconds, 1)),
  };
}

function building(rate_hz, seconds) {
  const answered = (board) => (board === 17 ? 0.42 : board === 4 ? 0.9993 : 1);
  const events = Math.round(rate_hz * seconds);
  const completeness = Array.from({ length: TRIGGERED_BOARDS }, (_, board) => ({
    name: `board ${board}`,
    expected: Math.round(rate_hz * 2.5),
    built: Math.round(rate_hz * 2.5 * answered(board)),
    missing: Math.round(events * (1 - answered(board))),
  }));
  return {
    event_rate_hz: rate_hz,
    events_built: events,
    events_recorded: events,
    events_kept: "rows",
    selection: null,
    normalised: stand_for(events, seconds),
    events_partial: Math.round(events * 0.58),
    completeness,
    closed: [Math.round(events * 0.42), Math.round(events * 0.58), 0, 0, 0],
    numbers: [0, events],
    open_events: 1431,
    span: 1602,
    held_bytes: 7.1e6,
    median_event_bytes: 5088,
    event_bytes: bell(2000, 5088, 60, 1.04, 81_000),
    median_build_ns: 214_000,
    p99_build_ns: 1_830_000,
    build_ns: bell(60_000, 214_000, 70, 1.06, 64_000),
    busy: false,
    busy_share: 0.0132 + 0.002 * Math.sin(Date.now() / 5000),
    ring_fill: 0.4,
  };
}

/** 24 boards in three crates behind one trigger; one board answers seldom. */
export function triggered_state(experiment, taking) {
  const rate_hz = taking ? 92_400 * (1 + 0.02 * Math.sin(Date.now() / 3000)) : 0;
  const seconds = experiment.elapsed();
  const sources = [1, 2, 3].map((number) => crate(number, rate_hz));
  const fragments = sources.reduce((sum, { fragment_rate_hz }) => sum + fragment_rate_hz, 0);
  const lost = experiment.total("missing", rate_hz * 0.58);
  const missing = {
    reason: "missing_fragment",
    source: "board 17",
    stage: "build",
    unit: "fragments",
    count: lost,
    of: 1e9,
    quality: "exact",
    advice: "look at the board's link and at its busy output: all other boards answered",
  };
  const flow = [
    line(experiment, "receive", "datagrams", fragments / 3, fragments / 3, 0.1, { path: "events" }),
    line(experiment, "unpack", "fragments", fragments, fragments, 0.18, { path: "events" }),
    line(experiment, "build", "fragments", fragments + rate_hz * 0.58, fragments, 0.27, lost_here("events", missing)),
    line(experiment, "record", "events", rate_hz, rate_hz, 0.4, { path: "events" }),
  ];
  return {
    sources,
    flow,
    lost,
    lost_in: flow.flatMap(({ lost_in }) => lost_in),
    hits_recorded: 0,
    hits_kept: "rows",
    recorded_rate_hz: 0,
    bytes_recorded: Math.round(rate_hz * seconds * 5088),
    byte_rate_hz: rate_hz * 5088,
    events: building(rate_hz, seconds),
    trigger: {
      offered: Math.round(rate_hz * seconds * 1.013),
      accepted: Math.round(rate_hz * seconds),
      refused: Math.round(rate_hz * seconds * 0.013),
      dead_time_fraction: 0.0128,
      recent_dead_time_fraction: 0.0132,
    },
    recent_busy_fraction: 0.0132 + 0.002 * Math.sin(Date.now() / 5000),
    busy_time: { dead_seconds: seconds * 0.013, live_seconds: seconds * 0.987, fraction: 0.013 },
    dead_time: { fraction: 0.0128, recent_fraction: 0.0132, of: "triggers", live_seconds: seconds * 0.987 },
    series: {
      "magnet current": { value: 512.3 + 0.02 * Math.sin(Date.now() / 9000), unit: "A" },
      "gas temperature": { value: 21.4 + 0.3 * Math.sin(Date.now() / 60_000), unit: "°C" },
      "crate temperature": { value: 34.1 + 0.2 * Math.sin(Date.now() / 17_000), unit: "°C" },
    },
    coincidences: null,
    clocks: [],
    cuts: [],
    alarms: [
      {
        name: "board 17",
        subject: "",
        level: "warning",
        active: true,
        since: utc_ago(640),
        value: 0.42,
        threshold: 0.99,
        text: "answers to 42.0 % of the triggers, at least 99 %",
        acknowledged: null,
      },
    ],
  };
}
