// Light or dark: as the system has it, until somebody chooses.

const KEPT = "thalweg.theme";

/** The theme that was chosen, or the system's. */
export function is_dark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const listeners = new Set<() => void>();
let colours = new Map<string, string>();

/** Begins with what was chosen before. */
export function begin_theme(): void {
  const kept = localStorage.getItem(KEPT);
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

/** The other one, from now on. */
export function toggle_theme(): void {
  const next = is_dark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(KEPT, next);
  changed();
}

function changed(): void {
  colours = new Map();
  listeners.forEach((listener) => listener());
}

/** Calls back when colours are others; the answer ends it. */
export function on_theme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A colour of the style sheet, for drawings: `colour("ink")`. */
export function colour(name: string): string {
  let found = colours.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, found);
  }
  return found;
}
