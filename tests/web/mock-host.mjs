// What does not change while a run goes on: the runs before it, the machine, and what was planned.

/** An instant as the server writes it. */
export function utc_ago(seconds) {
  return new Date(Date.now() - 1000 * seconds).toISOString();
}

/** A recorded run of which nothing special is known; losses are of hits. */
export function recorded_run(more) {
  const { hits = 0, lost = 0 } = more;
  const of = hits + lost;
  const text = lost > 0 ? `hits lost: ${lost}` : "no hits lost";
  return {
    title: "",
    comment: "",
    stopped: "",
    hits,
    events: 0,
    lost,
    loss: [{ unit: "hits", count: lost, of, fraction: of > 0 ? lost / of : null, quality: "exact", bound: null, text }],
    ledger_closed: true,
    removed: null,
    remarks: [],
    preview: null,
    labels: [],
    notes: [],
    ...more,
  };
}

/** Twelve runs, one of which failed. */
export function recorded_runs() {
  const titles = [
    "Cf-252 at 40 cm, long",
    "background, beam off",
    "Co-60, energy calibration",
    "Cs-137, energy calibration",
    "Na-22, time alignment",
    "threshold scan, board 3",
    "Cf-252 at 80 cm",
    "gain scan, 1650 V",
    "gain scan, 1600 V",
    "gain scan, 1550 V",
    "pulser, dead time",
    "first light",
  ];
  return titles.map((title, index) => {
    const seconds = 600 + ((index * 2741) % 5400);
    const failed = index === 5;
    return recorded_run({
      name: `run${213 - index}`,
      number: 213 - index,
      title,
      comment: failed ? "disk full at the end; the recording verifies" : "",
      started: utc_ago(4600 + index * 9200),
      stopped: utc_ago(4600 + index * 9200 - seconds),
      seconds,
      hits: Math.round(seconds * 196_000 * (1 + (index % 4))),
      events: index % 3 === 0 ? Math.round(seconds * 21_000) : 0,
      lost: failed ? 41_207 : 0,
      ledger_closed: true,
      bytes: Math.round(seconds * 3.9e6),
      state: failed ? "failed" : "stopped",
      preview: Array.from({ length: 92 }, (_, x) =>
        Math.round(4000 * Math.exp(-x / 22) + 900 * Math.exp(-0.5 * ((x - 30 - index * 2) / 2.5) ** 2)),
      ),
      labels: index === 0 ? ["good"] : [],
      notes: index === 0 ? [{ time: utc_ago(4700), text: "source moved 2 cm closer", author: "" }] : [],
    });
  });
}

function planned() {
  return {
    title: "8 sources, 128 channels",
    total_bytes: 4.06e9,
    budget: Object.entries({
      "receive pools": 2.1e9,
      rings: 2.7e8,
      "time order": 5.4e8,
      coincidence: 3.2e7,
      spectra: 6.1e8,
      "record buffers": 5.1e8,
    }).map(([purpose, bytes]) => ({ purpose, owner: "run", bytes, reason: "" })),
    rings: [
      { from: "receive", to: "order", carries: "batches of hits", batches: 256, full: "hold" },
      { from: "order", to: "record", carries: "ordered batches", batches: 64, full: "hold" },
    ],
  };
}

/** The machine beneath it. */
export function system() {
  const busy = (name, core, share) => ({
    name,
    core,
    ran_seconds: (share * (Date.now() % 1e6)) / 1e3,
    waited_seconds: share * 11,
  });
  return {
    host: "daq-01",
    kernel: "6.12.48",
    processor: "16 cores, 2 nodes",
    memory_bytes: 1.3e11,
    uptime_seconds: 911_000,
    version: "0.4.0",
    threads: [
      ...Array.from({ length: 8 }, (_, board) =>
        busy(`receive digitizer ${board}`, board, 0.21 + 0.03 * Math.sin(board)),
      ),
      busy("order", 8, 0.63),
      busy("process", 9, 0.71),
      busy("record", 10, 0.34),
      busy("monitor", 11, 0.008),
    ],
    memory: { resident_bytes: 4.31e9, host_bytes: 1.3e11, host_available_bytes: 9.7e10 },
    plan: planned(),
    checks: [
      check("net.core.rmem_max", "212992", "bad", {
        severity: "error",
        command: "sysctl -w net.core.rmem_max=67108864",
      }),
      check("frequency governor", "powersave", "bad", { command: "cpupower frequency-set -g performance" }),
      check("flow control (ens1f0)", "unknown: this driver has no such thing", "unknown"),
      check("large pages", "2 GiB reserved and free; without reservation: madvise", "good"),
    ],
    counters: [
      { name: "host_udp_receive_buffer_errors", total: 0, rate_hz: 0 },
      { name: "ens1f0 rx_missed_errors", total: 1824, rate_hz: 0.3 },
      { name: "host_softnet_dropped", total: 0, rate_hz: 0 },
    ],
  };
}

function check(name, value, verdict, { severity = "warning", command = "" } = {}) {
  const why = "what it is for";
  return { name, value, wanted: "what would do", why, command, kept_by: "", severity, verdict };
}
