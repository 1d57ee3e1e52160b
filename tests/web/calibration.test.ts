import assert from "node:assert/strict";
import { test } from "node:test";
import { scaled } from "../../web/src/draw/wheel.js";
import { calibration, calibration_lines, from_known_peaks, known_peaks } from "../../web/src/figures/calibration.js";

test("two peaks of known energy are a calibration, and more of them a line between them", () => {
  const cobalt = [
    { centroid: 3450.6, kev: 1173.228 },
    { centroid: 3919.1, kev: 1332.492 },
  ];
  const line = calibration(cobalt);
  assert.ok(line && line.residual_kev === null);
  for (const { centroid, kev } of cobalt) {
    assert.ok(Math.abs(line.offset_kev + line.gain_kev * centroid - kev) < 1e-6);
  }
  assert.match(calibration_lines(7, line), /^\[\[channel\]\]\nnumber = 7\nenergy_kev = \[0\.215\d*, 0\.3399\d*\]\n$/);
  const three = calibration([...cobalt, { centroid: 1946.9, kev: 661.657 }]);
  assert.ok(three?.residual_kev && three.residual_kev < 1);
});

test("peaks that make no calibration", () => {
  assert.equal(calibration([]), null);
  assert.equal(calibration([{ centroid: 100, kev: 30 }]), null);
  assert.equal(
    calibration([
      { centroid: 100, kev: 30 },
      { centroid: 100, kev: 60 },
    ]),
    null,
  );
  assert.equal(
    calibration([
      { centroid: 100, kev: 60 },
      { centroid: 200, kev: 30 },
    ]),
    null,
  );
});

test("known peaks in an address", () => {
  const peaks = [
    { centroid: 3450.6, kev: 1173.228 },
    { centroid: 0.1, kev: 59.5 },
  ];
  assert.deepEqual(known_peaks(from_known_peaks(peaks)), peaks);
  for (const nonsense of [undefined, "", "7", "7:", ":", "a:b", "1:2:3"]) assert.deepEqual(known_peaks(nonsense), []);
});

test("the wheel keeps what is under the pointer, and ends at the whole", () => {
  assert.deepEqual(scaled([0, 100], 25, 0.8, [0, 100]), [5, 85]);
  assert.deepEqual(scaled([5, 85], 25, 1.25, [0, 100]), null);
  assert.deepEqual(scaled([40, 60], 50, 1.25, [0, 100]), [37.5, 62.5]);
});
