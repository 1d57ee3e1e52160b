// The ledger as a flow, as it is drawn: hits and triggered events have a lane each.
//
//   state.flow, state.sources ──► lanes of stages, with rates and losses
//
// Rates and shares are the server's: nothing is worked out here a second time.

import type { FlowPath, FlowStage, LiveState, Loss, LostIn, SourceState, TriggerState } from "./generated.js";

/** A stage, in its own unit per second; null where a rate is not known. */
export interface DrawnStage {
  stage: string;
  /** What stands over it. */
  heading: string;
  /** What it leaves out on request is called this. */
  filtered_as: string;
  unit: string;
  in_hz: number | null;
  out_hz: number | null;
  filtered_hz: number | null;
  /** Of what comes in, 0 to 1, now. */
  lost_share: number;
  /** Since the start, by unit. */
  lost: LostIn[];
  held: number;
  losses: Loss[];
  ring_fill: number | null;
}

/** One way from boards to disk: what it carries is drawn on a scale of its own. */
export interface Lane {
  path: FlowPath;
  sources: { name: string; rate_hz: number | null }[];
  stages: DrawnStage[];
  /** What the trigger refused while BUSY was raised. */
  trigger: TriggerState | null;
}

/** What comes in, what becomes of it, what lands on disk. */
export interface Flow {
  lanes: Lane[];
  byte_rate_hz: number | null;
}

/** The flow at this state. */
export function flow_of({ flow, sources, trigger, byte_rate_hz }: LiveState): Flow {
  const lanes = (["hits", "events"] as const).map((path) => ({
    path,
    sources: sources
      .filter(({ kind }) => (kind === "triggered" ? "events" : "hits") === path)
      .map((source) => ({ name: source.name, rate_hz: source_rate(source) })),
    stages: flow.filter((stage) => stage.path === path && !stage.stands_apart).map(drawn),
    trigger: path === "events" ? trigger : null,
  }));
  const used = lanes.filter(({ stages, sources }) => stages.length + sources.length > 0);
  return { lanes: used.length > 0 ? used : lanes.slice(0, 1), byte_rate_hz };
}

/** Hits or fragments per second: what a source gives; null where that is not known. */
export function source_rate({ kind, hit_rate_hz, fragment_rate_hz }: SourceState): number | null {
  return kind === "triggered" ? fragment_rate_hz : hit_rate_hz;
}

function drawn(stage: FlowStage): DrawnStage {
  return {
    stage: stage.stage,
    heading: stage.heading,
    filtered_as: stage.filtered_as,
    unit: stage.unit,
    in_hz: stage.in_rate_hz,
    out_hz: stage.out_rate_hz,
    filtered_hz: stage.filtered_rate_hz,
    lost_share: Math.max(0, ...stage.lost_in.map(({ share_now }) => share_now ?? 0)),
    lost: stage.lost_in,
    held: stage.held,
    losses: stage.losses.filter(({ count, quality }) => count > 0 || quality === "unknown"),
    ring_fill: stage.ring_fill,
  };
}
