// What several screens read out of the live state. Its types are those of the server: generated.ts.

import { lasting } from "../figures/time.js";
import type { LiveState, Loss } from "./generated.js";

/** What was lost, by reason, the most first. Equal reasons of several stages stay apart: the place tells where to look. */
export function losses({ flow }: LiveState): Loss[] {
  const all = flow.flatMap((stage) => stage.losses);
  return all.filter(({ count, quality }) => count > 0 || quality === "unknown").sort((a, b) => b.count - a.count);
}

/** What tells losses from each other: one stage can lose several units of one source for one reason. */
export function loss_key({ stage, reason, unit, source }: Pick<Loss, "stage" | "reason" | "unit" | "source">): string {
  return [stage, reason, unit, source].join("\n");
}

/** Whether anything is being taken now. */
export function is_taking({ state }: LiveState): boolean {
  return state === "running" || state === "paused";
}

const SHAPES: Record<string, readonly [sign: string, level: string]> = {
  running: ["●", "good"],
  paused: ["‖", "waiting"],
  stopping: ["◐", "waiting"],
  ready: ["■", ""],
  configured: ["■", ""],
  stopped: ["■", ""],
  failed: ["▲", "trouble"],
};

/** How the run stands, in a sign and words. An alarm that nobody has acknowledged is trouble whatever the run does. */
export function standing(state: LiveState, is_dead: boolean): { sign: string; text: string; level: string } {
  const word = state.state;
  const alarmed = state.alarms.some(({ active, acknowledged }) => active && !acknowledged);
  const troubles = [
    ["paused, disk full", state.paused_by === "disk"],
    [`${word}, alarm`, alarmed],
    ["running, dead time", word === "running" && is_dead],
  ] as const;
  const trouble = troubles.find(([, holds]) => holds)?.[0] ?? "";
  const [sign, level] = trouble ? (["▲", "trouble"] as const) : (SHAPES[word] ?? ["○", ""]);
  const wait = state.next_run_seconds;
  const next = wait === null ? "" : `, next run in ${lasting(wait)}`;
  return { sign, text: (trouble || word) + next, level };
}
