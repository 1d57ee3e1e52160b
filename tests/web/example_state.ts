// A whole live state for tests: what a test is about is given, everything else is that of a run in which nothing has happened.

import type { FlowStage, LiveState, Loss, LostIn, SourceState } from "../../web/src/live/generated.js";

const NO_LIMITS = { seconds: null, hits: null, events: null };

/** A state of a running run. */
export function live_state(more: Partial<LiveState> = {}): LiveState {
  return {
    sequence: 1,
    state: "running",
    paused_by: null,
    next_run_seconds: null,
    run: {
      number: 1,
      name: "000001",
      title: "",
      comment: "",
      elapsed_seconds: 0,
      limits: NO_LIMITS,
      directory: "runs/000001",
      keeps_data: true,
    },
    title: "",
    run_directory: "runs/000001",
    elapsed_seconds: 0,
    end: NO_LIMITS,
    sources: [],
    flow: [],
    lost_in: [],
    ordered_rate_hz: 0,
    recorded_rate_hz: 0,
    rate_window_seconds: 0,
    hits_recorded: 0,
    hits_kept: "rows",
    bytes_recorded: 0,
    byte_rate_hz: 0,
    coincidences_recorded: null,
    cuts: [],
    applied: [],
    clocks: [],
    coincidences: null,
    events: null,
    busy: false,
    trigger: null,
    busy_time: null,
    recent_busy_fraction: null,
    dead_time: null,
    lost: 0,
    loss: [],
    losses: [],
    refused: [],
    snapshots: 0,
    discrepancies: [],
    failures: [],
    disk_free_bytes: 0,
    disk_left_seconds: null,
    copies: [],
    alarms: [],
    messages: [],
    series: {},
    ...more,
  };
}

/** A source that has given nothing. */
export function source_state(name: string, more: Partial<SourceState> = {}): SourceState {
  return {
    name,
    kind: "hits",
    links: 0,
    boards: 0,
    hits: 0,
    fragments: 0,
    bytes: 0,
    hit_rate_hz: 0,
    fragment_rate_hz: 0,
    byte_rate_hz: 0,
    lost: 0,
    lost_rate_hz: 0,
    loss: null,
    dead_time: null,
    ring_fill: 0,
    pool_fill: 0,
    pool_bytes: 0,
    drop_counters: {},
    channels: [],
    ...more,
  };
}

/** A stage in which nothing happens. */
export function flow_stage(stage: FlowStage["stage"], more: Partial<FlowStage> = {}): FlowStage {
  return {
    path: "hits",
    stage,
    stands_apart: false,
    heading: stage,
    filtered_as: "filtered",
    unit: "hits",
    in: 0,
    out: 0,
    filtered: 0,
    held: 0,
    lost: 0,
    in_rate_hz: 0,
    out_rate_hz: 0,
    filtered_rate_hz: 0,
    lost_in: [],
    losses: [],
    ring_fill: null,
    ...more,
  };
}

/** So many that were lost, a tenth of all. */
export function lost_in(unit: LostIn["unit"], count: number, quality: LostIn["quality"]): LostIn {
  return { unit, count, quality, share: 0.1, share_now: 0.1 };
}

/** A loss. */
export function loss(more: Partial<Loss> = {}): Loss {
  return {
    source: "board 3",
    stage: "wire",
    reason: "datagram_gap",
    unit: "hits",
    count: 12,
    of: 1_000_000,
    quality: "exact",
    advice: "",
    ...more,
  };
}
