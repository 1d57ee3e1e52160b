// The ledger as a flow: widths are shares, losses are always seen, and totals become rates.

import assert from "node:assert/strict";
import { test } from "node:test";
import { in_words, lay_out, thicknesses, type FlowPicture } from "../../web/src/draw/flow_layout.js";
import { packed_rows } from "../../web/src/draw/label_rows.js";
import { flow_of, type DrawnStage, type Flow, type Lane } from "../../web/src/live/lanes.js";
import { flow_stage, live_state, loss, lost_in, source_state } from "./example_state.js";

function stage(name: string, in_hz: number | null, out_hz: number | null, more: Partial<DrawnStage> = {}): DrawnStage {
  return {
    stage: name,
    heading: name,
    filtered_as: "filtered",
    unit: "hits",
    in_hz,
    out_hz,
    filtered_hz: 0,
    lost_share: 0,
    lost: [],
    held: 0,
    losses: [],
    ring_fill: 0.1,
    ...more,
  };
}

const LOSS = loss();
const LOST = { ...lost_in("hits", 12, "exact"), share: 12e-6 };

function lane(stages: DrawnStage[], more: Partial<Lane> = {}): Lane {
  return { path: "hits", sources: [], stages, trigger: null, ...more };
}

function flow_with(...lanes: Lane[]): Flow {
  return { lanes, byte_rate_hz: 1e7 };
}

/** Every word, as a rectangle. */
function boxes({
  labels,
  dense,
}: FlowPicture): { text: string; left: number; right: number; top: number; bottom: number }[] {
  return labels
    .filter(({ text }) => text !== "")
    .map(({ text, x, y, anchor, kind }) => {
      const wide = text.length * (kind === "rate" ? 8.5 : 6.2) * (dense ? 0.8 : 1);
      const left = anchor === "start" ? x : anchor === "end" ? x - wide : x - wide / 2;
      return { text, left, right: left + wide, top: y - 10, bottom: y + 2 };
    });
}

test("what a stage puts aside and loses is missing behind it", () => {
  const [first, second, third] = thicknesses(
    lane([
      stage("order", 100, 100),
      stage("coincidence", 100, 25, { filtered_hz: 50, lost_share: 0.25, lost: [LOST], losses: [LOSS] }),
      stage("record", 25, 25),
    ]),
  );
  assert.ok(first && second && third);
  assert.equal(second.in, first.out);
  assert.ok(Math.abs(second.filtered / second.in - 0.5) < 1e-9);
  assert.ok(Math.abs(second.lost / second.in - 0.25) < 1e-9);
  assert.ok(Math.abs(second.out / second.in - 0.25) < 1e-9);
  assert.equal(third.in, second.out);
});

test("a loss of one in a million is drawn, and says where and why", () => {
  const flow = flow_with(
    lane([stage("receive", 1e6, 1e6, { lost: [LOST], losses: [LOSS] })], {
      sources: [{ name: "board 3", rate_hz: 1e6 }],
    }),
  );
  for (const width of [1300, 380]) {
    const picture = lay_out(flow, width);
    const lost = picture.bands.filter(({ kind }) => kind === "lost");
    assert.equal(lost.length, 1);
    assert.match(lost[0]?.title ?? "", /12 hits lost: datagram gap at board 3/);
    const words = picture.labels.filter(({ kind }) => kind === "lost").map(({ text }) => text);
    assert.deepEqual(words, ["12 hits lost", "12.0 µ of them", "datagram gap, board 3"]);
    assert.ok(picture.labels.every(({ x, y }) => x >= 0 && x <= picture.width && y >= 0 && y <= picture.height));
  }
});

const HITS = ["wire", "receive", "raw", "unpack", "decode", "order", "cut", "coincide", "cut", "record"];
const EVENTS = ["wire", "receive", "unpack", "build", "record"];

test("words of losses at every stage cover neither each other nor any other word", () => {
  const losing = (name: string) =>
    stage(name, 1e6, 1e6, {
      unit: "datagrams",
      filtered_hz: name === "cut" ? 1e5 : 0,
      lost: [lost_in("datagrams", 12_345_678, "at_least")],
      losses: [{ ...LOSS, source: "a board with a long name" }],
    });
  for (const width of [1300, 870]) {
    const picture = lay_out(flow_with(lane(HITS.map(losing)), lane(EVENTS.map(losing), { path: "events" })), width);
    const all = boxes(picture);
    for (const [index, one] of all.entries()) {
      assert.ok(one.bottom <= picture.height, `"${one.text}" lies below the picture`);
      for (const other of all.slice(index + 1)) {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const along = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        assert.ok(across <= 0 || along <= 0, `"${one.text}" lies on "${other.text}" at ${width} pixels`);
      }
    }
  }
});

test("words that hang on branches are packed so that no branch crosses words", () => {
  assert.deepEqual(packed_rows([{ from: 0, to: 90 }, null, { from: 100, to: 150 }]), [0, 0, 0]);
  const words = [0, 60, 120, 400].map((from) => ({ from, to: from + 100 }));
  assert.deepEqual(packed_rows(words), [2, 1, 0, 0]);
});

test("at 1024 pixels of the window the flow runs to the right, on a phone downwards", () => {
  const flow = flow_with(
    lane(HITS.map((name) => stage(name, 10, 10))),
    lane(
      EVENTS.map((name) => stage(name, 10, 10)),
      { path: "events" },
    ),
  );
  const heads = (width: number) => lay_out(flow, width).labels.filter(({ kind }) => kind === "stage");
  assert.equal(new Set(heads(870).map(({ y }) => y)).size, 2, "two lanes, each in one line");
  assert.equal(new Set(heads(340).map(({ x }) => x)).size, 1, "one column");
});

