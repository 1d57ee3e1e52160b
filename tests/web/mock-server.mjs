// A server that tells the page what a real one would: for developing the page, and for its tests where no binary is at hand.
//
//   node mock-server.mjs [port] [hits | triggered | idle]      serves ../../crates/monitor/page and the interface beneath it
//
// 8 boards × 16 channels with γ peaks and two bands of pulse shape, coincidence and a cut; or 24 triggered boards, one of which fails.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { recorded_run, recorded_runs, system, utc_ago } from "./mock-host.mjs";
import { SpectraSource } from "./mock-spectra.mjs";
import { BOARDS, CHANNELS, hits_state, live_state, triggered_state } from "./mock-states.mjs";

const PAGE = join(dirname(fileURLToPath(import.meta.url)), "../../crates/monitor/page");
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" };

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
    this.run =
      kind === "idle"
        ? null
        : { number: 214, title: "Cf-252 at 40 cm, 8 EJ-309", comment: "after the gain scan; HV as in run 209" };
    this.spectra = new SpectraSource(BOARDS, CHANNELS);
    this.recorded = recorded_runs();
    this.notes = [];
    this.applied = [];
    this.changes = 0;
    this.totals = new Map();
    this.messages = [];
    this.say(4300, "info", "run 214 started: 8 boards, 128 channels");
    const advice = "the correction follows it; look at the clock cable when it grows";
    this.say(1210, "warning", "board 5 drifts 3.1 ppb against board 0", advice);
    this.say(95, "info", "file 12 of run 214 closed at 4.00 GB and its ledger balances");
  }

  /** Adds a message of some seconds ago. */
  say(seconds, level, text, advice = "") {
    this.messages.push({ number: this.messages.length + 1, time: utc_ago(seconds), level, text, advice });
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

  tell() {
    const taking = this.state === "running";
    const common = {
      ...live_state(this.run, this.elapsed()),
      state: this.state,
      disk_free_bytes: 1.61e12,
      disk_left_seconds: taking ? 26_400 : null,
      messages: this.messages,
      applied: this.applied,
    };
    return { ...common, ...(this.kind === "triggered" ? triggered_state(this, taking) : hits_state(this, taking)) };
  }

  // Nothing for a while, then a burst, then nothing: so that both pictures are seen.
  lost() {
    const into = Math.max(this.elapsed() - 4300, 0);
    return this.run && this.run.number === 214 ? Math.floor(1824 + into * 3) : 0;
  }

  command(name, body) {
    const allowed = {
      start: ["ready", "stopped"],
      stop: ["running", "paused"],
      pause: ["running"],
      resume: ["paused"],
    }[name];
    if (!allowed) return [404, { error: "no such command" }];
    if (!allowed.includes(this.state))
      return [
        409,
        { error: `the run is ${this.state}`, advice: name === "start" ? "stop it first" : "start one first" },
      ];
    if (name === "start") {
      this.run = {
        number: Math.max(...this.recorded.map(({ number }) => number), this.run?.number ?? 0) + 1,
        title: body.title ?? "",
        comment: body.comment ?? "",
      };
      [this.notes, this.applied] = [[], []];
      this.began_ms = Date.now();
      this.totals.clear();
      this.spectra.empty(null);
    }
    if (name === "stop") {
      this.recorded.unshift({ ...this.present(), stopped: utc_ago(0), ledger_closed: true, state: "stopped" });
    }
    this.state = { start: "running", stop: "stopped", pause: "paused", resume: "running" }[name];
    this.say(0, "info", `run ${this.run.number}: ${this.state}`);
    return [200, { state: this.state }];
  }

  /** Changes what is shown, as far as a page sees it; refuses a name that is in use. */
  change(what, { number, name, keep, channel, energy_kev }) {
    if (what === "revert") this.applied = this.applied.filter((each) => each.number !== number);
    else if (this.applied.some((each) => each.kind === "cut" && each.name === name))
      return [409, { error: `there is a cut "${name}" already`, advice: "choose another name" }];
    else {
      const of_cut = { kind: "cut", name, channel: null, lines: `keep = "${keep}"`, in: 1000, kept: 310 };
      const of_channel = { kind: "calibration", name: `channel ${channel}`, channel, in: 0, kept: 0 };
      const lines = `energy_kev = [${energy_kev}]`;
      const at = { number: ++this.changes, since_seconds: this.elapsed(), after_ps: 0, until_seconds: null };
      this.applied = [...this.applied, { ...at, ...(what === "cut" ? of_cut : { ...of_channel, lines }) }];
    }
    return [200, {}];
  }

  present() {
    return recorded_run({
      name: `run${this.run.number}`,
      ...this.run,
      started: new Date(this.began_ms).toISOString(),
      seconds: this.elapsed(),
      hits: Math.round(this.elapsed() * 2e5),
      lost: this.lost(),
      ledger_closed: null,
      bytes: Math.round(this.elapsed() * 4e6),
      state: this.state,
      notes: this.notes,
    });
  }

  runs() {
    const is_taken = this.run && this.state !== "stopped";
    return [...(is_taken ? [this.present()] : []), ...this.recorded];
  }
}

