// Builds the page: TypeScript and styles into the files that the binary embeds.
//
//   src/ ──► crates/monitor/page/ { index.html, app.js, app.css, and the compressed ones }
//
// The same sources give the same bytes, so that a test can tell whether what is committed is what is written here.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const into = process.argv[2] ?? join(here, "../crates/monitor/page");
/** What the page may weigh, compressed. */
const BUDGET_BYTES = 150_000;

await mkdir(into, { recursive: true });
await build({
  entryPoints: [{ in: join(here, "src/main.ts"), out: "app" }],
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome111", "firefox115", "safari16.4"],
  outdir: into,
  legalComments: "none",
  charset: "utf8",
  banner: { js: "// Contains uPlot (MIT licence, © Leon Sorokin)." },
});
await build({
  entryPoints: [{ in: join(here, "src/styles.css"), out: "app" }],
  bundle: true,
  minify: true,
  outdir: into,
  target: ["chrome111", "firefox115", "safari16.4"],
  charset: "utf8",
  loader: { ".css": "css" },
});
await copyFile(join(here, "src/index.html"), join(into, "index.html"));

let total = 0;
for (const name of ["index.html", "app.css", "app.js"]) {
  const compressed = gzipSync(await readFile(join(into, name)), { level: 9 });
  // The server hands these to browsers that take them; compressing while serving would cost the data path.
  if (name !== "index.html") await writeFile(join(into, `${name}.gz`), compressed);
  const size = compressed.length;
  total += size;
  console.log(`${name.padEnd(12)} ${String(size).padStart(7)} bytes compressed`);
}
console.log(`together     ${String(total).padStart(7)} of ${BUDGET_BYTES}`);
if (total > BUDGET_BYTES) {
  console.error(`the page is ${total} bytes compressed, at most ${BUDGET_BYTES}: leave something out`);
  process.exit(1);
}