test("hits and triggers have a ribbon each, on a scale of its own", () => {
  const busy = (name: "decode" | "wire" | "record", rate_hz: number, path: "hits" | "events") =>
    flow_stage(name, { path, unit: path, in_rate_hz: rate_hz, out_rate_hz: rate_hz });
  const state = live_state({
    sources: [
      source_state("ge", { hit_rate_hz: 1e6 }),
      source_state("tracker", { kind: "triggered", fragment_rate_hz: 8000 }),
    ],
    flow: [
      ...(["decode", "record"] as const).map((name) => busy(name, 1e6, "hits")),
      ...(["wire", "record"] as const).map((name) => busy(name, 8000, "events")),
    ],
  });
  const flow = flow_of(state);
  assert.deepEqual(
    flow.lanes.map(({ path, sources, stages }) => [path, sources.length, stages.length]),
    [
      ["hits", 1, 2],
      ["events", 1, 2],
    ],
  );
  for (const each of flow.lanes)
    for (const { out } of thicknesses(each)) assert.equal(out, thicknesses(each)[0]?.in, "nothing narrows");
});

test("nothing lost is a quiet zero, nothing running is an idle band", () => {
  const picture = lay_out(
    { lanes: [lane([stage("receive", 0, 0)], { sources: [{ name: "a", rate_hz: 0 }] })], byte_rate_hz: 0 },
    1000,
  );
  assert.ok(!picture.bands.some(({ kind }) => kind === "lost" || kind === "pass"));
  assert.ok(picture.bands.some(({ kind }) => kind === "silent"));
  assert.ok(picture.labels.some(({ kind, text }) => kind === "quiet" && text === "0 lost"));
  assert.ok(!picture.bands.some(({ path }) => path.includes("NaN")));
});

test("a rate that is not known is a dash, and nobody is silent for that", () => {
  const state = live_state({
    sources: [source_state("a", { hit_rate_hz: null, fragment_rate_hz: null })],
    flow: [flow_stage("decode", { in_rate_hz: null, out_rate_hz: null, filtered_rate_hz: null })],
    byte_rate_hz: null,
  });
  const picture = lay_out(flow_of(state), 1000);
  assert.ok(!picture.bands.some(({ kind }) => kind === "silent" || kind === "idle"));
  assert.ok(picture.bands.some(({ title }) => title === "a: –"));
  const rates = picture.labels.filter(({ kind }) => kind === "rate").map(({ text }) => text);
  assert.deepEqual(rates, ["–", "–", "–"], "of the boards, the stage and the disk");
  assert.ok(!picture.bands.some(({ path }) => path.includes("NaN")));
});

test("what is recorded although it was cut comes round the stages between", () => {
  const stages = [
    stage("order", 100, 100),
    stage("coincidence", 100, 10, { filtered_hz: 90 }),
    stage("cut", 4, 4, { unit: "events" }),
    // A recorder writes by the batch: its rate is not quite that of the hits.
    stage("record", 92, 110),
  ];
  const found = thicknesses(lane(stages));
  assert.equal(found[3]?.bypass?.from, 0);
  assert.ok(Math.abs((found[3]?.in ?? 0) - 0.92 * (found[0]?.out ?? -1)) < 1e-9);
});

test("rates and shares of the flow are those of the server", () => {
  const cut = flow_stage("cut", {
    in_rate_hz: 900,
    filtered_rate_hz: 200,
    lost_in: [{ ...lost_in("hits", 4, "exact"), share_now: 4 / 900 }],
  });
  const [drawn] =
    flow_of(live_state({ flow: [flow_stage("trigger", { stands_apart: true }), cut] })).lanes[0]?.stages ?? [];
  assert.deepEqual([drawn?.stage, drawn?.filtered_hz, drawn?.lost_share], ["cut", 200, 4 / 900]);
});

test("a stage stands under the words that the server gives it", () => {
  const named = { heading: "held off", filtered_as: "too soon", filtered_rate_hz: 50 };
  const flow = flow_of(live_state({ flow: [flow_stage("holdoff", { in_rate_hz: 100, out_rate_hz: 50, ...named })] }));
  const words = lay_out(flow, 1200).labels.map(({ text }) => text);
  assert.ok(words.includes("held off"), words.join(" | "));
  assert.ok(
    words.some((text) => text.endsWith("too soon")),
    words.join(" | "),
  );
});

test("a loss in words says how well it is known", () => {
  assert.equal(
    in_words({ reason: "buffer_gap", count: 3, quality: "at_least", advice: "look" }),
    "at least 3 lost: buffer gap – look",
  );
  assert.equal(in_words({ reason: "busy", count: 0, quality: "unknown" }), "an unknown number lost: busy");
});

test("triggers that were refused turn away before the boards", () => {
  const trigger = {
    offered: 1000,
    accepted: 730,
    refused: 270,
    dead_time_fraction: 0.27,
    recent_dead_time_fraction: 0.3,
  };
  const wire = stage("wire", 100, 100, { unit: "fragments" });
  for (const width of [1300, 380]) {
    const picture = lay_out(flow_with(lane([wire], { path: "events", trigger })), width);
    assert.equal(picture.bands.filter(({ kind }) => kind === "refused").length, 1);
    assert.ok(picture.labels.some(({ kind, text }) => kind === "refused" && text === "30.0 % of triggers refused"));
    assert.ok(!picture.bands.some(({ kind }) => kind === "lost"), "nothing that was taken is lost");
  }
});
