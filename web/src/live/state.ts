// The live state as the server tells it, ten times a second. Every field may be absent: what is not said is greyed out.

/** How well a number is known. */
export type Quality = "exact" | "at_least" | "unknown";

/** Why something was lost, where, and what helps. */
export interface Loss {
  reason: string;
  source?: string | null;
  unit?: string;
  count: number;
  quality?: Quality;
  advice?: string;
}

/** What was lost in one unit. */
export interface LostIn {
  unit: string;
  count: number;
  quality?: Quality;
  /** Of what came in since the start, and of late: 0 to 1. */
  share?: number | null;
  share_now?: number | null;
}

/** Which way data go: of self-triggered boards, or of triggered ones. */
export type Path = "hits" | "events";

/** One stage of the path: its line in the books, in units of `unit`. */
export interface Stage {
  path?: Path;
  stage: string;
  unit?: string;
  in_rate_hz?: number;
  out_rate_hz?: number;
  filtered_rate_hz?: number;
  in?: number;
  out?: number;
  filtered?: number;
  held?: number;
  lost?: number;
  /** Everything lost here, by unit, each source in the finest that is counted. */
  lost_in?: LostIn[];
  losses?: Loss[];
  /** How full the ring behind it is, 0 to 1. */
  ring_fill?: number | null;
}

/** A channel of a source. */
export interface Channel {
  channel: number;
  name?: string;
  group?: string | number | null;
  rate_hz?: number;
}

/** How long triggers could be taken, and how long not. */
export interface DeadTime {
  dead_seconds: number;
  live_seconds: number;
  /** Dead time of both, 0 to 1. */
  fraction: number;
}

/** What the trigger was offered, and what it refused while BUSY was raised. */
export interface Trigger {
  offered: number;
  accepted: number;
  refused: number;
  /** Refused of offered, 0 to 1: since the start, and of late. */
  dead_time_fraction: number | null;
  recent_dead_time_fraction: number | null;
}

/** One `[[source]]`. */
export interface Source {
  name: string;
  kind?: "hits" | "triggered";
  links?: number;
  hit_rate_hz?: number;
  fragment_rate_hz?: number;
  byte_rate_hz?: number;
  lost?: number;
  /** As its boards report it. */
  dead_time?: DeadTime | null;
  ring_fill?: number;
  pool_fill?: number;
  channels?: Channel[];
}

/** Fragments of one board, of late. */
export interface Completeness {
  name: string;
  expected: number;
  built: number;
  /** Since the start. */
  missing?: number;
}

/** How often each value was seen: the smallest value of each bin, and how many. */
export type Distribution = [low: number, count: number][];

/** Event building of triggered sources. */
export interface Events {
  event_rate_hz?: number;
  events_built?: number;
  events_partial?: number;
  events_recorded?: number;
  completeness?: Completeness[];
  event_bytes?: Distribution;
  event_size_bytes?: Distribution;
  build_ns?: Distribution;
  latency_us?: Distribution;
  median_event_bytes?: number;
  median_build_ns?: number;
  p99_build_ns?: number;
  open_events?: number;
  held_bytes?: number;
  busy?: boolean;
  busy_share?: number | null;
  closed?: number[];
}

/** One source's clock against another's. */
export interface Clock {
  source: string;
  reference: string;
  offset_ps?: number | null;
  offset_error_ps?: number | null;
  drift_ppb?: number | null;
  locked: boolean;
}

/** Something to be told, with what to do. */
export interface Message {
  /** Rises by one from message to message. */
  number?: number;
  time?: string | number;
  level?: string;
  text: string;
  advice?: string;
}

/** A rule that watches a number. */
export interface Alarm {
  name: string;
  /** The source, clock or board; empty of the whole. */
  subject?: string;
  level?: string;
  active?: boolean;
  since?: string | number | null;
  value?: number | null;
  threshold?: number;
  text?: string;
}

/** What ends a run by itself. */
export interface Limits {
  seconds?: number | null;
  hits?: number | null;
  events?: number | null;
}

