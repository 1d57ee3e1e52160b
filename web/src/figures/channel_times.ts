// What the hits of one channel, or the events of triggered boards, stand for, in words: live time, dead time, and rates and counts with
// dead time and losses corrected.

import type { ChannelState, Corrected, NormalisedEvents, Quality } from "../live/generated.js";
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

/** The facts of the events of triggered boards; none of time slices, which no trigger makes. */
export function event_counts(own: NormalisedEvents | null): [name: string, value: string][] {
  if (!own) return [];
  const { triggers_accepted: accepted, live_fraction, lost_before_building: lost, lost_before_building_quality } = own;
  return [
    ["triggers accepted", accepted === null ? UNKNOWN : quantity(accepted, "")],
    ["live, of all offered", live_fraction === null ? UNKNOWN : share(live_fraction)],
    ["lost before building", PREFIX[lost_before_building_quality] + quantity(lost, "")],
    ["accepted, losses included", corrected(own.loss_corrected, "")],
    ["corrected trigger rate", corrected(own.rate_hz, "/s")],
  ];
}

function corrected({ value, uncertainty, quality }: Corrected, unit: string): string {
  return value === null || uncertainty === null ? UNKNOWN : PREFIX[quality] + measured_as(value, uncertainty, unit);
}
