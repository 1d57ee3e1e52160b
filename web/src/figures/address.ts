// What is shown, as an address that can be pasted into a logbook.
//
//   #/spectra?channel=3&x=100~500&log=1  ◄──►  { screen: "spectra", shown: { channel: "3", x: "100~500", log: "1" } }

/** The screens, in the order of their keys 1 to 6. */
export const SCREENS = ["run", "spectra", "pulses", "events", "runs", "system"] as const;
export type ScreenName = (typeof SCREENS)[number];

/** A screen and what it shows. */
export interface Address {
  screen: ScreenName;
  shown: Record<string, string>;
}

/** The address in a fragment; of anything unknown, the first screen. */
export function parsed(fragment: string): Address {
  const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  const screen = SCREENS.find((each) => each === path) ?? "run";
  return { screen, shown: Object.fromEntries(new URLSearchParams(query)) };
}

/** The fragment of an address. Characters that may stand there stay readable. */
export function written({ screen, shown }: Address): string {
  const readable = (text: string) =>
    encodeURIComponent(text).replace(/%2C/g, ",").replace(/%3B/g, ";").replace(/%20/g, "+");
  const parts = Object.entries(shown)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${readable(name)}=${readable(value)}`);
  return `#/${screen}${parts.length > 0 ? `?${parts.join("&")}` : ""}`;
}

/** A range in an address: `100~500`. */
export function range(text: string | undefined): [number, number] | null {
  const [low, high, more] = (text ?? "").split("~").map((part) => (part.trim() === "" ? NaN : Number(part)));
  if (low === undefined || high === undefined || more !== undefined || !(low < high)) return null;
  return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : null;
}

/** A range to an address. */
export function from_range(limits: readonly [number, number] | null): string {
  return limits ? limits.map((each) => String(Number(each.toPrecision(7)))).join("~") : "";
}

/** Corners in an address: `1,2;3,4;5,6`. */
export function corners(text: string | undefined): [number, number][] {
  const points = (text ?? "").split(";").map((part) => part.split(",").map(Number));
  const whole = points.every((point) => point.length === 2 && point.every(Number.isFinite));
  return whole && text ? points.map(([x = 0, y = 0]) => [x, y]) : [];
}

/** Corners to an address. */
export function from_corners(points: readonly (readonly [number, number])[]): string {
  return points.map((point) => point.map((each) => String(Number(each.toPrecision(5)))).join(",")).join(";");
}
