// The configuration as the server tells it: its text, or its parts.

/** The text as it was written, or all that is told. */
export function text_of(told: unknown): string {
  const text = typeof told === "object" && told !== null && "text" in told ? told.text : undefined;
  return typeof text === "string" ? text : JSON.stringify(told, null, 2);
}

/** When runs of the configuration end by themselves: at the first that is given. */
export interface Limits {
  seconds: number | null;
  hits: number | null;
  events: number | null;
}

/** The limits that are told beside the text. */
export function limits_of(told: unknown): Limits {
  const limits = typeof told === "object" && told !== null && "limits" in told ? told.limits : null;
  const of = (name: string) => {
    const value = Object.entries(limits ?? {}).find(([key]) => key === name)?.[1];
    return typeof value === "number" ? value : null;
  };
  return { seconds: of("seconds"), hits: of("hits"), events: of("events") };
}

/** What has become of the file since it was read; `null` while all that it says is in use. */
export function change_of(told: unknown): { words: string; is_wrong: boolean } | null {
  if (typeof told !== "object" || told === null) return null;
  if ("error" in told && typeof told.error === "string")
    return { words: `The file has changed and cannot be used: ${told.error}`, is_wrong: true };
  const tables = "waiting" in told && Array.isArray(told.waiting) ? told.waiting.map(String).join(", ") : "";
  const later = tables === "" ? "" : `${tables} of the file: when the program is started again.`;
  if (!("changed" in told) || told.changed !== true) return later === "" ? null : { words: later, is_wrong: false };
  return { words: `The file has changed: the next run that is started takes it. ${later}`.trimEnd(), is_wrong: false };
}

/** How far apart hits in coincidence may be, picoseconds; `null` when nothing is said of it. */
export function coincidence_window_ps(told: unknown): number | null {
  const table = text_of(told).match(/^\s*\[coincidence\]([^]*?)(?=^\s*\[|$(?![^]))/m)?.[1] ?? "";
  const written = table.match(/^\s*window_ps\s*=\s*([\d_]+)/m)?.[1];
  if (written !== undefined) return Number(written.replaceAll("_", ""));
  return found_in(told);
}

function found_in(told: unknown): number | null {
  if (typeof told !== "object" || told === null) return null;
  for (const [name, value] of Object.entries(told)) {
    if (
      name === "coincidence" &&
      typeof value === "object" &&
      value !== null &&
      "window_ps" in value &&
      typeof value.window_ps === "number"
    )
      return value.window_ps;
    const deeper = found_in(value);
    if (deeper !== null) return deeper;
  }
  return null;
}
