// What several screens read out of the live state. Its types are those of the server: generated.ts.

import type { FlowStage, LiveState, Loss, LostIn, Quality } from "./generated.js";

/** What of the time, or of the triggers, is dead: of late, or since the start. `null` where nobody reports it. */
export function dead_fraction({
  trigger,
  busy_time,
  sources,
}: Pick<LiveState, "trigger" | "busy_time" | "sources">): number | null {
  const of_boards = sources.flatMap(({ dead_time }) => (dead_time ? [dead_time.fraction] : []));
  const of_triggers = trigger?.recent_dead_time_fraction ?? trigger?.dead_time_fraction ?? busy_time?.fraction;
  const all = [...of_boards, ...(typeof of_triggers === "number" ? [of_triggers] : [])];
  return all.length > 0 ? Math.max(...all) : null;
}

/** How long triggers could be taken, or the board that was dead longest could take hits: seconds. */
export function live_seconds({ busy_time, sources }: Pick<LiveState, "busy_time" | "sources">): number | null {
  const all = [busy_time, ...sources.map(({ dead_time }) => dead_time)];
  const known = all.flatMap((each) => (each ? [each.live_seconds] : []));
  return known.length > 0 ? Math.min(...known) : null;
}

/** What a stage lost, by unit, finest first. */
export function lost_at({ stage, lost_in, unit, losses }: FlowStage): LostIn[] {
  // Refused triggers are dead time: nothing was taken, so nothing was lost.
  if (stage === "trigger")
    return losses
      .filter(({ reason, count }) => reason !== "busy" && count > 0)
      .map(({ count, quality }) => ({ unit, count, quality, share: null, share_now: null }));
  return lost_in.filter(({ count, quality }) => count > 0 || quality === "unknown");
}

/** What was lost on the whole path, by unit, the most first. */
export function lost_by_unit({ flow }: Pick<LiveState, "flow">): LostIn[] {
  const sums = new Map<string, LostIn>();
  for (const lost of flow.flatMap(lost_at)) {
    const sum = sums.get(lost.unit);
    if (!sum) sums.set(lost.unit, { ...lost });
    else {
      sum.count += lost.count;
      sum.quality = worse(sum.quality, lost.quality);
      // Shares of different stages are of different inputs.
      sum.share = null;
    }
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}

function worse(one: Quality, other: Quality): Quality {
  return (["unknown", "at_least"] as const).find((each) => each === one || each === other) ?? "exact";
}

/** What was lost, by reason, the most first. Equal reasons of several stages stay apart: the place tells where to look. */
export function losses({ flow }: LiveState): Loss[] {
  const all = flow.flatMap((stage) => stage.losses);
  return all.filter(({ count, quality }) => count > 0 || quality === "unknown").sort((a, b) => b.count - a.count);
}

/** Whether anything is being taken now. */
export function is_taking({ state }: LiveState): boolean {
  return state === "running" || state === "paused";
}
