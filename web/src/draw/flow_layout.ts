// Where the parts of the flow picture lie. No element is touched here: flow in, shapes and words out.
//
//   boards ═╗                      along ─►
//   boards ═╬═══╪═══════╪═══╗══════╪═══════╪  disk
//   boards ═╝   ring     ║   ╚═ filtered, grey, bends away
//                        ╚═ lost, red, bends away further
//
// The band that is passed on keeps its upper edge; what leaves it peels off below. Its width is the share of the stream that is
// still in it, so stages that count different units (datagrams, hits, events) join without a step. On a narrow page the
// same picture runs downwards.

import { count, rate, share, UNKNOWN } from "../figures/quantity.js";
import type { Flow, FlowStage } from "../live/flow_meter.js";

/** A filled shape. */
export interface Band {
  kind: "pass" | "filtered" | "lost" | "bypass" | "silent" | "idle";
  path: string;
  title: string;
}

/** A word in the picture. */
export interface Label {
  kind: "stage" | "rate" | "unit" | "quiet" | "filtered" | "lost" | "fill";
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
  text: string;
}

/** A thin bar across the band, where a stage stands. */
export interface Gate {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** How full a ring is. */
export interface Gauge extends Gate {
  fill: number;
  upright: boolean;
  title: string;
}

/** The whole picture. */
export interface FlowPicture {
  width: number;
  height: number;
  bands: Band[];
  labels: Label[];
  gates: Gate[];
  gauges: Gauge[];
}

/** What a stage has done to what comes out of it. */
const DONE: Record<string, string> = {
  sender: "sent",
  wire: "on the wire",
  receive: "received",
  raw: "kept raw",
  unpack: "framed",
  decode: "decoded",
  align: "aligned",
  order: "ordered",
  coincidence: "coincident",
  coincide: "coincident",
  cut: "cut",
  cuts: "cut",
  hit_cuts: "hits cut",
  event_cuts: "events cut",
  build: "built",
  ship: "shipped",
  record: "recorded",
};

/** The word of a stage on the page. */
export function done(stage: string): string {
  return DONE[stage] ?? stage.replaceAll("_", " ");
}

/** The word for what a stage filters. */
function put_aside(stage: string): string {
  return stage.startsWith("coinc") ? "single" : stage === "record" ? "not recorded" : "filtered";
}

const THICKEST = 56;
const THINNEST_LOSS = 2.5;

// Along the stream and across it; turned when the picture runs downwards.
interface Plan {
  down: boolean;
  step: number;
  first: number;
  /** Upper (or left) edge of the band. */
  edge: number;
}

/** Lays the picture out for this width, pixels. */
export function lay_out(flow: Flow, width: number): FlowPicture {
  const nodes = flow.stages.length + 2;
  const down = width < nodes * 92;
  const step = down ? 84 : (width - 130) / (nodes - 1);
  const plan: Plan = { down, step, first: down ? 26 : 62, edge: down ? 14 : 86 };
  const height = down ? plan.first + (nodes - 1) * step + 40 : 246;
  const picture: FlowPicture = { width, height, bands: [], labels: [], gates: [], gauges: [] };
  const thick = thicknesses(flow);
  boards(picture, flow, plan, thick[0]?.in ?? THICKEST);
  flow.stages.forEach((stage, index) => place_stage(picture, plan, stage, index, thick, flow.stages));
  disk(picture, flow, plan, thick.at(-1)?.out ?? THICKEST);
  return picture;
}

interface Thickness {
  in: number;
  out: number;
  filtered: number;
  lost: number;
  /** Comes round the stages before, as when all hits are recorded whatever the cuts keep. */
  bypass: { width: number; from: number } | null;
}

/** Shares of the stream as widths, by stage. */
export function thicknesses(flow: Flow): Thickness[] {
  const found: Thickness[] = [];
  flow.stages.forEach((stage, index) => {
    let into = found[index - 1]?.out ?? THICKEST;
    const bypass = round_about(flow.stages, found, stage, index, into);
    if (bypass) into += bypass.width;
    const total = Math.max(stage.in_hz, 1e-9);
    const filtered = stage.in_hz > 0 ? Math.min(stage.filtered_hz / total, 1) * into : 0;
    const lost_share = stage.in_hz > 0 ? Math.min(stage.lost_hz / total, 1) : 0;
    const lost = stage.lost > 0 || stage.losses.length > 0 ? Math.max(lost_share * into, THINNEST_LOSS) : 0;
    const left = into - filtered - (lost_share > 0 ? lost_share * into : 0);
    found.push({ in: into, filtered, lost, out: Math.max(left, stage.in_hz > 0 ? 1.5 : into), bypass });
  });
  return found;
}

function round_about(
  stages: readonly FlowStage[],
  found: readonly Thickness[],
  stage: FlowStage,
  index: number,
  into: number,
): { width: number; from: number } | null {
  const before = stages[index - 1];
  if (!before || before.unit !== stage.unit || !(stage.in_hz > before.out_hz * 1.05)) return null;
  for (let from = index - 2; from >= 0; from--) {
    const [source, thickness] = [stages[from], found[from]];
    if (source && thickness && source.unit === stage.unit && source.out_hz >= stage.in_hz * 0.93) {
      return { width: Math.max(thickness.out - into, 2), from };
    }
  }
  return null;
}

// A point of the picture from a point of the plan.
function at({ down }: Plan, along: number, across: number): string {
  const [x, y] = down ? [across, along] : [along, across];
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}

// A band between two places along the stream, each with its own edges.
function ribbon(plan: Plan, from: readonly [number, number, number], to: readonly [number, number, number]): string {
  const [[a, a1, a2], [b, b1, b2]] = [from, to];
  const middle = (a + b) / 2;
  return (
    `M${at(plan, a, a1)}C${at(plan, middle, a1)} ${at(plan, middle, b1)} ${at(plan, b, b1)}` +
    `L${at(plan, b, b2)}C${at(plan, middle, b2)} ${at(plan, middle, a2)} ${at(plan, a, a2)}Z`
  );
}

// What peels off: bends away from the band, and ends across it, as deep as `depth`.
function branch(plan: Plan, along: number, across: number, width: number, depth: number): string {
  const bend = Math.max(plan.step * 0.14, 12);
  const [inner, outer] = [along + bend, along + bend + width];
  return (
    `M${at(plan, along, across)}C${at(plan, outer, across)} ${at(plan, outer, across)} ${at(plan, outer, depth)}` +
    `L${at(plan, inner, depth)}C${at(plan, inner, across + width)} ${at(plan, inner, across + width)} ${at(plan, along, across + width)}Z`
  );
}

function place(plan: Plan, index: number): number {
  return plan.first + index * plan.step;
}

function boards(picture: FlowPicture, flow: Flow, plan: Plan, into: number): void {
  const total = flow.sources.reduce((sum, { rate_hz }) => sum + rate_hz, 0);
  const count_of = flow.sources.length;
  const [from, to] = [plan.first, place(plan, 1)];
  // Boards fan in from a wider stack, each as wide as its share.
  const gap = Math.min(5, 60 / Math.max(count_of, 1));
  const spread = plan.down ? into : into + gap * (count_of - 1);
  let [start, end] = [plan.edge + into / 2 - spread / 2, plan.edge];
  for (const { name, rate_hz } of flow.sources) {
    const wide = total > 0 ? (rate_hz / total) * into : into / count_of;
    const is_silent = rate_hz === 0;
    const shown = is_silent ? 1.5 : wide;
    const path = ribbon(plan, [from, start, start + shown], [to, end, end + (is_silent ? 1 : wide)]);
    picture.bands.push({
      kind: is_silent ? "silent" : "pass",
      path,
      title: `${name}: ${is_silent ? "silent" : rate(rate_hz)}`,
    });
    start += wide + (plan.down ? 0 : gap);
    end += wide;
  }
  if (count_of === 0)
    picture.bands.push({
      kind: "silent",
      path: ribbon(plan, [from, plan.edge, plan.edge + into], [to, plan.edge, plan.edge + into]),
      title: "no source",
    });
  head(
    picture,
    plan,
    0,
    `${count_of} ${count_of === 1 ? "source" : "sources"}`,
    count_of > 0 ? rate(total) : UNKNOWN,
    "",
  );
}

function head(picture: FlowPicture, plan: Plan, index: number, name: string, value: string, below: string): void {
  const along = place(plan, index);
  if (plan.down) {
    picture.labels.push({ kind: "stage", x: 96, y: along + 4, anchor: "start", text: name });
    picture.labels.push({ kind: "rate", x: picture.width - 8, y: along + 4, anchor: "end", text: value });
    picture.labels.push({ kind: "unit", x: picture.width - 8, y: along + 20, anchor: "end", text: below });
  } else {
    picture.labels.push({ kind: "stage", x: along, y: 18, anchor: "middle", text: name });
    picture.labels.push({ kind: "rate", x: along, y: 41, anchor: "middle", text: value });
    picture.labels.push({ kind: "unit", x: along, y: 57, anchor: "middle", text: below });
  }
}

function place_stage(
  picture: FlowPicture,
  plan: Plan,
  stage: FlowStage,
  index: number,
  thick: readonly Thickness[],
  stages: readonly FlowStage[],
): void {
  const here = thick[index];
  if (!here) return;
  const along = place(plan, index + 1);
  const { edge } = plan;
  head(picture, plan, index + 1, done(stage.stage), rate(stage.out_hz), stage.unit);
  if (here.bypass) go_round(picture, plan, here, index, stages);
  picture.bands.push({
    // A stage that makes a unit takes none of it in.
    kind: Math.max(stage.in_hz, stage.out_hz) > 0 ? "pass" : "idle",
    path: ribbon(plan, [along, edge, edge + here.out], [place(plan, index + 2), edge, edge + here.out]),
    title: `${done(stage.stage)}: ${rate(stage.out_hz)} ${stage.unit}, of ${rate(stage.in_hz)}`,
  });
  const [gate_along, gate_across] = [along - 1.5, edge - 7];
  const deep = here.in + 14;
  picture.gates.push(
    plan.down
      ? { x: gate_across, y: gate_along, width: deep, height: 3 }
      : { x: gate_along, y: gate_across, width: 3, height: deep },
  );
  gauge(picture, plan, stage, along, here);
  leave(picture, plan, stage, along, here);
}

function go_round(
  picture: FlowPicture,
  plan: Plan,
  here: Thickness,
  index: number,
  stages: readonly FlowStage[],
): void {
  if (!here.bypass) return;
  const [from, to] = [place(plan, here.bypass.from + 1), place(plan, index + 1)];
  const { width } = here.bypass;
  const inner = plan.edge + here.in - width;
  // In the band's own shadow: the part that the stages between have put aside is still recorded.
  const path = `M${at(plan, from, inner)}L${at(plan, to, inner)}L${at(plan, to, inner + width)}L${at(plan, from, inner + width)}Z`;
  picture.bands.unshift({
    kind: "bypass",
    path,
    title: `all that was ${done(stages[here.bypass.from]?.stage ?? "")} goes to the recording`,
  });
}

function gauge(picture: FlowPicture, plan: Plan, stage: FlowStage, along: number, here: Thickness): void {
  if (stage.ring_fill === undefined) return;
  const title = `ring behind "${done(stage.stage)}": ${share(stage.ring_fill)} full`;
  const long = plan.down ? 34 : Math.min(plan.step * 0.34, 44);
  const middle = along + plan.step * (here.out > 16 ? 0.5 : 0.66);
  // In the band where it is wide enough, else beside it.
  const across = here.out > 16 ? plan.edge + here.out / 2 : plan.edge + here.out + 12;
  picture.gauges.push(
    plan.down
      ? { x: across - 3, y: middle - long / 2, width: 6, height: long, fill: stage.ring_fill, upright: true, title }
      : { x: middle - long / 2, y: across - 3, width: long, height: 6, fill: stage.ring_fill, upright: false, title },
  );
}

function leave(picture: FlowPicture, plan: Plan, stage: FlowStage, along: number, here: Thickness): void {
  const below = plan.edge + here.out;
  const [filtered_to, lost_to] = plan.down ? [88, 88] : [178, 206];
  if (here.filtered > 0.3) {
    const title = `${rate(stage.filtered_hz)} ${put_aside(stage.stage)} at "${done(stage.stage)}": wanted, and counted`;
    picture.bands.push({ kind: "filtered", path: branch(plan, along, below, here.filtered, filtered_to), title });
  }
  if (here.lost > 0) {
    const title = stage.losses.map(in_words).join("\n") || `${count(stage.lost)} lost`;
    picture.bands.push({ kind: "lost", path: branch(plan, along, below + here.filtered, here.lost, lost_to), title });
  }
  words_below(picture, plan, stage, along, here);
}

function words_below(picture: FlowPicture, plan: Plan, stage: FlowStage, along: number, here: Thickness): void {
  const aside = stage.filtered_hz > 0 ? `${rate(stage.filtered_hz)} ${put_aside(stage.stage)}` : "";
  const worst = [...stage.losses].sort((a, b) => b.count - a.count)[0];
  const lost =
    here.lost > 0
      ? `${worst?.quality === "at_least" ? "≥ " : ""}${count(stage.lost)} ${stage.unit ? `${stage.unit} ` : ""}lost${stage.lost_hz > 0 ? `, ${rate(stage.lost_hz)}` : ""}`
      : "0 lost";
  const why = worst ? [worst.reason.replaceAll("_", " "), worst.source].filter(Boolean).join(", ") : "";
  const rows: [Label["kind"], string][] = [
    ["filtered", aside],
    [here.lost > 0 ? "lost" : "quiet", lost],
    ["lost", here.lost > 0 ? why : ""],
  ];
  if (plan.down) {
    const written = rows.filter(([, text]) => text !== "");
    written.forEach(([kind, text], row) =>
      picture.labels.push({ kind, x: 96, y: along + 20 + row * 15, anchor: "start", text }),
    );
    return;
  }
  const across = [192, 222, 237];
  const bend = Math.max(plan.step * 0.14, 12);
  rows.forEach(([kind, text], row) => {
    const x = row === 0 ? along + bend + here.filtered / 2 : along + (here.lost > 0 ? bend : 0);
    if (text) picture.labels.push({ kind, x, y: across[row] ?? 0, anchor: "middle", text });
  });
}

/** A loss as a sentence. */
export function in_words(loss: {
  reason: string;
  source?: string | null;
  count: number;
  unit?: string;
  quality?: string;
  advice?: string;
}): string {
  const many =
    loss.quality === "unknown"
      ? "an unknown number"
      : `${loss.quality === "at_least" ? "at least " : ""}${count(loss.count)}`;
  const where = loss.source ? ` at ${loss.source}` : "";
  return `${many}${loss.unit ? ` ${loss.unit}` : ""} lost: ${loss.reason.replaceAll("_", " ")}${where}${loss.advice ? ` – ${loss.advice}` : ""}`;
}

function disk(picture: FlowPicture, flow: Flow, plan: Plan, into: number): void {
  const index = flow.stages.length + 1;
  const along = place(plan, index);
  const bytes = flow.byte_rate_hz === undefined ? "" : `${rate(flow.byte_rate_hz).replace("/s", "B/s")}`;
  head(picture, plan, index, "disk", bytes || "–", "");
  const [across, deep] = [plan.edge - 3, into + 6];
  picture.gates.push(
    plan.down ? { x: across, y: along, width: deep, height: 8 } : { x: along, y: across, width: 8, height: deep },
  );
}
