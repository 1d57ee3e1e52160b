import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "../../web/src/live/history.js";
import { LossHistory } from "../../web/src/live/loss_history.js";

test("what the server knew stands in front of what was noted since", () => {
  const history = new History();
  history.note(100, new Map([["left", 5]]));
  history.note(101, new Map([["left", 6]]));
  const values = (left: number, right: number | null) =>
    new Map<string, number | null>([
      ["left", left],
      ["right", right],
    ]);
  history.fill([
    { at_seconds: 98, values: values(3, null) },
    { at_seconds: 99, values: values(4, 9) },
    // The page has noted this one itself.
    { at_seconds: 100.1, values: values(5, 9) },
  ]);
  assert.deepEqual(history.names(), ["left", "right"]);
  assert.deepEqual(history.columns(), [
    [98, 99, 100, 101],
    [3, 4, 5, 6],
    [null, 9, null, null],
  ]);
  history.note(
    102,
    new Map([
      ["left", 7],
      ["right", 8],
    ]),
  );
  assert.deepEqual(history.columns()[2], [null, 9, null, null, 8]);
});

test("losses from before the page was opened have their marks", () => {
  const history = new LossHistory();
  const mark = (from_seconds: number) => ({ from_seconds, until_seconds: from_seconds + 1, losses: [] });
  history.fill([mark(5), mark(8)]);
  history.fill([mark(2), mark(5)]);
  assert.deepEqual(
    history.marks().map(({ from_seconds }) => from_seconds),
    [2, 5, 8],
  );
});