async function answer(experiment, request, response) {
  const url = new URL(request.url, "http://mock");
  const json = (value, status = 200) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  if (request.method === "POST") {
    if (request.headers["x-thalweg"] !== "1" || request.headers["content-type"] !== "application/json")
      return json({ error: "refused: not from this page" }, 403);
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
  if (what === "view") {
    const [status, answer] = experiment.change(name, body);
    return json(answer, status);
  }
  if (path === "/api/spectra/reset") experiment.spectra.empty(body.ids);
  if (what === "runs" && action === "comment")
    experiment.recorded.filter((run) => run.name === name).forEach((run) => (run.comment = body.comment));
  if (what === "runs" && action === "notes") {
    const { notes } = experiment.runs().find((run) => run.name === name);
    notes.push({ time: utc_ago(0), text: body.text });
    experiment.say(0, "note", body.text);
  }
  if (what === "runs" && action === "verify") return json({ ok: true, problems: [] });
  if (path === "/api/pulses/filter" && /[&|=]$/.test(body.expression))
    return json(
      {
        error: `${body.expression}\n${" ".repeat(body.expression.length - 1)}^ something has to follow`,
        advice: "as in energy > 2000 && !saturated",
      },
      409,
    );
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
  response.writeHead(200, {
    "content-type": TYPES[name.split(".")[1]],
    "content-security-policy":
      "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  });
  response.end(await readFile(join(PAGE, name)));
}

function get(experiment, url, json, response) {
  const [, , what, name, action, wanted] = url.pathname.split("/").map(decodeURIComponent);
  if (what === "state") return json(experiment.tell());
  if (what === "configuration")
    return json({
      source: [{ name: "digitizer 0", format: "caen-x27xx", listen: "udp://10.0.1.1:9000" }],
      coincidence: { mode: "reference", window_ps: 40_000 },
      cut: [{ name: "neutrons", keep: "psd > 0.12 && energy > 200" }],
      record: { hits: "kept", directory: "/data/runs" },
    });
  if (what === "history") {
    const sources = [{ source: "digitizer 0", rates_hz: [9e5, 1e6, 1.1e6] }];
    return json({
      step_seconds: 1,
      ago_seconds: [30, 20, 10],
      sources,
      series: [],
      busy: [null, null, null],
      losses: [],
    });
  }
  if (what === "system") return json(system());
  if (what === "spectra" && name === "counts") {
    experiment.spectra.grow(experiment.state === "running");
    response.writeHead(200, { "content-type": "application/octet-stream" });
    return response.end(experiment.spectra.packed(url.searchParams.get("ids") ?? ""));
  }
  if (what === "spectra") return json(experiment.kind === "triggered" ? [] : experiment.spectra.list());
  if (what === "pulses" && name)
    return json(experiment.spectra.pulses(Number(name), Number(url.searchParams.get("count") ?? 1)));
  if (what === "pulses")
    return json(
      [0, 1, 2, 16, 17].map((channel) => ({
        channel,
        name: `${Math.floor(channel / CHANNELS)}-${String(channel % CHANNELS).padStart(2, "0")}`,
      })),
    );
  if (what === "runs" && !name) return json(experiment.runs());
  const run = experiment.runs().find((each) => each.name === name);
  if (what === "runs" && run && !action)
    return json({
      ...run,
      path: `/data/runs/${name}`,
      files: [
        { name: "hits-000.arrow", bytes: 4e9 },
        { name: "hits-001.arrow", bytes: 2.13e9 },
        { name: "run.json", bytes: 8123 },
        { name: "ledger.json", bytes: 30_412 },
        // They are written when a run ends.
        ...(run.stopped ? [{ name: "spectra.json", bytes: 1.2e6 }] : []),
      ],
    });
  if (what === "runs" && run && wanted === "spectra.json") return json(experiment.spectra.saved());
  return json({ error: "there is no such thing here" }, 404);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { address } = await serve(Number(process.argv[2] ?? 8099), process.argv[3]);
  console.log(address);
}
