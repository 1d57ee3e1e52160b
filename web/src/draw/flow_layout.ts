// Where the parts of the flow picture lie. No element is touched here: flow in, shapes and words out.
//
//   boards ═╗                      along ─►
//   boards ═╬═══╪═══════╪═══╗══════╪═══════╪  disk
//   boards ═╝   ring     ║   ╚═ filtered, grey, bends away
//                        ╚═ lost, red, bends away further
//
// Hits and triggered events have a lane each, with a scale of its own. In a lane, the band that is passed on keeps its upper edge;
// what leaves it peels off below. Its width is the share of the stream that is still in it, so stages that count different units
// (datagrams, frames, hits) join without a step. On a narrow page the same picture runs downwards.

import { count, quantity, rate, share, UNKNOWN } from "../figures/quantity.js";
import type { Flow, DrawnStage, Lane } from "../live/lanes.js";
import { packed_rows } from "./label_rows.js";

/** A filled shape. */
export interface Band {
  kind: "pass" | "filtered" | "lost" | "refused" | "bypass" | "silent" | "idle";
  path: string;
  title: string;
}

/** A word in the picture. */
export interface Label {
  kind: "stage" | "rate" | "unit" | "quiet" | "filtered" | "refused" | "lost" | "fill";
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
  /** Whether stages are so near each other that words are written smaller. */
  dense: boolean;
  bands: Band[];
  labels: Label[];
  gates: Gate[];
  gauges: Gauge[];
}

const THICKEST = 56;
/** Where two lanes share the picture. */
const THICKEST_OF_TWO = 38;
const THINNEST_LOSS = 2.5;

// Nearer than this, the words of neighbouring stages run into each other, also small ones.
const NEAREST_STEP = 56;
const DENSE_STEP = 92;
const STEP_DOWN = 84;

// Rows of a lane that runs to the right, from its top: words above the band, and from its lower edge: words below it.
const BAND_TOP = 72;
const QUIET_BELOW = 22;
const FILTERED_BELOW = 36;
const LOST_BELOW = 56;
const LOST_ROW = 44;

// Along the stream and across it; turned when the picture runs downwards.
interface Plan {
  down: boolean;
  dense: boolean;
  step: number;
  first: number;
  /** Where the lane begins, from above. */
  top: number;
  /** Upper (or left) edge of the band. */
  edge: number;
  thickest: number;
}

/** Lays the picture out for this width, pixels. */
export function lay_out(flow: Flow, width: number): FlowPicture {
  const nodes = Math.max(2, ...flow.lanes.map(({ stages }) => stages.length + 2));
  const down = (width - 130) / (nodes - 1) < NEAREST_STEP;
  const step = down ? STEP_DOWN : (width - 130) / (nodes - 1);
  const dense = !down && step < DENSE_STEP;
  const thickest = flow.lanes.length > 1 ? THICKEST_OF_TWO : THICKEST;
  const picture: FlowPicture = { width, height: 0, dense, bands: [], labels: [], gates: [], gauges: [] };
  for (const lane of flow.lanes) {
    const top = picture.height;
    // Each lane fills the width with its own stages, so that the disk is at the same place in all.
    const own = down ? step : (width - 130) / (lane.stages.length + 1);
    const [first, edge] = down ? [top + 26, 14] : [62, top + BAND_TOP];
    const plan: Plan = { down, dense: dense || (!down && own < DENSE_STEP), step: own, first, top, edge, thickest };
    picture.height = place_lane(picture, flow, lane, plan);
  }
  return picture;
}

