// Runs the unit tests: each *.test.ts is bundled with what it tests, and node's own runner does the rest.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const { buildSync } = createRequire(new URL("../../web/package.json", import.meta.url))("esbuild");
const names = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
const built = mkdtempSync(join(tmpdir(), "thalweg-page-"));
try {
  buildSync({
    entryPoints: names.map((name) => join(here, name)),
    bundle: true,
    platform: "node",
    format: "esm",
    outdir: built,
    outExtension: { ".js": ".mjs" },
    sourcemap: "inline",
    logLevel: "error",
  });
  const { status } = spawnSync(
    process.execPath,
    ["--enable-source-maps", "--test", ...names.map((name) => join(built, name.replace(/ts$/, "mjs")))],
    { stdio: "inherit" },
  );
  process.exitCode = status ?? 1;
} finally {
  rmSync(built, { recursive: true });
}
