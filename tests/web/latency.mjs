// From a hit on the wire to a count on the screen: how old is what the page shows?
//
//   thalweg emulate ─ UDP ─► this program, which notes when ─ UDP ─► thalweg serve ─► page in Chromium ─► this program
//
// Every datagram is passed on at once. Its hits are seen when the number of entries below the spectrum, as drawn, has reached
// all hits sent until then: of a datagram it is the last hit that is waited for. Not a test, since it depends on the machine;
// `make latency` prints it.

import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open_browser, open_page } from "./browser.mjs";
import { address_told } from "./server.mjs";

const BINARY = process.env.THALWEG_BINARY ?? "target/release/thalweg";
const SECONDS = Number(process.env.SECONDS ?? 20);
// Entries are shown to the last digit up to 9999.
const RATE_HZ = 9000 / SECONDS;

// How long hits wait for others to come before them.
const DISORDER_MS = 20;

/** A socket on a port of its own. */
async function open_socket() {
  const socket = createSocket("udp4");
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return socket;
}

/** A port that nobody has. */
async function free_port() {
  const socket = await open_socket();
  const { port } = socket.address();
  socket.close();
  return port;
}

/** Hits in a datagram of the board: its aggregates hold hits of two words and no waveforms, and each is whole in its datagram. */
function count_hits(datagram) {
  const BYTES = 8;
  const high = (at) => datagram.readUInt32BE(at);
  let hits = 0;
  for (let at = 0; at + BYTES <= datagram.length;) {
    const format = high(at) >>> 28;
    // Behind the events lies what ends a datagram.
    if (format !== 2 && format !== 3) break;
    const end = at + BYTES * datagram.readUInt32BE(at + 4);
    if (end > datagram.length) throw new Error(`an aggregate ends at byte ${end} of a datagram of ${datagram.length}`);
    for (let word = at + BYTES; format === 2 && word < end; word += BYTES) {
      // The board's statistics are no hits.
      hits += (high(word) >>> 23) & 1 ? 0 : 1;
      while (word < end && high(word) >>> 31 === 0) word += BYTES;
    }
    at = end;
  }
  return hits;
}

/** Passes datagrams on, and notes when each went and how many hits it had. */
async function open_relay(port) {
  const [from, to] = [await open_socket(), await open_socket()];
  const sent = [];
  from.on("message", (datagram) => {
    sent.push({ at_ms: Date.now(), hits: count_hits(datagram) });
    to.send(datagram, port, "127.0.0.1");
  });
  return { port: from.address().port, sent, close: () => [from, to].forEach((socket) => socket.close()) };
}

/** In the page: every number of entries that was drawn, and when. */
function note_entries() {
  globalThis.seen = [];
  const note = () => {
    const entries = Number(document.querySelector(".entries")?.textContent);
    const last = globalThis.seen.at(-1);
    if (Number.isInteger(entries) && last?.entries !== entries) globalThis.seen.push({ at_ms: Date.now(), entries });
    requestAnimationFrame(note);
  };
  note();
}

/** For each datagram, how long after it the last of its hits was on the screen. */
function ages_ms(sent, seen) {
  const all = sent.reduce((sum, one) => sum + one.hits, 0);
  if (seen.at(-1).entries !== all)
    throw new Error(`${all} hits were sent, ${seen.at(-1).entries} entries are on the screen`);
  let until = 0;
  return sent.map(({ at_ms, hits }) => {
    until += hits;
    const shown = seen.find(({ entries }) => entries >= until);
    return shown === undefined ? Infinity : shown.at_ms - at_ms;
  });
}

const directory = mkdtempSync(join(tmpdir(), "thalweg-latency-"));
const port = await free_port();
const relay = await open_relay(port);
const configuration = join(directory, "latency.toml");
writeFileSync(
  configuration,
  `[[source]]\nname = "board"\nformat = "digitizer2"\nurl = "udp://127.0.0.1:${port}"\nchannels = 1\n` +
    `[spectra]\nplanes = false\n[record]\ntables = ["hits"]\n`,
);
const served = spawn(BINARY, ["serve", configuration, "--listen", "127.0.0.1:0", "--start"], { cwd: directory });
const browser = await open_browser();
try {
  const address = await address_told(served, "thalweg serve");
  const { page } = await open_page(browser, `${address}/#/spectra`);
  await page.locator(".entries").first().waitFor();
  await page.evaluate(note_entries);
  const settings = join(directory, "board.toml");
  writeFileSync(settings, "channels = 1\nwaveform_samples = 0\n");
  const typed = ["--to", `127.0.0.1:${relay.port}`, "--settings", settings, "--rate", RATE_HZ, "--seconds", SECONDS];
  const boards = spawn(BINARY, ["emulate", ...typed], { cwd: directory, stdio: "inherit" });
  await once(boards, "exit");
  await page.waitForTimeout(1000);
  const seen = await page.evaluate(() => globalThis.seen);
  const all = ages_ms(relay.sent, seen);
  const last = all.at(-1);
  // Nothing comes that proves the latest hits to be in order: they wait until the board counts as silent.
  const end_ms = relay.sent.at(-1).at_ms - DISORDER_MS;
  const ages = all.filter((_, index) => relay.sent[index].at_ms < end_ms).sort((one, other) => one - other);
  const at = (share) => ages[Math.min(ages.length - 1, Math.floor(share * ages.length))];
  console.log(
    `latency: ${ages.length} datagrams with ${seen.at(-1).entries} hits; on the screen after ${at(0.5)} ms (half of them), ` +
      `${at(0.95)} ms (95 %), ${at(1)} ms (all); those of the last, with silence behind them, after ${last} ms; ` +
      `drawn ${(seen.length / SECONDS).toFixed(1)} times a second`,
  );
} finally {
  await browser.close();
  relay.close();
  served.kill("SIGINT");
  await once(served, "exit");
  rmSync(directory, { recursive: true, force: true });
}
