// Made by web/types.mjs from crates/monitor/src/openapi.json: change the types of Rust, then `make generated`.

import type { LossTotal } from "./generated.js";

/** A run by its `run.json`; of the one under way, what that will say at the end, as far as it is known. */
export interface RecordedRun {
  /** Bytes on file. */
  bytes: number;
  /** Words about it, by whoever started it. */
  comment: string;
  /** Events that it has recorded. */
  events: number;
  /** Its files. */
  files?: RunFile[] | null;
  /** Hits that it has recorded. */
  hits: number;
  /** Its labels, in order of the alphabet. */
  labels: string[];
  /** Whether its ledger balances; null before its end, and without a ledger. */
  ledger_closed: boolean | null;
  /** What it has lost, with how well it is known, and in words; null without a ledger. */
  loss: LossTotal[] | null;
  /** Hits that it has lost, or fragments of a run without hits; where none of these are lost, events or coincidences; null where the number
   * is not known. */
  lost: number | null;
  /** Name of its directory. */
  name: string;
  /** What was written down about it, oldest first. */
  notes: RunNote[];
  /** Its number. */
  number: number;
  /** Its directory; of a single run only, as all that follows. */
  path?: string | null;
  /** Energies of all channels together, in few bins. */
  preview: number[] | null;
  /** Its `run.json`. */
  record?: Record<string, unknown> | null;
  /** What happened to it: why it failed, what was recovered. */
  remarks: string[];
  /** What the policy on old runs has removed of it. */
  removed: RemovedData | null;
  /** How long it took data; null where it is not known. */
  seconds: number | null;
  /** When it started, UTC, as `2026-11-21T02:18:04.123Z`. */
  started: string;
  /** Where it stands, or stood at its end; `unreadable` when that is unknown. */
  state: string;
  /** When it ended, UTC; empty while it goes on. */
  stopped: string;
  /** Its title. */
  title: string;
}

/** Tables of an old run that were removed. */
export interface RemovedData {
  /** When, UTC. */
  at: string;
  /** Bytes of their files. */
  bytes: number;
  /** Rows of all of them. */
  rows: number;
  /** Which rule asked for it, and what it had found. */
  why: string;
}

/** A file of a run. */
export interface RunFile {
  /** Bytes on file. */
  bytes: number;
  /** Its name. */
  name: string;
}

/** What somebody has written down about a run. */
export interface RunNote {
  /** Who has written it; empty where that is not known. */
  author: string;
  /** The words. */
  text: string;
  /** When, UTC; empty where its line is damaged. */
  time: string;
}
