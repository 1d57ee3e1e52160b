// The losses of the last ten minutes: what the ledger counted in which second.

import { SPAN_SECONDS } from "./history.js";
import type { LiveState, Loss } from "./generated.js";
import { loss_key, losses } from "./state.js";

/** Losses of one kind that were counted in a stretch of time. */
export type CountedLoss = Pick<Loss, "stage" | "reason" | "unit" | "source" | "count">;

/** A stretch of time in which something was lost. */
export interface LossMark {
  from_seconds: number;
  until_seconds: number;
  losses: CountedLoss[];
}

/** Notes by how much the counts of losses grow. */
export class LossHistory {
  #run: string | null = null;
  #before = new Map<string, number>();
  #noted_seconds = 0;
  #marks: LossMark[] = [];

  /** Notes the counts of a state; called often, it compares them once a second. */
  note(now_seconds: number, state: LiveState): void {
    const run = state.run.name ?? String(state.run.number);
    const all: CountedLoss[] = losses(state);
    const counts = new Map(all.map((loss) => [loss_key(loss), loss.count]));
    if (run !== this.#run) {
      // A run that was going on when the page was opened has losses of times that nobody has seen here.
      this.#before = this.#run === null ? counts : new Map();
      [this.#run, this.#noted_seconds] = [run, now_seconds];
      return;
    }
    if (now_seconds - this.#noted_seconds < 0.95) return;
    const grown = all
      .map((loss) => ({ ...loss, count: loss.count - (this.#before.get(loss_key(loss)) ?? 0) }))
      .filter(({ count }) => count > 0);
    if (grown.length > 0)
      this.#marks.push({ from_seconds: this.#noted_seconds, until_seconds: now_seconds, losses: grown });
    [this.#before, this.#noted_seconds] = [counts, now_seconds];
    this.#marks = this.#marks.filter(({ until_seconds }) => until_seconds >= now_seconds - SPAN_SECONDS);
  }

  /** Puts what was lost before this page was opened in front of what was noted here. */
  fill(past: readonly LossMark[]): void {
    const first = this.#marks[0]?.from_seconds ?? Infinity;
    this.#marks.unshift(...past.filter(({ until_seconds }) => until_seconds <= first));
  }

  /** What was lost when, the oldest first. */
  marks(): readonly LossMark[] {
    return this.#marks;
  }
}

/** What was lost, in words: the largest counts first. */
export function in_words({ losses }: LossMark): string {
  const shown = losses.toSorted((a, b) => b.count - a.count).slice(0, 3);
  const words = shown.map(({ count, unit, source, stage, reason }) => {
    const whose = source === "" ? "" : ` of ${source}`;
    return `${count} ${unit}${whose} at ${stage}: ${reason}`;
  });
  const more = losses.length - shown.length;
  return `lost ${words.join(", ")}${more > 0 ? `, and ${more} more kinds` : ""}`;
}
