// The ledger as a flow: what each stage takes, passes, puts aside and loses per second, now.
//
//   books of the last three seconds ──► rates of filtered and lost, by stage and reason
//
// Totals are in the books; how fast they grow is only known by looking twice.

import {
  lost_at,
  type Loss,
  type LostIn,
  type Path,
  type Source,
  type Stage,
  type State,
  type Trigger,
} from "./state.js";

/** A stage, in its own unit per second. */
export interface FlowStage {
  stage: string;
  unit: string;
  in_hz: number;
  out_hz: number;
  filtered_hz: number;
  /** Of what comes in, 0 to 1, now. */
  lost_share: number;
  /** Since the start, by unit. */
  lost: LostIn[];
  held: number;
  losses: Loss[];
  ring_fill: number | undefined;
}

/** One way from boards to disk: what it carries is drawn on a scale of its own. */
export interface Lane {
  path: Path;
  sources: { name: string; rate_hz: number }[];
  stages: FlowStage[];
  /** What the trigger refused while BUSY was raised. */
  trigger: Trigger | null;
}

/** What comes in, what becomes of it, what lands on disk. */
export interface Flow {
  lanes: Lane[];
  byte_rate_hz: number | undefined;
}

const WINDOW_MS = 3000;

interface Look {
  at_ms: number;
  run: string;
  stages: ReadonlyMap<string, Stage>;
}

/** Looks at states and answers with rates. */
export class FlowMeter {
  #looks: Look[] = [];

  /** The flow at this state. */
  flow(state: State, now_ms: number): Flow {
    const stages = (state.flow ?? []).filter(({ stage }) => stage !== "trigger");
    const now: Look = {
      at_ms: now_ms,
      run: state.run?.name ?? "",
      stages: new Map(stages.map((stage) => [key(stage), stage])),
    };
    if (this.#looks.at(-1)?.run !== now.run) this.#looks = [];
    this.#looks = this.#looks.filter(({ at_ms }) => now_ms - at_ms <= WINDOW_MS);
    const before = this.#looks[0];
    if (now_ms - (this.#looks.at(-1)?.at_ms ?? -Infinity) > 90) this.#looks.push(now);
    const seconds = before ? (now_ms - before.at_ms) / 1000 : 0;
    const shown = stages.map((stage) => ({
      path: path_of(state, stage),
      stage: measured(stage, before?.stages.get(key(stage)), seconds),
    }));
    const lanes = (["hits", "events"] as const).map((path) => ({
      path,
      sources: (state.sources ?? [])
        .filter((source) => (source.kind === "triggered" ? "events" : "hits") === path)
        .map((source) => ({ name: source.name, rate_hz: source_rate(source) })),
      stages: shown.filter((each) => each.path === path).map(({ stage }) => stage),
      trigger: path === "events" ? (state.trigger ?? null) : null,
    }));
    const used = lanes.filter(({ stages, sources }) => stages.length + sources.length > 0);
    return { lanes: used.length > 0 ? used : lanes.slice(0, 1), byte_rate_hz: state.byte_rate_hz };
  }
}

// A server that does not say it has one path for all.
function path_of({ sources }: State, { path }: Stage): Path {
  return path ?? ((sources ?? []).some(({ kind }) => kind !== "triggered") ? "hits" : "events");
}

function key({ path, stage, unit }: Stage): string {
  return `${path ?? ""} ${stage} ${unit ?? ""}`;
}

/** Hits or fragments per second: what a source gives. */
export function source_rate(source: Source): number {
  return Math.max(source.hit_rate_hz ?? 0, source.fragment_rate_hz ?? 0);
}

function measured(stage: Stage, before: Stage | undefined, seconds: number): FlowStage {
  const grown = (of: (stage: Stage) => number | undefined) =>
    before && seconds > 0.2 ? Math.max(((of(stage) ?? 0) - (of(before) ?? 0)) / seconds, 0) : 0;
  const in_hz = stage.in_rate_hz ?? grown((each) => each.in);
  const lost = lost_at(stage);
  return {
    stage: stage.stage,
    unit: stage.unit ?? "",
    in_hz,
    out_hz: stage.out_rate_hz ?? grown((each) => each.out),
    filtered_hz: Math.min(stage.filtered_rate_hz ?? grown((each) => each.filtered), stage.in_rate_hz ?? Infinity),
    lost_share: stage.lost_in
      ? Math.max(0, ...lost.map(({ share_now }) => share_now ?? 0))
      : in_hz > 0
        ? Math.min(grown((each) => each.lost) / in_hz, 1)
        : 0,
    lost,
    held: stage.held ?? 0,
    losses: (stage.losses ?? []).filter(({ count, quality }) => count > 0 || quality === "unknown"),
    ring_fill: stage.ring_fill ?? undefined,
  };
}
