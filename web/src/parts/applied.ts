// Changes of what is shown of a run, that are not in its configuration: asked for once, listed while they stand, taken back.
//
//   energy_kev of a channel ─┐
//   a drawn region ──────────┴─ "apply …" ─► one question ─► /api/view/… ─► a line above the spectra ─ revert

import { elapsed } from "../figures/time.js";
import type { AppliedChange, LiveState } from "../live/generated.js";
import { in_words, post } from "../live/requests.js";
import { is_taking } from "../live/state.js";
import { button, copy, notice } from "./controls.js";
import { h, Keyed, set_text, show } from "./element.js";

/** What is asked for. */
export interface Wanted {
  path: "/api/view/calibrate" | "/api/view/cut";
  body: object;
  /** The lines that say the same in a configuration. */
  lines: string;
  /** What is seen afterwards. */
  outcome: string;
}

/** Says what applying does, asks once, and applies; `done` hears of it. */
export function ask_to_apply(wanted: Wanted, done: () => void): void {
  document.querySelector("dialog.apply")?.remove();
  const refusal = h("output", { class: "refusal" });
  const apply = h("button", { type: "submit", class: "main", autofocus: true }, "apply");
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", {}, "Apply to this run?"),
    h("pre", { class: "configuration" }, wanted.lines),
    h("p", {}, wanted.outcome),
    h(
      "p",
      { class: "quiet" },
      "What is recorded stays as configured, and so does the next run. The change is kept with this run's notes and can be reverted.",
    ),
    refusal,
    h("div", { class: "tools" }, apply, h("button", { type: "button", onclick: () => dialog.close() }, "cancel")),
  );
  const dialog = h("dialog", { class: "apply", "aria-label": "Apply to this run" }, form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply.disabled = true;
    post(wanted.path, wanted.body).then(
      () => {
        dialog.close();
        done();
      },
      (error: unknown) => {
        refusal.textContent = in_words(error);
        apply.disabled = false;
      },
    );
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** What is applied, a line each; nothing where nothing is. */
export class AppliedChanges {
  readonly root = h("section", { class: "applied", "aria-label": "Applied to this run", hidden: true });
  readonly #list = h("ol");
  readonly #lines = new Keyed<AppliedChange>(
    this.#list,
    ({ number }) => String(number),
    (change) => this.#made(change),
    (element, change) => set_text(element.querySelector(".when") ?? element, when(change)),
  );

  constructor() {
    this.root.append(this.#list);
  }

  /** Shows those of a state. */
  show(state: LiveState): void {
    show(this.root, state.applied.length > 0);
    this.#lines.show(state.applied);
    this.root.classList.toggle("over", !is_taking(state));
  }

  #made({ number, kind, name, channel, lines }: AppliedChange): HTMLElement {
    const what = kind === "calibration" ? `calibration of ${name}` : `cut ${name}`;
    return h(
      "li",
      { "data-channel": channel ?? undefined },
      h("b", { title: lines }, what),
      h("span", { class: "when" }),
      button("copy", () => void copy(lines, "lines for the configuration"), {
        title: "the lines for the configuration",
      }),
      button("revert", () => void revert(number), { class: "revert", title: "show it as configured again" }),
    );
  }
}

/** Since when a change holds, and how much a cut has kept, in words. */
export function when({ since_seconds, kind, in: input, kept }: AppliedChange): string {
  const since = since_seconds === null ? "applied with the next hits" : `applied at ${elapsed(since_seconds)}`;
  const part = input > 0 ? `, keeps ${((100 * kept) / input).toPrecision(3)} %` : "";
  return `${since}, not in the configuration file${kind === "cut" ? part : ""}`;
}

async function revert(number: number): Promise<void> {
  try {
    await post("/api/view/revert", { number });
  } catch (error) {
    notice(in_words(error), true);
  }
}