/** Draws one lane, and answers where it ends. */
function place_lane(picture: FlowPicture, flow: Flow, lane: Lane, plan: Plan): number {
  const thick = thicknesses(lane, plan.thickest);
  const rows = lost_rows(picture, plan, lane, thick);
  boards(picture, lane, plan, thick[0]?.in ?? plan.thickest);
  refused(picture, lane, plan);
  lane.stages.forEach((stage, index) => place_stage(picture, plan, stage, index, thick, rows, lane.stages));
  // The disk is one: what is written there is reported once.
  const is_last = lane === flow.lanes.at(-1);
  const bytes = is_last ? quantity(flow.byte_rate_hz, "B/s") : "";
  disk(picture, plan, lane.stages.length + 1, bytes, thick.at(-1)?.out ?? plan.thickest);
  if (plan.down) return plan.first + (lane.stages.length + 1) * plan.step + 40;
  const is_lost = thick.some(({ lost }) => lost > 0);
  return plan.edge + plan.thickest + LOST_BELOW + (is_lost ? LOST_ROW * (Math.max(...rows) + 1) + 4 : 0);
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
export function thicknesses({ stages }: Lane, thickest = THICKEST): Thickness[] {
  const found: Thickness[] = [];
  stages.forEach((stage, index) => {
    let into = found[index - 1]?.out ?? thickest;
    const bypass = round_about(stages, found, stage, index, into);
    if (bypass) into += bypass.width;
    const comes_hz = stage.in_hz ?? 0;
    const filtered = comes_hz > 0 ? Math.min((stage.filtered_hz ?? 0) / comes_hz, 1) * into : 0;
    const lost =
      stage.lost.length > 0 || stage.losses.length > 0 ? Math.max(stage.lost_share * into, THINNEST_LOSS) : 0;
    const left = into - filtered - stage.lost_share * into;
    found.push({ in: into, filtered, lost, out: Math.max(left, comes_hz > 0 ? 1.5 : into), bypass });
  });
  return found;
}

// Stages between may count other units (events of a coincidence), and a recorder writes by the batch: so what comes in is held
// against every stage before that counts the same unit, with some play.
function round_about(
  stages: readonly DrawnStage[],
  found: readonly Thickness[],
  stage: DrawnStage,
  index: number,
  into: number,
): { width: number; from: number } | null {
  const comes_hz = stage.in_hz ?? 0;
  if (!(comes_hz > 0)) return null;
  for (let from = index - 1; from >= 0; from--) {
    const [source, thickness] = [stages[from], found[from]];
    if (!source || !thickness || source.unit !== stage.unit) continue;
    const left_hz = source.out_hz ?? 0;
    if (left_hz < comes_hz * 0.8) continue;
    const width = thickness.out * Math.min(comes_hz / left_hz, 1) - into;
    return from < index - 1 && width > 0.05 * thickness.out ? { width: Math.max(width, 2), from } : null;
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

// What peels off: bends away from the band, and ends across it, as deep as `depth`; `beside` leaves room for what peels off before.
function branch(plan: Plan, along: number, across: number, width: number, depth: number, beside = 0): string {
  const inner = along + bend(plan) + beside;
  const outer = inner + width;
  return (
    `M${at(plan, along, across)}C${at(plan, outer, across)} ${at(plan, outer, across)} ${at(plan, outer, depth)}` +
    `L${at(plan, inner, depth)}C${at(plan, inner, across + width)} ${at(plan, inner, across + width)} ${at(plan, along, across + width)}Z`
  );
}

function bend({ step }: Plan): number {
  return Math.max(step * 0.14, 10);
}

function place(plan: Plan, index: number): number {
  return plan.first + index * plan.step;
}

function boards(picture: FlowPicture, { sources, path, stages }: Lane, plan: Plan, into: number): void {
  const total = sources.reduce((sum, { rate_hz }) => sum + (rate_hz ?? 0), 0);
  const is_known = sources.some(({ rate_hz }) => rate_hz !== null);
  const count_of = sources.length;
  const [from, to] = [plan.first, place(plan, 1)];
  // Boards fan in from a wider stack, each as wide as its share.
  const gap = Math.min(4, (into * 0.6) / Math.max(count_of, 1));
  const spread = plan.down ? into : into + gap * (count_of - 1);
  let [start, end] = [plan.edge + into / 2 - spread / 2, plan.edge];
  for (const { name, rate_hz } of sources) {
    const wide = total > 0 ? ((rate_hz ?? 0) / total) * into : into / count_of;
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
      kind: stages.length > 0 ? "pass" : "silent",
      path: ribbon(plan, [from, plan.edge, plan.edge + into], [to, plan.edge, plan.edge + into]),
      title: stages.length > 0 ? "made of the hits" : "no source",
    });
  const name =
    count_of > 0 || stages.length === 0 ? `${count_of} ${count_of === 1 ? "source" : "sources"}` : "of the hits";
  head(picture, plan, 0, name, is_known ? rate(total) : UNKNOWN, path === "hits" ? "hits" : "fragments");
}

/** Of the band's own width is what was taken: what was refused has none on that scale. */
const MOST_REFUSED = 12;

// What the trigger refused never came to the boards: it turns away before them, in the colour of trouble.
function refused(picture: FlowPicture, { trigger }: Lane, plan: Plan): void {
  const part = trigger?.recent_dead_time_fraction ?? trigger?.dead_time_fraction ?? 0;
  if (!trigger || trigger.refused === 0) return;
  const width = Math.min(Math.max(part * plan.thickest, THINNEST_LOSS), MOST_REFUSED);
  const bottom = plan.edge + plan.thickest;
  const depth = plan.down ? 88 : bottom + FILTERED_BELOW;
  const title = `${count(trigger.refused)} of ${count(trigger.offered)} triggers were refused while BUSY was raised`;
  picture.bands.push({ kind: "refused", path: branch(plan, plan.first, bottom - width, width, depth), title });
  const text = `${share(part)} of triggers refused`;
  const [x, y] = plan.down ? [96, plan.first + 20] : [10, depth + 14];
  picture.labels.push({ kind: "refused", x, y, anchor: "start", text });
}

function head(picture: FlowPicture, plan: Plan, index: number, name: string, value: string, below: string): void {
  const along = place(plan, index);
  if (plan.down) {
    picture.labels.push({ kind: "stage", x: 96, y: along + 4, anchor: "start", text: name });
    picture.labels.push({ kind: "rate", x: picture.width - 8, y: along + 4, anchor: "end", text: value });
    picture.labels.push({ kind: "unit", x: picture.width - 8, y: along + 20, anchor: "end", text: below });
  } else {
    const { top } = plan;
    picture.labels.push({ kind: "stage", x: along, y: top + 16, anchor: "middle", text: name });
    picture.labels.push({ kind: "rate", x: along, y: top + 38, anchor: "middle", text: value });
    picture.labels.push({ kind: "unit", x: along, y: top + 53, anchor: "middle", text: below });
  }
}

function place_stage(
  picture: FlowPicture,
  plan: Plan,
  stage: DrawnStage,
  index: number,
  thick: readonly Thickness[],
  rows: readonly number[],
  stages: readonly DrawnStage[],
): void {
  const here = thick[index];
  if (!here) return;
  const along = place(plan, index + 1);
  const { edge } = plan;
  head(picture, plan, index + 1, stage.heading, rate(stage.out_hz), stage.unit);
  if (here.bypass) go_round(picture, plan, here, index, stages);
  picture.bands.push({
    // A stage that makes a unit takes none of it in.
    kind: stage.in_hz === 0 && stage.out_hz === 0 ? "idle" : "pass",
    path: ribbon(plan, [along, edge, edge + here.out], [place(plan, index + 2), edge, edge + here.out]),
    title: `${stage.heading}: ${rate(stage.out_hz)} ${stage.unit}, of ${rate(stage.in_hz)}`,
  });
  const [gate_along, gate_across] = [along - 1.5, edge - 7];
  const deep = here.in + 14;
  picture.gates.push(
    plan.down
      ? { x: gate_across, y: gate_along, width: deep, height: 3 }
      : { x: gate_along, y: gate_across, width: 3, height: deep },
  );
  gauge(picture, plan, stage, along, here);
  leave(picture, plan, stage, along, here, rows[index] ?? 0);
}

function go_round(
  picture: FlowPicture,
  plan: Plan,
  here: Thickness,
  index: number,
  stages: readonly DrawnStage[],
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
    title: `all that was ${stages[here.bypass.from]?.heading ?? ""} goes to the recording`,
  });
}

