// The ledger as a flow: widths are shares, losses are always seen, and totals become rates.

import assert from "node:assert/strict";
import { test } from "node:test";
import { in_words, lay_out, thicknesses } from "../../web/src/draw/flow_layout.js";
import { FlowMeter, type Flow, type FlowStage } from "../../web/src/live/flow_meter.js";

function stage(name: string, in_hz: number, out_hz: number, more: Partial<FlowStage> = {}): FlowStage {
  return {
    stage: name,
    unit: "hits",
    in_hz,
    out_hz,
    filtered_hz: 0,
    lost_hz: 0,
    lost: 0,
    held: 0,
    losses: [],
    ring_fill: 0.1,
    ...more,
  };
}

const LOSS = { reason: "datagram_gap", source: "board 3", count: 12 };

test("what a stage puts aside and loses is missing behind it", () => {
  const flow: Flow = {
    sources: [],
    byte_rate_hz: 0,
    stages: [
      stage("order", 100, 100),
      stage("coincidence", 100, 25, { filtered_hz: 50, lost_hz: 25, lost: 100, losses: [LOSS] }),
      stage("record", 25, 25),
    ],
  };
  const [first, second, third] = thicknesses(flow);
  assert.ok(first && second && third);
  assert.equal(second.in, first.out);
  assert.ok(Math.abs(second.filtered / second.in - 0.5) < 1e-9);
  assert.ok(Math.abs(second.lost / second.in - 0.25) < 1e-9);
  assert.ok(Math.abs(second.out / second.in - 0.25) < 1e-9);
  assert.equal(third.in, second.out);
});

test("a loss of one in a million is drawn, and says where and why", () => {
  const flow: Flow = {
    sources: [{ name: "board 3", rate_hz: 1e6 }],
    byte_rate_hz: 1e7,
    stages: [stage("receive", 1e6, 1e6, { lost: 12, losses: [LOSS] })],
  };
  for (const width of [1300, 380]) {
    const picture = lay_out(flow, width);
    const lost = picture.bands.filter(({ kind }) => kind === "lost");
    assert.equal(lost.length, 1);
    assert.match(lost[0]?.title ?? "", /12 lost: datagram gap at board 3/);
    assert.ok(picture.labels.some(({ kind, text }) => kind === "lost" && text === "12 hits lost"));
    assert.ok(picture.labels.every(({ x, y }) => x >= 0 && x <= picture.width && y >= 0 && y <= picture.height));
  }
});

test("nothing lost is a quiet zero, nothing running is an idle band", () => {
  const picture = lay_out(
    { sources: [{ name: "a", rate_hz: 0 }], byte_rate_hz: undefined, stages: [stage("receive", 0, 0)] },
    1000,
  );
  assert.ok(!picture.bands.some(({ kind }) => kind === "lost" || kind === "pass"));
  assert.ok(picture.bands.some(({ kind }) => kind === "silent"));
  assert.ok(picture.labels.some(({ kind, text }) => kind === "quiet" && text === "0 lost"));
  assert.ok(!picture.bands.some(({ path }) => path.includes("NaN")));
});

test("what is recorded although it was cut comes round the stages between", () => {
  const stages = [
    stage("order", 100, 100),
    stage("coincidence", 100, 10, { filtered_hz: 90 }),
    stage("record", 100, 100),
  ];
  const found = thicknesses({ sources: [], byte_rate_hz: 0, stages });
  assert.equal(found[2]?.bypass?.from, 0);
  assert.ok(Math.abs((found[2]?.in ?? 0) - (found[0]?.out ?? -1)) < 1e-9);
});

test("rates come from two looks at the books", () => {
  const meter = new FlowMeter();
  const at = (filtered: number, lost: number) => ({
    run: { name: "run1" },
    flow: [{ stage: "cut", unit: "hits", in: 1000, out: 500, in_rate_hz: 900, filtered, lost, losses: [] }],
  });
  meter.flow(at(100, 0), 0);
  const flow = meter.flow(at(300, 4), 1000);
  assert.equal(flow.stages[0]?.filtered_hz, 200);
  assert.equal(flow.stages[0]?.lost_hz, 4);
  const next = meter.flow({ ...at(0, 0), run: { name: "run2" } }, 1100);
  assert.equal(next.stages[0]?.lost_hz, 0, "another run begins anew");
});

test("a loss in words says how well it is known", () => {
  assert.equal(
    in_words({ reason: "buffer_gap", count: 3, quality: "at_least", advice: "look" }),
    "at least 3 lost: buffer gap – look",
  );
  assert.equal(in_words({ reason: "busy", count: 0, quality: "unknown" }), "an unknown number lost: busy");
});
