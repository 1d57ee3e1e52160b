// The losses over time: only what has grown while somebody looks, second by second.

import assert from "node:assert/strict";
import { test } from "node:test";
import { in_words, LossHistory } from "../../web/src/live/loss_history.js";
import type { LiveState, Loss } from "../../web/src/live/generated.js";
import { flow_stage, live_state, loss } from "./example_state.js";

function state(name: string, ...losses: Loss[]): LiveState {
  const { run } = live_state();
  return live_state({ run: { ...run, name }, flow: [flow_stage("wire", { unit: "datagrams", losses })] });
}

const lost = (count: number): Loss => loss({ source: "left", unit: "datagrams", count });

test("what was lost before the page was opened has no mark, and what is lost then has one", () => {
  const history = new LossHistory();
  history.note(100, state("1", lost(5)));
  history.note(100.5, state("1", lost(6)));
  history.note(101, state("1", lost(7)));
  history.note(102, state("1", lost(7)));
  history.note(103, state("1", lost(8)));
  assert.deepEqual(
    history.marks().map(({ from_seconds, until_seconds, losses }) => [from_seconds, until_seconds, losses[0]?.count]),
    [
      [100, 101, 2],
      [102, 103, 1],
    ],
  );
  const [mark] = history.marks();
  assert.equal(mark && in_words(mark), "lost 2 datagrams of left at wire: datagram_gap");
});

test("the next run counts from zero, and a count that is taken back is no loss", () => {
  const history = new LossHistory();
  history.note(100, state("1", lost(5)));
  history.note(101, state("1", lost(3)));
  history.note(102, state("1", lost(4)));
  history.note(103, state("2", lost(1)));
  history.note(104, state("2", lost(4)));
  assert.deepEqual(
    history.marks().map(({ until_seconds, losses }) => [until_seconds, losses[0]?.count]),
    [
      [102, 1],
      [104, 4],
    ],
  );
});

test("marks older than ten minutes go, and many kinds are named by the largest three", () => {
  const history = new LossHistory();
  const kinds = (count: number) =>
    (["late", "bad_hash", "buffer_gap", "frame_gap", "datagram_gap"] as const).map((reason, place) => ({
      ...lost(count * (place + 1)),
      reason,
    }));
  history.note(0, state("1"));
  history.note(1, state("1", ...kinds(1)));
  const [mark] = history.marks();
  assert.match(
    mark ? in_words(mark) : "",
    /^lost 5 datagrams of left at wire: datagram_gap, 4 .*, 3 .*: buffer_gap, and 2 more kinds$/,
  );
  history.note(700, state("1", ...kinds(1)));
  assert.equal(history.marks().length, 0);
});
