// What the browser tests look at: a server that runs already, the real binary, or the mock where there is neither.
//
//   THALWEG_PAGE_URL=http://…                 that server
//   THALWEG_BINARY=…/thalweg                  started with THALWEG_PAGE_ARGUMENTS (of a triggered run, THALWEG_PAGE_TRIGGERED_ARGUMENTS),
//                                             which make it serve a page and print its address
//   neither                                   the mock

import { spawn } from "node:child_process";
import { serve } from "./mock-server.mjs";

const ADDRESS = /https?:\/\/(?:127\.0\.0\.1|\[::1\]|localhost):\d+[^\s"']*/;
const LONGEST_START_MS = 20_000;

/** Starts what is to be looked at. `is_real` says whether numbers are those of the mock. */
export async function start_server(mock_kind = "hits") {
  const { THALWEG_PAGE_URL: url, THALWEG_BINARY: binary } = process.env;
  const is_triggered = mock_kind === "triggered";
  const typed = is_triggered ? process.env.THALWEG_PAGE_TRIGGERED_ARGUMENTS : process.env.THALWEG_PAGE_ARGUMENTS;
  if (url && !is_triggered) return { address: url, is_real: true, close: async () => {} };
  if (binary && typed) return start_binary(binary, typed.split(" ").filter(Boolean));
  return { ...(await serve(0, mock_kind)), is_real: false };
}

async function start_binary(binary, typed) {
  const child = spawn(binary, typed, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let told = "";
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`${binary} ${typed.join(" ")} told no address in ${LONGEST_START_MS} ms:\n${told}`)),
      LONGEST_START_MS,
    );
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
    child.once("exit", (code) => reject(new Error(`${binary} ended with ${code} before it told an address:\n${told}`)));
  });
  const close = async () => {
    child.kill("SIGINT");
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(timer);
  };
  return { address: address.replace(/[.,;]$/, ""), is_real: true, close };
}
