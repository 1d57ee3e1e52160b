import assert from "node:assert/strict";
import { test } from "node:test";
import type { Alarm, LiveState } from "../../web/src/live/generated.js";
import { standing } from "../../web/src/live/state.js";
import { standing_losses } from "../../web/src/parts/messages.js";
import { flow_stage, live_state, loss } from "./example_state.js";

const ALARM: Alarm = {
  name: "disk",
  subject: "",
  level: "error",
  active: true,
  since: "2026-11-21T02:18:04.123Z",
  value: 1,
  threshold: 2,
  text: "free some",
  acknowledged: null,
};

function shown(more: Partial<LiveState>, is_dead = false): string {
  const { sign, text, level } = standing(live_state(more), is_dead);
  return `${sign} ${text} (${level})`;
}

test("an alarm that stands is trouble whatever the run does, until somebody has seen it", () => {
  for (const state of ["configured", "ready", "running", "paused", "stopping", "stopped", "failed"] as const)
    assert.equal(shown({ state, alarms: [ALARM] }), `▲ ${state}, alarm (trouble)`);
  const seen = { ...ALARM, acknowledged: "2026-11-21T02:20:00.000Z" };
  assert.equal(shown({ state: "stopped", alarms: [seen, { ...ALARM, active: false }] }), "■ stopped ()");
});

test("a full disk comes first, and dead time is of a run that takes data", () => {
  assert.equal(shown({ state: "paused", paused_by: "disk", alarms: [ALARM] }), "▲ paused, disk full (trouble)");
  assert.equal(shown({ state: "running" }, true), "▲ running, dead time (trouble)");
  assert.equal(shown({ state: "running", alarms: [ALARM] }, true), "▲ running, alarm (trouble)");
  assert.equal(shown({ state: "stopped" }, true), "■ stopped ()");
  assert.equal(shown({ state: "failed" }), "▲ failed (trouble)");
});

test("a run that has a successor says when that starts", () => {
  assert.equal(shown({ state: "failed", next_run_seconds: 75.3 }), "▲ failed, next run in 1 m 15 s (trouble)");
});

test("a stage that has lost several units of one source for one reason has a message for each", () => {
  const losses = [loss({ unit: "frames", count: 30 }), loss({ unit: "hits", count: 7 })];
  const messages = standing_losses(live_state({ flow: [flow_stage("wire", { losses })] }));
  assert.equal(new Set(messages.map(({ key }) => key)).size, 2);
  assert.deepEqual(
    messages.map(({ text }) => /\d+ \w+/.exec(text)?.[0]),
    ["30 frames", "7 hits"],
  );
});
