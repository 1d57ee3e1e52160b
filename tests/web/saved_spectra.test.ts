// The spectra of a recorded run under those of this one.

import assert from "node:assert/strict";
import { test } from "node:test";

import { same_spectrum, type SavedHistogram } from "../../web/src/screens/saved_spectra.js";

test("a saved spectrum is found by its name, its place and its channel", () => {
  const saved = (at: string, channel?: number): SavedHistogram => ({
    axes: [{ bins: 1 }],
    storage: { values: [channel ?? 9] },
    metadata: { name: "Ge: energy", at, ...(channel === undefined ? {} : { channel }) },
  });
  const all = {
    "Ge: energy (received), channel 0": saved("received", 0),
    "Ge: energy (received), channel 1": saved("received", 1),
    "Ge: energy (received)": saved("received"),
  };
  const found = (channel: number | null, at: "received" | "kept" = "received") =>
    same_spectrum(all, { name: "Ge: energy", at, channel })?.storage.values[0];
  assert.deepEqual([found(0), found(1), found(null), found(2), found(0, "kept")], [0, 1, 9, undefined, undefined]);
});
