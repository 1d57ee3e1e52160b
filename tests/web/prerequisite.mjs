// What a test in a browser needs that a machine may lack. As `tests/prerequisite` for Rust: a test that cannot run is skipped, counted
// and listed by `make test`, and fails where THALWEG_STRICT is set.

import { appendFileSync } from "node:fs";
import { chromium_path } from "./browser.mjs";

/** For `skip` of a group of tests: `false` where they can run, else what is missing. */
export function skip_without(is_there, tests, missing) {
  if (is_there || process.env.THALWEG_STRICT) return false;
  const { THALWEG_SKIPPED: list } = process.env;
  if (list) appendFileSync(list, `${tests}: ${missing}\n`);
  return missing;
}

/** `skip_without` a browser. */
export function skip_without_chromium(tests) {
  return skip_without(
    chromium_path() !== null,
    tests,
    "no Chromium: install the package chromium, or say where it is in CHROMIUM",
  );
}
