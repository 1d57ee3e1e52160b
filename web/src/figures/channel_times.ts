// What the hits of one channel stand for, in words: live time, dead time, and its rate with dead time and losses corrected.

import type { ChannelState, Quality } from "../live/generated.js";
import { measured_as, quantity, share } from "./quantity.js";
import { lasting } from "./time.js";

const UNKNOWN = "unknown";
const PREFIX: Record<Quality, string> = { exact: "", at_least: "≥ ", unknown: "" };

/** The facts of one channel, "unknown" where nobody knows. */
export function channel_times(own: ChannelState): [name: string, value: string][] {
  const { live_time_s, live_time_quality, dead_time_fraction, corrected_hits, corrected_quality } = own;
  const { corrected_rate_hz: rate, corrected_rate_uncertainty_hz: uncertainty } = own;
  return [
    ["live time", live_time_s === null ? UNKNOWN : PREFIX[live_time_quality] + lasting(live_time_s)],
    ["dead time", dead_time_fraction === null ? UNKNOWN : share(dead_time_fraction)],
    [
      "pulses, losses included",
      corrected_hits === null ? UNKNOWN : PREFIX[corrected_quality] + quantity(corrected_hits, ""),
    ],
    ["corrected rate", rate === null || uncertainty === null ? UNKNOWN : measured_as(rate, uncertainty, "/s")],
  ];
}