/** Everything. */
export interface State {
  state?: string;
  run?: {
    number?: number;
    name?: string;
    title?: string;
    comment?: string;
    started?: string | number;
    elapsed_seconds?: number;
    limits?: Limits;
  } | null;
  elapsed_seconds?: number;
  sources?: Source[];
  flow?: Stage[];
  hits_recorded?: number;
  recorded_rate_hz?: number;
  bytes_recorded?: number;
  byte_rate_hz?: number;
  lost?: number;
  disk_free_bytes?: number;
  disk_left_seconds?: number | null;
  cuts?: { name: string; on?: string; in?: number; kept?: number }[];
  clocks?: Clock[];
  events?: Events | null;
  trigger?: Trigger | null;
  /** How long BUSY was raised. */
  busy_time?: DeadTime | null;
  coincidences?: { rate_hz?: number; events?: number; multiplicity?: number[] } | null;
  alarms?: Alarm[];
  messages?: Message[];
  system?: unknown;
}

/** Seconds since the run began. */
export function elapsed_seconds(state: State): number | undefined {
  return state.run?.elapsed_seconds ?? state.elapsed_seconds;
}

/** What of the time, or of the triggers, is dead: of late, or since the start. `null` where nobody reports it. */
export function dead_fraction({ trigger, busy_time, sources }: State): number | null {
  const of_boards = (sources ?? []).flatMap(({ dead_time }) => (dead_time ? [dead_time.fraction] : []));
  const of_triggers = trigger?.recent_dead_time_fraction ?? trigger?.dead_time_fraction ?? busy_time?.fraction;
  const all = [...of_boards, ...(typeof of_triggers === "number" ? [of_triggers] : [])];
  return all.length > 0 ? Math.max(...all) : null;
}

/** How long triggers could be taken, or the board that was dead longest could take hits: seconds. */
export function live_seconds({ busy_time, sources }: State): number | null {
  const all = [busy_time, ...(sources ?? []).map(({ dead_time }) => dead_time)];
  const known = all.flatMap((each) => (each ? [each.live_seconds] : []));
  return known.length > 0 ? Math.min(...known) : null;
}

/** What a stage lost, by unit, finest first. */
export function lost_at({ stage, lost_in, lost, unit, losses }: Stage): LostIn[] {
  // Refused triggers are dead time: nothing was taken, so nothing was lost.
  if (stage === "trigger")
    return (losses ?? [])
      .filter(({ reason, count }) => reason !== "busy" && count > 0)
      .map(({ count, quality }) => ({ unit: unit ?? "", count, ...(quality ? { quality } : {}) }));
  if (lost_in) return lost_in.filter(({ count, quality }) => count > 0 || quality === "unknown");
  const quality = losses?.find(({ quality }) => quality === "at_least")?.quality ?? "exact";
  return lost ? [{ unit: unit ?? "", count: lost, quality }] : [];
}

/** What was lost on the whole path, by unit, the most first; `null` where nothing is said of it. */
export function lost_by_unit(state: State): LostIn[] | null {
  if (!state.flow) return state.lost === undefined ? null : lost_at({ stage: "", lost: state.lost });
  const sums = new Map<string, LostIn>();
  for (const lost of state.flow.flatMap(lost_at)) {
    const sum = sums.get(lost.unit);
    if (!sum) sums.set(lost.unit, { ...lost });
    else {
      sum.count += lost.count;
      sum.quality = worse(sum.quality, lost.quality);
      // Shares of different stages are of different inputs.
      sum.share = null;
    }
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}

function worse(one: Quality = "exact", other: Quality = "exact"): Quality {
  return (["unknown", "at_least"] as const).find((each) => each === one || each === other) ?? "exact";
}

/** What was lost, by reason, the most first. Equal reasons of several stages stay apart: the place tells where to look. */
export function losses(state: State): (Loss & { stage: string; unit: string })[] {
  const all = (state.flow ?? []).flatMap((stage) =>
    (stage.losses ?? []).map((loss) => ({ ...loss, stage: stage.stage, unit: loss.unit ?? stage.unit ?? "" })),
  );
  return all.filter((loss) => loss.count > 0 || loss.quality === "unknown").sort((a, b) => b.count - a.count);
}

/** Whether anything is being taken now. */
export function is_taking(state: State): boolean {
  return state.state === "running" || state.state === "paused";
}
