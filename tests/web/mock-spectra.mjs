// Spectra and pulses that look like those of liquid scintillators at a neutron source: drawn by chance from a fixed seed.
//
//   shapes ─► counts that grow with time ─► packed as the server packs them

/** Mulberry32: short, seeded, good enough for pictures. */
function chance(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let word = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word;
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ENERGY = { label: "energy", field: "energy", unit: "", bins: 4096, low: 0, high: 65536 };
const KEV = { label: "keV", field: "keV", unit: "keV", bins: 4096, low: 0, high: 4096 };
const PLANE = [
  { ...ENERGY, bins: 256 },
  { label: "psd", field: "psd", unit: "", bins: 256, low: 0, high: 1 },
];
const TIME = { label: "time after the reference", field: "dt", unit: "ps", bins: 1024, low: -100_000, high: 100_000 };
const FILLED_AT_FIRST = 60_000;

/** All spectra of an experiment. */
export class SpectraSource {
  constructor(boards, channels) {
    this.random = chance(7);
    this.spectra = [];
    this.grown_ms = Date.now();
    const all = Array.from({ length: boards * channels }, (_, channel) => channel);
    const name = (channel) => `${Math.floor(channel / channels)}-${String(channel % channels).padStart(2, "0")}`;
    const block = (kind, at, words, axes) =>
      all.forEach((channel) =>
        this.spectra.push({
          id: this.spectra.length,
          name: `${name(channel)}: ${words}`,
          kind,
          at,
          channel,
          axes,
          entries: 0,
          asked: 0,
          counts: null,
          source: `digitizer ${Math.floor(channel / channels)}`,
        }),
      );
    block("energy", "received", "energy", [ENERGY]);
    block("kev", "received", "energy in keV", [KEV]);
    block("plane", "received", "energy and pulse shape", PLANE);
    block("energy", "kept", "energy", [ENERGY]);
    block("time_difference", "events", "time difference", [TIME]);
    this.spectra.push({
      id: this.spectra.length,
      name: "energy against energy",
      kind: "own",
      at: "events",
      channel: null,
      axes: [
        { ...ENERGY, bins: 256 },
        { ...ENERGY, bins: 256, label: "energy of the partner" },
      ],
      entries: 0,
      asked: 0,
      counts: null,
    });
  }

  list() {
    return this.spectra.map(({ id, name, kind, at, channel, source, axes, entries }) => ({
      id,
      name,
      kind: `${axes.length}d`,
      what: kind,
      at,
      channel,
      source,
      axes,
      entries,
      revision: String(entries),
    }));
  }

  empty(ids) {
    for (const spectrum of this.spectra.filter(({ id }) => !ids || ids.includes(id))) {
      spectrum.asked++;
      spectrum.entries = 0;
      spectrum.counts = new Uint32Array(spectrum.axes.reduce((bins, axis) => bins * axis.bins, 1));
    }
  }

  /** Lets those grow that were ever looked at. */
  grow(runs) {
    const seconds = Math.min((Date.now() - this.grown_ms) / 1000, 1);
    this.grown_ms = Date.now();
    if (!runs) return;
    this.spectra.filter(({ counts }) => counts).forEach((spectrum) => this.fill(spectrum, Math.ceil(seconds * 2500)));
  }

  packed(ids) {
    const wanted = ids
      .split(",")
      .filter(Boolean)
      .map((each) => each.split(":"));
    return Buffer.concat(
      wanted.flatMap(([id, revision]) => {
        const spectrum = this.spectra[Number(id)];
        if (!spectrum) return [];
        this.fill_first(spectrum);
        const now = (BigInt(spectrum.asked) << 48n) | BigInt(spectrum.entries);
        return String(now) === revision ? [] : [frame(spectrum, now)];
      }),
    );
  }

  saved() {
    return Object.fromEntries(
      [...this.spectra.slice(0, 12), ...this.spectra.slice(128, 140)].map((spectrum) => {
        this.fill_first(spectrum);
        const axis = spectrum.axes[0];
        return [
          `${spectrum.name} (${spectrum.at})`,
          {
            uhi_schema: 1,
            axes: [
              { type: "regular", lower: axis.low, upper: axis.high, bins: axis.bins, underflow: true, overflow: true },
            ],
            storage: { type: "int", values: [0, ...Array.from(spectrum.counts, (n) => Math.round(n * 0.6)), 0] },
            metadata: { name: spectrum.name, kind: spectrum.kind, entries: spectrum.entries },
          },
        ];
      }),
    );
  }

  fill_first(spectrum) {
    if (spectrum.counts) return;
    this.empty([spectrum.id]);
    this.fill(spectrum, spectrum.channel === 59 ? 0 : FILLED_AT_FIRST);
  }

  fill(spectrum, hits) {
    const {
      axes: [x, y],
      counts,
      kind,
      channel,
    } = spectrum;
    for (let hit = 0; hit < hits; hit++) {
      const [a, b] = this.hit(kind, channel ?? 0);
      const column = Math.floor(((a - x.low) / (x.high - x.low)) * x.bins);
      const row = y ? Math.floor(((b - y.low) / (y.high - y.low)) * y.bins) : 0;
      spectrum.entries++;
      if (column >= 0 && column < x.bins && row >= 0 && row < (y?.bins ?? 1)) counts[row * x.bins + column]++;
    }
  }

  normal() {
    return Math.sqrt(-2 * Math.log(1 - this.random())) * Math.cos(2 * Math.PI * this.random());
  }

  hit(kind, channel) {
    const gain = 1 + 0.03 * Math.sin(channel * 1.7);
    if (kind === "time_difference")
      return [this.random() < 0.55 ? 812 * (channel % 8) + 2100 * this.normal() : -100_000 + 200_000 * this.random()];
    const { random } = this;
    const which = random();
    const kev =
      which < 0.5
        ? -260 * Math.log(1 - random())
        : which < 0.72
          ? random() * 1118
          : which < 0.82
            ? 1173.2 + 19 * this.normal()
            : which < 0.91
              ? 1332.5 + 20 * this.normal()
              : which < 0.97
                ? 661.7 + 14.5 * this.normal()
                : 2614.5 * random();
    const energy = kev * 16 * gain;
    if (kind === "kev") return [kev];
    if (kind === "energy") return [energy];
    if (kind === "own")
      return [energy, random() < 0.7 ? Math.abs(energy * 0.6 + 3500 * this.normal()) : -4200 * Math.log(1 - random())];
    const is_neutron = random() < 0.3;
    const e = Math.abs(is_neutron ? -9500 * Math.log(1 - random()) : energy * 1.3 + 400);
    const width = 0.012 + 0.9 / Math.sqrt(e + 200);
    return [e, (is_neutron ? 0.255 + (700 / (e + 6000)) * 0.3 : 0.135) + width * this.normal()];
  }

  pulses(channel, count) {
    return Array.from({ length: count }, (_, index) => this.pulse(channel, index)).sort(
      (a, b) => b.time_ps - a.time_ps,
    );
  }

  pulse(channel, index) {
    const height = 600 + 9000 * this.random() ** 3;
    const slow = this.random() < 0.3 ? 0.34 : 0.14;
    const begin = 64 + Math.round(this.normal());
    const saturated = height > 7800;
    const trace = Array.from({ length: 384 }, (_, sample) => {
      const after = sample - begin;
      const light =
        after < 0
          ? 0
          : (1 - Math.exp(-after / 2.2)) *
            ((1 - slow) * Math.exp(-after / 9) + slow * Math.exp(-after / 60)) *
            height *
            1.4;
      return Math.round(Math.min(1000 + light + 9 * this.normal(), 8192));
    });
    const smooth = trace.map((_, sample) =>
      Math.round(
        trace.slice(Math.max(sample - 12, 0), sample + 1).reduce((sum, each) => sum + each, 0) /
          Math.min(sample + 1, 13),
      ),
    );
    const gate = (from, to) => trace.map((_, sample) => Number(sample >= from && sample < to));
    return {
      time_ps: (Date.now() % 1e7) * 1e9 + index * 7_919_000 + channel,
      energy: Math.round(height * 6),
      energy_short: Math.round(height * 6 * (1 - slow)),
      flags: saturated ? ["saturated"] : [],
      ns_per_sample: 2,
      analog: [trace, smooth],
      digital: [
        gate(begin, begin + 4),
        gate(begin - 8, begin + 32),
        gate(begin - 8, begin + 220),
        gate(begin + 220, begin + 300),
      ],
    };
  }
}

/** A frame as the server sends it. */
export function frame({ id, entries, counts }, revision) {
  const packed = pack(counts);
  const header = Buffer.alloc(28);
  header.writeUInt32LE(id, 0);
  header.writeBigUInt64LE(revision, 4);
  header.writeBigUInt64LE(BigInt(entries), 12);
  header.writeUInt32LE(counts.length, 20);
  header.writeUInt32LE(packed.length, 24);
  return Buffer.concat([header, packed]);
}

/** LEB128; a zero is followed by the length of its run. */
export function pack(counts) {
  const bytes = [];
  const put = (value) => {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
    bytes.push(value);
  };
  for (let at = 0; at < counts.length;) {
    put(counts[at]);
    let end = at + 1;
    if (counts[at] === 0) {
      while (end < counts.length && counts[end] === 0) end++;
      put(end - at);
    }
    at = end;
  }
  return Buffer.from(bytes);
}
