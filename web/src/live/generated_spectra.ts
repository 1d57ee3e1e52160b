// Made by web/types.mjs from crates/monitor/src/openapi.json: change the types of Rust, then `make generated`.

/** Where on the path a spectrum is filled. */
export type At = "received" | "kept" | "events";

/** An axis. */
export interface Axis {
  /** How many bins. */
  bins: number;
  /** The field that is binned. */
  field: string;
  /** Where the last ends. */
  high: number;
  /** What is written beside it. */
  label: string;
  /** Where the first begins. */
  low: number;
  /** The unit, empty of a pure number. */
  unit: string;
}

/** How many axes a spectrum has. */
export type Dimensions = "1d" | "2d";

/** What a spectrum is filled with. */
export type Kind = "energy" | "kev" | "plane" | "time_difference" | "own";

/** A channel that has pulses. */
export interface PulseChannel {
  /** Its number. */
  channel: number;
  /** Its name. */
  name: string | null;
  /** The source that it belongs to. */
  source: string | null;
}

/** One sampled pulse. */
export interface PulseTrace {
  /** Samples of each analog probe. */
  analog: number[][];
  /** 0 or 1 of each digital probe. */
  digital: number[][];
  /** The board's numbers for what the digital probes show, in their order; empty where it says nothing. */
  digital_kinds: number[];
  /** Long-gate charge or pulse height. */
  energy: number;
  /** Short-gate charge. */
  energy_short: number;
  /** What else is known of it. */
  flags: string[];
  /** From one sample to the next, nanoseconds; null where the source does not say. */
  ns_per_sample: number | null;
  /** Since run start, picoseconds. */
  time_ps: number;
  /** There were more samples than are kept, or the board cut the waveform short. */
  truncated: boolean;
}

/** One spectrum, but for its counts. */
export interface Spectrum {
  /** Where it is filled. */
  at: At;
  /** Its axes, one or two. */
  axes: Axis[];
  /** The channel whose hits it has, if it is of one. */
  channel: number | null;
  /** How many hits or events it has. */
  entries: number;
  /** Its number in this run. */
  id: number;
  /** How many axes it has. */
  kind: Dimensions;
  /** What it is called. */
  name: string;
  /** Rises as it is filled: counts of the same revision are the same. */
  revision: number;
  /** The source of that channel. */
  source: string | null;
  /** What it is filled with. */
  what: Kind;
}
