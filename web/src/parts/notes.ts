// What the operator writes down: one line to write it, and what was written so far.

import { day } from "../figures/time.js";
import type { RunNote } from "../live/generated.js";
import { in_words, post } from "../live/requests.js";
import { button, notice } from "./controls.js";
import { h } from "./element.js";

/** A line to write a note into; `added` hears of one that was kept. */
export class NewNote {
  readonly root: HTMLFormElement;
  readonly #text = h("input", {
    type: "text",
    name: "note",
    maxlength: 2000,
    autocomplete: "off",
    placeholder: "note for this run",
    "aria-label": "Note",
  });

  constructor(
    private readonly run: () => string | null,
    private readonly added: () => void = () => {},
  ) {
    const add = button("add note", () => void this.#add());
    this.root = h("form", { class: "new-note" }, this.#text, add);
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#add();
    });
  }

  async #add(): Promise<void> {
    const [run, text] = [this.run(), this.#text.value.trim()];
    if (run === null || text === "") return;
    try {
      await post(`/api/runs/${encodeURIComponent(run)}/notes`, { text });
      this.#text.value = "";
      this.added();
    } catch (error) {
      notice(in_words(error), true);
    }
  }
}

/** The notes of a run, oldest first. */
export function list_of_notes(notes: readonly RunNote[]): HTMLElement {
  return h(
    "ol",
    { class: "notes" },
    ...notes.map(({ time, text }) => h("li", {}, h("time", {}, day(time)), h("p", {}, text))),
  );
}
