// What several screens read out of the live state. Its types are those of the server: generated.ts.

import type { LiveState, Loss } from "./generated.js";

/** What was lost, by reason, the most first. Equal reasons of several stages stay apart: the place tells where to look. */
export function losses({ flow }: LiveState): Loss[] {
  const all = flow.flatMap((stage) => stage.losses);
  return all.filter(({ count, quality }) => count > 0 || quality === "unknown").sort((a, b) => b.count - a.count);
}

/** Whether anything is being taken now. */
export function is_taking({ state }: LiveState): boolean {
  return state === "running" || state === "paused";
}
