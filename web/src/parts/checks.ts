// The checks of the host, as `thalweg doctor` makes them: what is bad with what sets it, what is not known, what is good.

import { h } from "./element.js";

/** One check, as the server tells it. */
export interface Check {
  name: string;
  value: string;
  wanted: string;
  why: string;
  command: string;
  severity: "information" | "warning" | "error";
  verdict: "good" | "bad" | "unknown";
}

/** Whether these are checks. */
export function are_checks(values: unknown): values is Check[] {
  return Array.isArray(values) && values.length > 0 && values.every((each) => typeof each?.verdict === "string");
}

/** A sign and a word for what a check has found. */
export function found_words({ verdict, severity }: Pick<Check, "verdict" | "severity">): string {
  if (verdict === "good") return "● good";
  if (verdict === "unknown") return "○ not judged";
  return { error: "✗ loses data", warning: "▲ warning", information: "△ better" }[severity];
}

/** A table, a check in each line; what it is for shows where one points at it. */
export function checks_table(checks: readonly Check[]): HTMLElement {
  const heads = ["check", "", "found", "wanted", "what sets it"].map((text) => h("th", { scope: "col" }, text));
  const lines = checks.map((check) =>
    h(
      "tr",
      { title: check.why, class: `check ${check.verdict}` },
      h("td", {}, check.name),
      h("td", { class: "check-found" }, found_words(check)),
      h("td", {}, check.value),
      h("td", { class: "quiet" }, check.verdict === "good" ? "" : check.wanted),
      h("td", {}, check.command === "" ? "" : h("code", {}, check.command)),
    ),
  );
  return h(
    "div",
    { class: "scroll" },
    h("table", { class: "checks" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...lines)),
  );
}