function gauge(picture: FlowPicture, plan: Plan, stage: DrawnStage, along: number, here: Thickness): void {
  if (stage.ring_fill === null) return;
  const title = `ring behind "${stage.heading}": ${share(stage.ring_fill)} full`;
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

// Where the red branch goes down, and its words begin.
function lost_along(plan: Plan, along: number, here: Thickness): number {
  return along + bend(plan) + (here.filtered > 0.3 ? here.filtered + 8 : 0);
}

function leave(picture: FlowPicture, plan: Plan, stage: DrawnStage, along: number, here: Thickness, row: number): void {
  const [below, bottom] = [plan.edge + here.out, plan.edge + plan.thickest];
  const [filtered_to, lost_to] = plan.down
    ? [88, 88]
    : [bottom + FILTERED_BELOW, bottom + LOST_BELOW + row * LOST_ROW + 2];
  if (here.filtered > 0.3) {
    const title = `${rate(stage.filtered_hz)} ${stage.filtered_as} at "${stage.heading}": wanted, and counted`;
    picture.bands.push({ kind: "filtered", path: branch(plan, along, below, here.filtered, filtered_to), title });
  }
  if (here.lost > 0) {
    const title =
      stage.losses.map(in_words).join("\n") || stage.lost.map((lost) => `${lost_words(lost)} lost`).join("\n");
    const beside = lost_along(plan, along, here) - along - bend(plan);
    const path = branch(plan, along, below + here.filtered, here.lost, lost_to, plan.down ? 0 : beside);
    picture.bands.push({ kind: "lost", path, title });
  }
  words_below(picture, plan, stage, along, here, row);
}

// The words of a loss: how many, how large a share, why and where.
function words_of_loss({ lost, losses }: DrawnStage): string[] {
  const [finest] = lost;
  const worst = [...losses].sort((a, b) => b.count - a.count).find(({ unit }) => !unit || unit === finest?.unit);
  const how_many = finest ? `${lost_words(finest)} lost` : "lost, how much is unknown";
  const part = finest ? share_words(finest) : "";
  const more = lost.length > 1 ? `and ${lost.slice(1).map(lost_words).join(", ")}` : "";
  const why = worst ? [worst.reason.replaceAll("_", " "), worst.source].filter(Boolean).join(", ") : "";
  return [how_many, more || (part && `${part} of them`), shortened(why)].filter(Boolean);
}

/** How large a part was lost: `≥ 1.2 %`, or nothing where that is not known. */
export function share_words(lost: { share: number | null; quality?: string }): string {
  return typeof lost.share === "number" ? `${lost.quality === "at_least" ? "≥ " : ""}${share(lost.share)}` : "";
}

/** How many were lost, with the unit: `≥ 12.3 k datagrams`. */
export function lost_words({ count: lost, unit, quality }: { count: number; unit: string; quality?: string }): string {
  const bound = quality === "at_least" ? "≥ " : "";
  return `${quality === "unknown" ? "unknown" : `${bound}${count(lost)}`}${unit ? ` ${unit}` : ""}`;
}

const LONGEST_WHY = 26;

function shortened(words: string): string {
  return words.length > LONGEST_WHY ? `${words.slice(0, LONGEST_WHY - 1)}…` : words;
}

// Bold letters of 12 pixels, on average, and some air.
const LETTER = 6.7;
const AIR = 10;

// Rows in which the words of losses stand, so that none covers another's, nor its branch.
function lost_rows(picture: FlowPicture, plan: Plan, lane: Lane, thick: readonly Thickness[]): number[] {
  const words = lane.stages.map((stage, index) => {
    const here = thick[index];
    if (plan.down || !here || here.lost === 0) return null;
    const from = lost_along(plan, place(plan, index + 1), here);
    const wide = Math.max(...words_of_loss(stage).map((line) => line.length)) * LETTER + AIR;
    return { from, to: Math.min(from + wide, picture.width) };
  });
  return packed_rows(words);
}

function words_below(
  picture: FlowPicture,
  plan: Plan,
  stage: DrawnStage,
  along: number,
  here: Thickness,
  row: number,
): void {
  const aside = (stage.filtered_hz ?? 0) > 0 ? `${rate(stage.filtered_hz)} ${stage.filtered_as}` : "";
  const lost = here.lost > 0 ? words_of_loss(stage) : [];
  if (plan.down) {
    const rows = [aside, ...(lost.length > 0 ? lost : ["0 lost"])].filter(Boolean);
    rows.forEach((text, row) => {
      const kind = text === aside ? "filtered" : lost.length > 0 ? "lost" : "quiet";
      picture.labels.push({ kind, x: 96, y: along + 20 + row * 15, anchor: "start", text });
    });
    return;
  }
  const bottom = plan.edge + plan.thickest;
  if (aside) {
    const x = along + bend(plan) + here.filtered / 2;
    picture.labels.push({ kind: "filtered", x, y: bottom + FILTERED_BELOW + 14, anchor: "middle", text: aside });
  }
  if (lost.length === 0) {
    // Beside what is filtered, which goes down at the right.
    const [x, anchor] = here.filtered > 0.3 ? ([along + 4, "end"] as const) : ([along, "middle"] as const);
    picture.labels.push({ kind: "quiet", x, y: bottom + QUIET_BELOW, anchor, text: "0 lost" });
  }
  const from = lost_along(plan, along, here);
  const wide = Math.max(0, ...lost.map((line) => line.length)) * LETTER;
  // Words at the right edge end there.
  const [x, anchor] = from + wide > picture.width ? ([picture.width - 2, "end"] as const) : ([from, "start"] as const);
  lost.forEach((text, line) => {
    const y = bottom + LOST_BELOW + row * LOST_ROW + 14 + line * 14;
    picture.labels.push({ kind: "lost", x, y, anchor, text });
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
      ? `an unknown number${loss.unit ? " of" : ""}`
      : `${loss.quality === "at_least" ? "at least " : ""}${count(loss.count)}`;
  const where = loss.source ? ` at ${loss.source}` : "";
  return `${many}${loss.unit ? ` ${loss.unit}` : ""} lost: ${loss.reason.replaceAll("_", " ")}${where}${loss.advice ? ` – ${loss.advice}` : ""}`;
}

function disk(picture: FlowPicture, plan: Plan, index: number, bytes: string, into: number): void {
  const along = place(plan, index);
  head(picture, plan, index, "disk", bytes, "");
  const [across, deep] = [plan.edge - 3, into + 6];
  picture.gates.push(
    plan.down ? { x: across, y: along, width: deep, height: 8 } : { x: along, y: across, width: 8, height: deep },
  );
}
