// What the operator writes down: one line to write it, and what was written so far.

import { day } from "../figures/time.js";
import type { RunNote } from "../live/generated_runs.js";
import { in_words, post } from "../live/requests.js";
import { button, notice } from "./controls.js";
import { h } from "./element.js";

/** Where a note goes: to a run by its name, or to the next one, which takes it when it begins. */
export type NoteFor = { readonly run: string } | "next";

/** A line to write a note into; `added` hears of one that was kept. */
export class NewNote {
  readonly root: HTMLFormElement;
  readonly #text: HTMLInputElement;

  constructor(
    private readonly whose: () => NoteFor | null,
    placeholder = "note for this run",
    private readonly added: () => void = () => {},
  ) {
    this.#text = h("input", {
      type: "text",
      name: "note",
      maxlength: 2000,
      autocomplete: "off",
      placeholder,
      "aria-label": placeholder,
    });
    const add = button("add note", () => void this.#add());
    this.root = h("form", { class: "new-note" }, this.#text, add);
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#add();
    });
  }

  async #add(): Promise<void> {
    const [whose, text] = [this.whose(), this.#text.value.trim()];
    if (whose === null || text === "") return;
    try {
      const place = whose === "next" ? "/api/notes/next" : `/api/runs/${encodeURIComponent(whose.run)}/notes`;
      await post(place, { text });
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
    ...notes.map(({ time, text, author }) => {
      const when = author === "" ? day(time) : `${day(time)} ${author}`;
      return h("li", {}, h("time", {}, when), h("p", {}, text));
    }),
  );
}
