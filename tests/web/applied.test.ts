// What is applied to a run is what the lines for its configuration say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { calibration_lines, coefficients } from "../../web/src/figures/calibration.js";
import { configuration, cut_of, type Point } from "../../web/src/figures/polygon.js";
import type { AppliedChange } from "../../web/src/live/generated.js";
import { when } from "../../web/src/parts/applied.js";

test("a calibration is applied with the numbers that are written", () => {
  const line = { offset_kev: -1.23456789, gain_kev: 0.312345678, residual_kev: null };
  assert.deepEqual(coefficients(line), [-1.234568, 0.3123457]);
  assert.equal(calibration_lines(7, line), "[[channel]]\nnumber = 7\nenergy_kev = [-1.234568, 0.3123457]\n");
});

test("a region is applied with the corners that are written, kept or cut away", () => {
  const corners: Point[] = [
    [200.004, 0.2],
    [3000, 0.1512345],
    [3000, 0.4],
  ];
  const cut = cut_of("neutrons", "energy", "psd", corners, false);
  assert.equal(cut.keep, "!inside(neutrons)");
  assert.deepEqual(cut.polygon.points, [
    [200, 0.2],
    [3000, 0.15123],
    [3000, 0.4],
  ]);
  const lines = configuration("neutrons", "energy", "psd", corners, false);
  assert.ok(lines.includes(`points = ${JSON.stringify(cut.polygon.points).replaceAll(",", ", ")}`), lines);
  assert.ok(lines.includes(`keep = "${cut.keep}"`), lines);
});

test("a change says since when, and a cut how much it keeps", () => {
  const applied: AppliedChange = {
    ...{ number: 1, kind: "cut", name: "neutrons", channel: null, lines: "", after_ps: 0, until_seconds: null },
    ...{ since_seconds: 727, in: 1000, kept: 310 },
  };
  assert.equal(when(applied), "applied at 0:12:07, not in the configuration file, keeps 31.0 %");
  assert.equal(
    when({ ...applied, since_seconds: null, in: 0, kept: 0 }),
    "applied with the next hits, not in the configuration file",
  );
});
