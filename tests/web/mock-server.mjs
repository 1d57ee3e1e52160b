// A server that tells the page what a real one would: for developing the page, and for its tests where no binary is at hand.
//
//   node mock-server.mjs [port] [hits | triggered | idle]      serves ../../crates/monitor/page and the interface beneath it
//
// 8 boards × 16 channels with γ peaks and two bands of pulse shape, coincidence and a cut; or 24 triggered boards, one of which fails.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SpectraSource } from "./mock-spectra.mjs";

const PAGE = join(dirname(fileURLToPath(import.meta.url)), "../../crates/monitor/page");
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" };
const BOARDS = 8;
const CHANNELS = 16;

/** Starts a server; answers with its address and a way to end it. */
export async function serve(port = 0, kind = "hits") {
  const experiment = new Experiment(kind);
  const server = createServer((request, response) => {
    answer(experiment, request, response).catch((error) => {
      response.writeHead(500);
      response.end(String(error));
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { address: `http://127.0.0.1:${server.address().port}`, close, experiment };
}

class Experiment {
  constructor(kind) {
    this.kind = kind === "triggered" ? "triggered" : "hits";
    this.state = kind === "idle" ? "ready" : "running";
    this.began_ms = Date.now() - (kind === "idle" ? 0 : 4327_000);
    this.run = kind === "idle" ? null : { number: 214, title: "Cf-252 at 40 cm, 8 EJ-309", comment: "after the gain scan; HV as in run 209" };
    this.spectra = new SpectraSource(BOARDS, CHANNELS);
    this.recorded = recorded_runs();
    this.totals = new Map();
    this.messages = [
      { time: seconds_ago(4300), level: "info", text: "run 214 started: 8 boards, 128 channels" },
      { time: seconds_ago(1210), level: "warning", text: "board 5 drifts 3.1 ppb against board 0", advice: "the correction follows it; look at the clock cable when it grows" },
      { time: seconds_ago(95), level: "info", text: "file 12 of run 214 closed at 4.00 GB and its books agree" },
    ];
  }

  /** A total that grows by its rate, from what it would be had the rate always been so. */
  total(name, rate_hz) {
    const before = this.totals.get(name) ?? { at_ms: Date.now(), total: rate_hz * this.elapsed() };
    const now = { at_ms: Date.now(), total: before.total + (rate_hz * (Date.now() - before.at_ms)) / 1000 };
    this.totals.set(name, now);
    return Math.round(now.total);
  }

  elapsed() {
    return this.run ? (Date.now() - this.began_ms) / 1000 : 0;
  }

  rate(board, channel) {
    if (board === 3 && channel === 11) return 0;
    const wobble = 1 + 0.04 * Math.sin(Date.now() / 7000 + board) + 0.01 * Math.sin(Date.now() / 900 + channel);
    return 25_000 * (1.15 - 0.08 * board) * Math.exp(-(((channel - 7.5) / 6) ** 2)) * wobble;
  }

  tell() {
    const taking = this.state === "running";
    const common = {
      state: this.state, lost: 0, disk_free_bytes: 1.61e12, disk_left_seconds: taking ? 26_400 : null, alarms: [], messages: this.messages,
      run: this.run && { ...this.run, name: `run${this.run.number}`, started: this.began_ms / 1000, elapsed_seconds: this.elapsed(), limits: {} },
    };
    return { ...common, ...(this.kind === "triggered" ? this.triggered(taking) : this.hits(taking)) };
  }

  hits(taking) {
    const sources = Array.from({ length: BOARDS }, (_, board) => {
      const channels = Array.from({ length: CHANNELS }, (_, channel) => ({
        channel: board * CHANNELS + channel, name: `${board}-${String(channel).padStart(2, "0")}`, group: board < 4 ? "ring" : "wall", rate_hz: taking ? this.rate(board, channel) : 0,
      }));
      const hit_rate_hz = channels.reduce((sum, { rate_hz }) => sum + rate_hz, 0);
      return { name: `digitizer ${board}`, kind: "hits", links: 0, hit_rate_hz, fragment_rate_hz: 0, byte_rate_hz: hit_rate_hz * 16, lost: board === 5 ? this.lost() : 0, ring_fill: 0.04 + 0.02 * board, pool_fill: 0.11, channels };
    });
    const all = sources.reduce((sum, { hit_rate_hz }) => sum + hit_rate_hz, 0);
    const seconds = this.elapsed();
    const [coincident, cut] = [all * 0.125, all * 0.097];
    const lost = this.lost();
    const gap = { reason: "datagram_gap", source: "digitizer 5", count: lost, quality: "exact", advice: "the kernel's receive buffer overflowed: raise net.core.rmem_max to 64 MiB" };
    const stage = (stage, unit, in_rate_hz, out_rate_hz, ring_fill, more = {}) =>
      ({ stage, unit, in_rate_hz, out_rate_hz, in: this.total(`${stage} in`, in_rate_hz), out: this.total(`${stage} out`, out_rate_hz), filtered: 0, held: 0, lost: 0, losses: [], ring_fill, ...more });
    const flow = [
      stage("receive", "datagrams", all / 480, all / 480, 0.06, { lost, losses: lost > 0 ? [gap] : [] }),
      stage("decode", "hits", all, all, 0.14), stage("order", "hits", all, all, 0.31, { held: 41_200 }),
      stage("coincidence", "hits", all, coincident, 0.02, { filtered: this.total("single", all - coincident) }),
      stage("cut", "hits", coincident, cut, 0.01, { filtered: this.total("cut", coincident - cut) }),
      stage("record", "hits", cut, cut, 0.22),
    ];
    return {
      sources, flow, lost, hits_recorded: Math.round(cut * seconds), recorded_rate_hz: cut, bytes_recorded: Math.round(cut * seconds * 19.6), byte_rate_hz: cut * 19.6, events: null,
      cuts: [{ name: "neutrons", on: "hit", in: 1e6, kept: 776_000 }],
      clocks: [1, 2, 5].map((board) => ({ source: `digitizer ${board}`, reference: "digitizer 0", offset_ps: 812.4 * board, offset_error_ps: 11.2, drift_ppb: 0.62 * board, locked: true })),
      coincidences: { rate_hz: coincident / 2.2, events: Math.round((coincident / 2.2) * seconds), multiplicity: [0, 0, 812_345, 96_123, 11_890, 1_402, 143, 12] },
    };
  }

  // Nothing for a while, then a burst, then nothing: so that both pictures are seen.
  lost() {
    const into = Math.max(this.elapsed() - 4300, 0);
    return this.run && this.run.number === 214 ? Math.floor(1824 + into * 3) : 0;
  }

  triggered(taking) {
    const rate_hz = taking ? 92_400 * (1 + 0.02 * Math.sin(Date.now() / 3000)) : 0;
    const boards = 24;
    const missing = (board) => (board === 17 ? 0.42 : board === 4 ? 0.9993 : 1);
    const sources = Array.from({ length: 3 }, (_, crate) => ({
      name: `crate ${crate + 1}`, kind: "triggered", links: 8, hit_rate_hz: 0, fragment_rate_hz: rate_hz * 8 * (crate === 2 ? 0.93 : 1), byte_rate_hz: rate_hz * 8 * 212, lost: crate === 2 ? 8123 : 0, ring_fill: 0.2, pool_fill: 0.35, channels: [],
    }));
    const seconds = this.elapsed();
    const fragments = sources.reduce((sum, { fragment_rate_hz }) => sum + fragment_rate_hz, 0);
    const lost = this.total("missing", rate_hz * 0.58);
    const stage = (stage, unit, in_rate_hz, out_rate_hz, ring_fill, more = {}) =>
      ({ stage, unit, in_rate_hz, out_rate_hz, in: this.total(`${stage} in`, in_rate_hz), out: this.total(`${stage} out`, out_rate_hz), filtered: 0, held: 0, lost: 0, losses: [], ring_fill, ...more });
    const bell = (low, middle, bins, step, total) => Array.from({ length: bins }, (_, bin) => {
      const value = Math.round(low * step ** bin);
      return [value, Math.round(total * Math.exp(-0.5 * (Math.log(value / middle) / 0.22) ** 2))];
    }).filter(([, n]) => n > 0);
    return {
      sources, lost, hits_recorded: 0, recorded_rate_hz: 0, bytes_recorded: Math.round(rate_hz * seconds * 5088), byte_rate_hz: rate_hz * 5088,
      flow: [
        stage("receive", "datagrams", fragments / 3, fragments / 3, 0.1), stage("decode", "fragments", fragments, fragments, 0.18),
        stage("build", "fragments", fragments + rate_hz * 0.58, fragments, 0.27, { lost, losses: [{ reason: "missing_fragment", source: "board 17", count: lost, quality: "exact", advice: "look at the board's link and at its busy output: all other boards answered" }] }),
        stage("record", "events", rate_hz, rate_hz, 0.4),
      ],
      events: {
        event_rate_hz: rate_hz, events_recorded: Math.round(rate_hz * seconds),
        completeness: Array.from({ length: boards }, (_, board) => ({ name: `board ${board}`, expected: Math.round(rate_hz * 2.5), built: Math.round(rate_hz * 2.5 * missing(board)) })),
        closed: [Math.round(rate_hz * seconds * 0.42), Math.round(rate_hz * seconds * 0.58), 0, 0, 0], open_events: 1431, span: 1602, held_bytes: 7.1e6, median_event_bytes: 5088, event_bytes: bell(2000, 5088, 60, 1.04, 81_000),
        median_build_ns: 214_000, p99_build_ns: 1_830_000, build_ns: bell(60_000, 214_000, 70, 1.06, 64_000), busy: false, busy_share: 0.0132 + 0.002 * Math.sin(Date.now() / 5000), triggers_refused: 120_332, ring_fill: 0.4,
      },
      coincidences: null, clocks: [], cuts: [],
      alarms: [{ name: "board 17", level: "warning", active: true, since: seconds_ago(640), value: 0.42, threshold: 0.99, text: "answers to 42.0 % of the triggers, at least 99 %" }],
    };
  }

  command(name, body) {
    const allowed = { start: ["ready", "stopped"], stop: ["running", "paused"], pause: ["running"], resume: ["paused"] }[name];
    if (!allowed) return [404, { error: "no such command" }];
    if (!allowed.includes(this.state)) return [409, { error: `the run is ${this.state}`, advice: name === "start" ? "stop it first" : "start one first" }];
    if (name === "start") {
      this.run = { number: Math.max(...this.recorded.map(({ number }) => number), this.run?.number ?? 0) + 1, title: body.title ?? "", comment: body.comment ?? "" };
      this.began_ms = Date.now();
      this.totals.clear();
      this.spectra.empty(null);
    }
    if (name === "stop") {
      this.recorded.unshift({ name: `run${this.run.number}`, ...this.run, started: this.began_ms / 1000, stopped: Date.now() / 1000, seconds: this.elapsed(), hits: Math.round(this.elapsed() * 2e5), events: 0, lost: this.lost(), ledger_closed: true, bytes: Math.round(this.elapsed() * 4e6), state: "stopped" });
    }
    this.state = { start: "running", stop: "stopped", pause: "paused", resume: "running" }[name];
    this.messages.push({ time: Date.now() / 1000, level: "info", text: `run ${this.run.number}: ${this.state}` });
    return [200, { state: this.state }];
  }

  runs() {
    const current = this.run && this.state !== "stopped" ? [{ name: `run${this.run.number}`, ...this.run, started: this.began_ms / 1000, seconds: this.elapsed(), hits: Math.round(this.elapsed() * 2e5), events: 0, lost: this.lost(), ledger_closed: false, bytes: Math.round(this.elapsed() * 4e6), state: this.state }] : [];
    return [...current, ...this.recorded];
  }
}

function seconds_ago(seconds) {
  return Date.now() / 1000 - seconds;
}

function recorded_runs() {
  const titles = ["Cf-252 at 40 cm, long", "background, beam off", "Co-60, energy calibration", "Cs-137, energy calibration", "Na-22, time alignment", "threshold scan, board 3", "Cf-252 at 80 cm", "gain scan, 1650 V", "gain scan, 1600 V", "gain scan, 1550 V", "pulser, dead time", "first light"];
  return titles.map((title, index) => {
    const seconds = 600 + ((index * 2741) % 5400);
    const failed = index === 5;
    return {
      name: `run${213 - index}`, number: 213 - index, title, comment: failed ? "disk full at the end; the recording verifies" : "", started: seconds_ago(4600 + index * 9200), stopped: seconds_ago(4600 + index * 9200 - seconds), seconds,
      hits: Math.round(seconds * 196_000 * (1 + (index % 4))), events: index % 3 === 0 ? Math.round(seconds * 21_000) : 0, lost: failed ? 41_207 : 0, ledger_closed: true, bytes: Math.round(seconds * 3.9e6), state: failed ? "failed" : "stopped",
      preview: Array.from({ length: 92 }, (_, x) => Math.round(4000 * Math.exp(-x / 22) + 900 * Math.exp(-0.5 * ((x - 30 - index * 2) / 2.5) ** 2))),
    };
  });
}

async function answer(experiment, request, response) {
  const url = new URL(request.url, "http://mock");
  const json = (value, status = 200) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  if (request.method === "POST") {
    if (request.headers["x-thalweg"] !== "1" || request.headers["content-type"] !== "application/json") return json({ error: "refused: not from this page" }, 403);
    return post(experiment, url.pathname, await body_of(request), json);
  }
  if (url.pathname === "/api/events") return stream(experiment, request, response);
  if (!url.pathname.startsWith("/api/")) return file(url.pathname, response);
  return get(experiment, url, json, response);
}

async function body_of(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return JSON.parse(text || "{}");
}

function post(experiment, path, body, json) {
  const [, , what, name, action] = path.split("/");
  if (what === "run") {
    const [status, told] = experiment.command(name, body);
    return json(told, status);
  }
  if (path === "/api/spectra/reset") experiment.spectra.empty(body.ids);
  if (what === "runs" && action === "comment") experiment.recorded.filter((run) => run.name === name).forEach((run) => (run.comment = body.comment));
  if (what === "runs" && action === "verify") return json({ ok: true, text: "verified: 12 files, 41 203 batches, the books agree" });
  if (path === "/api/pulses/filter" && /[&|=]$/.test(body.expression)) return json({ error: `${body.expression}\n${" ".repeat(body.expression.length - 1)}^ something has to follow`, advice: "as in energy > 2000 && !saturated" }, 409);
  return json({});
}

function stream(experiment, request, response) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  const tell = () => response.write(`event: state\ndata: ${JSON.stringify(experiment.tell())}\n\n`);
  tell();
  const timer = setInterval(tell, 100);
  request.on("close", () => clearInterval(timer));
}

async function file(path, response) {
  const name = path === "/" ? "index.html" : path.slice(1);
  if (!/^[a-z]+\.(html|js|css)$/.test(name)) {
    response.writeHead(404);
    return response.end();
  }
  // As strict as the real one, so that what it forbids is seen here first.
  response.writeHead(200, { "content-type": TYPES[name.split(".")[1]], "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" });
  response.end(await readFile(join(PAGE, name)));
}

function get(experiment, url, json, response) {
  const [, , what, name, action, wanted] = url.pathname.split("/").map(decodeURIComponent);
  if (what === "state") return json(experiment.tell());
  if (what === "configuration") return json({ source: [{ name: "digitizer 0", format: "caen-x27xx", listen: "udp://10.0.1.1:9000" }], coincidence: { mode: "reference", window_ps: 40_000 }, cut: [{ name: "neutrons", keep: "psd > 0.12 && energy > 200" }], record: { hits: "kept", directory: "/data/runs" } });
  if (what === "system") return json(system());
  if (what === "spectra" && name === "counts") {
    experiment.spectra.grow(experiment.state === "running");
    response.writeHead(200, { "content-type": "application/octet-stream" });
    return response.end(experiment.spectra.packed(url.searchParams.get("ids") ?? ""));
  }
  if (what === "spectra") return json(experiment.kind === "triggered" ? [] : experiment.spectra.list());
  if (what === "pulses" && name) return json(experiment.spectra.pulses(Number(name), Number(url.searchParams.get("count") ?? 1)));
  if (what === "pulses") return json([0, 1, 2, 16, 17].map((channel) => ({ channel, name: `${Math.floor(channel / CHANNELS)}-${String(channel % CHANNELS).padStart(2, "0")}` })));
  if (what === "runs" && !name) return json(experiment.runs());
  const run = experiment.runs().find((each) => each.name === name);
  if (what === "runs" && run && !action) return json({ ...run, path: `/data/runs/${name}`, files: [{ name: "hits-000.arrow", bytes: 4e9 }, { name: "hits-001.arrow", bytes: 2.13e9 }, { name: "run.json", bytes: 8123 }, { name: "ledger.json", bytes: 30_412 }, { name: "spectra.json", bytes: 1.2e6 }] });
  if (what === "runs" && run && wanted === "spectra.json") return json(experiment.spectra.saved());
  return json({ error: "there is no such thing here" }, 404);
}

function system() {
  const busy = (name, core, share) => ({ name, core, ran_seconds: share * (Date.now() % 1e6) / 1e3, waited_seconds: share * 11 });
  return {
    host: "daq-01", kernel: "6.12.48", processor: "16 cores, 2 nodes", memory_bytes: 1.3e11, uptime_seconds: 911_000, version: "0.4.0",
    threads: [...Array.from({ length: 8 }, (_, board) => busy(`receive digitizer ${board}`, board, 0.21 + 0.03 * Math.sin(board))), busy("order", 8, 0.63), busy("process", 9, 0.71), busy("record", 10, 0.34), busy("monitor", 11, 0.008)],
    memory: { resident_bytes: 4.31e9, host_bytes: 1.3e11, host_available_bytes: 9.7e10 },
    plan: { title: "8 sources, 128 channels", total_bytes: 4.06e9, budget: Object.entries({ "receive pools": 2.1e9, rings: 2.7e8, "time order": 5.4e8, coincidence: 3.2e7, spectra: 6.1e8, "record buffers": 5.1e8 }).map(([purpose, bytes]) => ({ purpose, owner: "run", bytes, reason: "" })), rings: [{ from: "receive", to: "order", carries: "batches of hits", batches: 256, full: "hold" }, { from: "order", to: "record", carries: "ordered batches", batches: 64, full: "hold" }] },
    checks: [{ check: "receive buffer", ok: true, found: "64 MiB" }, { check: "huge pages", ok: true, found: "1024 × 2 MiB" }, { check: "frequency governor", ok: false, found: "powersave", advice: "cpupower frequency-set -g performance" }],
    counters: [{ name: "UdpRcvbufErrors", total: 0, rate_hz: 0 }, { name: "ens1f0 rx_missed_errors", total: 1824, rate_hz: 0.3 }, { name: "softnet dropped", total: 0, rate_hz: 0 }],
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { address } = await serve(Number(process.argv[2] ?? 8099), process.argv[3]);
  console.log(address);
}
