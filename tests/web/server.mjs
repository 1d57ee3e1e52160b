// What the browser tests look at: a server that runs already, the real binary, or the mock where there is neither.
//
//   THALWEG_PAGE_URL=http://…                 that server
//   THALWEG_BINARY=…/thalweg                  `thalweg serve hits.toml` (or another of KINDS), in a directory of its own
//   neither                                   the mock

import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "./mock-server.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ADDRESS = /https?:\/\/(?:127\.0\.0\.1|\[::1\]|localhost):\d+/;
const LONGEST_END_MS = 60_000;
const LONGEST_START_MS = 240_000;

/** What the binary is started with: a configuration, or words of its own. */
const KINDS = {
  idle: { configuration: "hits.toml" },
  hits: { configuration: "hits.toml" },
  triggered: { configuration: "triggered.toml" },
  boards: { configuration: "../../examples/tcp-detector-105.toml" },
  busy: { configuration: "busy.toml" },
  // Hits and triggers together, and a network that loses.
  demo: { typed: ["demo", "--boards", "4", "--loss", "0.02", "--seconds", "600", "--directory", "runs"] },
};

/** Whether the binary can be looked at, whatever else is there. */
export function has_binary() {
  return process.env.THALWEG_BINARY !== undefined;
}

/** Starts what is to be looked at, one of KINDS. `is_real` says that numbers are not those of the mock. */
export async function start_server(kind) {
  const { THALWEG_PAGE_URL: url, THALWEG_BINARY: binary } = process.env;
  if (url && (kind === "idle" || kind === "hits")) return { address: url, is_real: true, close: async () => {} };
  if (binary && can_serve(binary)) return start_binary(binary, kind);
  return { ...(await serve(0, kind)), is_real: false };
}

function can_serve(binary) {
  const serves = spawnSync(binary, ["serve", "--help"]).status === 0;
  if (!serves) console.log(`${binary} has no command "serve": the mock is looked at`);
  return serves;
}

async function start_binary(binary, kind) {
  const directory = mkdtempSync(join(tmpdir(), "thalweg-page-"));
  const own = join(directory, "experiment.toml");
  const { configuration, typed: words } = KINDS[kind];
  if (configuration) copyFileSync(join(HERE, configuration), own);
  const typed = [...(words ?? ["serve", own, ...(kind === "idle" ? [] : ["--start"])]), "--listen", "127.0.0.1:0"];
  const child = spawn(binary, typed, { cwd: directory, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const close = async () => {
    child.kill("SIGINT");
    const timer = setTimeout(() => child.kill("SIGKILL"), LONGEST_END_MS);
    await ended;
    clearTimeout(timer);
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    return { address: await address_told(child, `${binary} ${typed.join(" ")}`), is_real: true, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The first address that a program prints. */
export function address_told(child, what) {
  return new Promise((resolve, reject) => {
    let told = "";
    const refuse = (why) => reject(new Error(`${what} ${why}:\n${told}`));
    const timer = setTimeout(() => refuse(`told no address in ${LONGEST_START_MS} ms`), LONGEST_START_MS);
    const hear = (piece) => {
      told += piece;
      const found = told.match(ADDRESS);
      if (!found) return;
      clearTimeout(timer);
      resolve(found[0]);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("error", reject);
    child.once("exit", (code) => refuse(`ended with ${code} before it told an address`));
  });
}
