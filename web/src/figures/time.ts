// Times as people read them: the hour as 12:03:07, a length as 1 h 12 m.

const TWO = (number: number) => String(Math.floor(number)).padStart(2, "0");

/** The time of day of an instant, in the reader's own zone. */
export function clock(instant: string | number | null | undefined): string {
  const date = parsed(instant);
  return date ? `${TWO(date.getHours())}:${TWO(date.getMinutes())}:${TWO(date.getSeconds())}` : "–";
}

/** Day and time of an instant: `2026-11-21 12:03:07`. */
export function day(instant: string | number | null | undefined): string {
  const date = parsed(instant);
  if (!date) return "–";
  return `${date.getFullYear()}-${TWO(date.getMonth() + 1)}-${TWO(date.getDate())} ${clock(instant)}`;
}

function parsed(instant: string | number | null | undefined): Date | null {
  if (instant === undefined || instant === null) return null;
  // Numbers are seconds since 1970, as the interface gives them.
  const date = new Date(typeof instant === "number" ? instant * 1000 : instant);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** A length of time in its two largest units, seconds: `1 h 12 m`, `3 m 07 s`, `4.2 s`, `9 days 4 h`. */
export function lasting(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${lasting(-seconds)}`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${TWO(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${TWO((seconds % 3600) / 60)} m`;
  const days = Math.floor(seconds / 86_400);
  if (days > 999) return "> 999 days";
  return `${days} ${days === 1 ? "day" : "days"} ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** How long ago, as a tick of a time axis, seconds at or below zero: `now`, `−30 s`, `−5 m`. */
export function ago(seconds: number): string {
  const back = Math.round(-seconds);
  if (back === 0) return "now";
  return back % 60 === 0
    ? `−${back / 60} m`
    : back > 60
      ? `−${Math.floor(back / 60)} m ${TWO(back % 60)} s`
      : `−${back} s`;
}

/** Steps of such an axis. */
export const AGO_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300];

/** A running clock, seconds: `1:12:07`, `0:03:07`: its width stays. */
export function elapsed(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–:––:––";
  return `${Math.floor(seconds / 3600)}:${TWO((seconds % 3600) / 60)}:${TWO(seconds % 60)}`;
}
