// Runs: what was recorded? A table to search, and beside it one run with its files, its words and its spectra in miniature.

import { draw_spark } from "../draw/spark.js";
import { count, exact, quantity, rate } from "../figures/quantity.js";
import { day, lasting } from "../figures/time.js";
import type { RecordedRun, RunFile } from "../live/generated_runs.js";
import { get, in_words, post } from "../live/requests.js";
import { button, copy, Facts, notice, panel } from "../parts/controls.js";
import { h, Keyed, set, set_text, show } from "../parts/element.js";
import { list_of_notes, NewNote } from "../parts/notes.js";
import { ask_for_run } from "../parts/start_run.js";
import type { MakeScreen, Scene, Screen } from "./screen.js";
import { inner_counts, saved_spectra } from "./saved_spectra.js";

const LIST_EVERY_MS = 3000;
const MINIATURES = 14;

/** Makes the screen. */
export const runs_screen: MakeScreen = (scene) => new RunsScreen(scene);

class RunsScreen implements Screen {
  readonly root: HTMLElement;
  readonly #search = h("input", {
    type: "search",
    placeholder: "search number, title, comment, note",
    "aria-label": "Search runs",
    oninput: () => this.#searched(),
  });
  readonly #rows = h("tbody");
  readonly #table: Keyed<RecordedRun>;
  readonly #empty = h("p", { class: "empty" }, "asking for the list of runs …");
  readonly #detail = h("div", { class: "run-detail" });
  readonly #timer: number;
  #runs: RecordedRun[] = [];
  #detailed = "";
  #details: Details | null = null;

  constructor(private readonly scene: Scene) {
    this.#search.value = scene.shown.search ?? "";
    this.#table = new Keyed<RecordedRun>(
      this.#rows,
      ({ name }) => name,
      (run) => this.#make(run),
      (row, run) => this.#update(row, run),
    );
    const heads = ["", "run", "title", "started", "lasted", "hits", "events", "rate", "size", "lost"];
    const table = h(
      "table",
      { class: "runs" },
      h(
        "thead",
        {},
        h("tr", {}, ...heads.map((text, index) => h("th", { scope: "col", class: index > 3 ? "number" : "" }, text))),
      ),
      this.#rows,
    );
    this.root = h(
      "div",
      { class: "screen runs-screen" },
      panel(
        "Runs",
        "wide",
        [this.#search, button("new run …", ask_for_run, { class: "main", key: "n" })],
        h("div", { class: "scroll" }, table),
        this.#empty,
      ),
      this.#detail,
    );
    void this.#ask();
    this.#timer = window.setInterval(() => void this.#ask(), LIST_EVERY_MS);
  }

  update(): void {}

  moved(): void {
    this.#show_table();
    void this.#open(this.scene.shown.run ?? "");
  }

  key(key: string): boolean {
    if (key === "/") this.#search.focus();
    else if (key === "n") ask_for_run();
    else if (key === "Escape") this.#choose("");
    else return false;
    return true;
  }

  leave(): void {
    clearInterval(this.#timer);
  }

  #searched(): void {
    this.scene.show({ search: this.#search.value });
    this.#show_table();
  }

  #choose(run: string): void {
    this.scene.show({ run });
    this.moved();
  }

  async #ask(): Promise<void> {
    try {
      this.#runs = await get<RecordedRun[]>("/api/runs");
      set_text(this.#empty, "no run has been recorded yet: “new run …” starts one");
    } catch (error) {
      set_text(this.#empty, `no list of runs: ${in_words(error)}`);
    }
    this.moved();
  }

  #show_table(): void {
    const words = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.#runs.filter((run) => {
      const text = [run.name, run.title, run.comment, run.state, ...run.labels, ...run.notes.map((note) => note.text)]
        .join(" ")
        .toLowerCase();
      return words.every((word) => text.includes(word));
    });
    found.sort((a, b) => b.number - a.number || b.name.localeCompare(a.name));
    this.#table.show(found);
    show(this.#empty, found.length === 0);
    if (found.length === 0 && this.#runs.length > 0)
      set_text(this.#empty, `none of ${this.#runs.length} runs has “${this.#search.value}”`);
  }

  #make({ name }: RecordedRun): Element {
    const cells = Array.from({ length: 10 }, (_, index) => h("td", { class: index > 3 ? "number" : "" }));
    cells[1]?.append(h("button", { type: "button", class: "link", onclick: () => this.#choose(name) }));
    cells[2]?.append(h("span"), h("span", { class: "quiet run-comment" }));
    cells[9]?.append(h("span"));
    const canvas = h("canvas", { class: "miniature", "aria-hidden": "true" });
    cells[0]?.append(h("span", { class: "run-state" }), canvas);
    return h(
      "tr",
      { onclick: (event: Event) => event.target instanceof HTMLButtonElement || this.#choose(name) },
      ...cells,
    );
  }

  #update(row: Element, run: RecordedRun): void {
    const cells = [...row.children];
    row.classList.toggle("chosen", run.name === this.scene.shown.run);
    const is_taken = run.state === "running" || run.state === "paused";
    const [sign, canvas] = cells[0]?.children ?? [];
    if (sign) set_text(sign, is_taken ? "●" : run.state === "failed" ? "▲" : "■");
    if (sign) set(sign, "title", run.state);
    if (canvas instanceof HTMLCanvasElement) {
      show(canvas, !!run.preview);
      if (run.preview) draw_spark(canvas, run.preview, Math.max(...run.preview), true);
    }
    const link = cells[1]?.firstElementChild;
    if (link) set_text(link, String(run.number));
    const [title, comment] = cells[2]?.children ?? [];
    if (title) set_text(title, run.title);
    const labels = run.labels.map((label) => `#${label}`);
    if (comment) set_text(comment, [...labels, run.comment.split("\n", 1)[0]].filter(Boolean).join(" "));
    const seconds = run.seconds;
    [
      day(run.started),
      lasting(seconds),
      count(run.hits),
      count(run.events),
      seconds ? rate((run.hits || run.events || 0) / seconds) : "–",
      run.removed ? "removed" : quantity(run.bytes, "B"),
    ].forEach((text, index) => cells[index + 3] && set_text(cells[index + 3] as Element, text));
    if (cells[8]) set(cells[8], "title", gone(run));
    const lost = cells[9]?.firstElementChild;
    if (!lost) return;
    set_text(
      lost,
      run.lost === null
        ? unknown_loss(run)
        : run.lost > 0
          ? count(run.lost)
          : run.ledger_closed === false && !is_taken
            ? "ledger does not balance"
            : "0",
    );
    set(lost, "class", (run.lost ?? 0) > 0 || (run.lost === null && run.loss !== null) ? "lost" : "");
    set(lost, "title", run.loss?.map(({ text }) => text).join("\n") ?? "");
  }

  async #open(name: string): Promise<void> {
    if (name === this.#detailed) {
      const listed = this.#runs.find((run) => run.name === name);
      if (listed) this.#details?.update(listed);
      return;
    }
    this.#detailed = name;
    this.#details = null;
    this.#detail.replaceChildren();
    if (name === "") return;
    try {
      const run = await get<RecordedRun>(`/api/runs/${encodeURIComponent(name)}`);
      if (this.#detailed !== name) return;
      this.#details = new Details(run, () => void this.#ask());
      this.#detail.replaceChildren(this.#details.root);
    } catch (error) {
      this.#detailed = "";
      this.#detail.replaceChildren(h("p", { class: "empty" }, `run ${name}: ${in_words(error)}`));
    }
  }
}

// What is lost where the number is not known, in the words of the ledger.
function unknown_loss({ loss }: RecordedRun): string {
  return loss === null ? "–" : "unknown";
}

/** One run beside the list. What is known of it follows the list; what is being typed stays. */
class Details {
  readonly root: HTMLElement;
  readonly #facts = new Facts();
  readonly #comment = h("textarea", { rows: 3, "aria-label": "Comment", placeholder: "what happened in this run" });
  readonly #labels = h("input", { type: "text", "aria-label": "Labels", placeholder: "labels, such as good cosmics" });
  readonly #follow_comment = following(this.#comment);
  readonly #follow_labels = following(this.#labels);
  readonly #notes = h("div");
  readonly #files = h("div");
  readonly #miniatures = h("div", { class: "stamps" });
  readonly #name: string;
  // The labels from which those in the field were made.
  #labelled: readonly string[] = [];
  #noted = "";
  #state: string;

  constructor(run: RecordedRun, noted: () => void) {
    this.#name = run.name;
    this.#state = run.state;
    const title = `Run ${run.number}${run.title ? `: ${run.title}` : ""}`;
    const new_note = new NewNote(() => ({ run: run.name }), undefined, noted);
    this.root = h(
      "div",
      { class: "run-panels" },
      panel(title, "", [], this.#facts.root, this.#comment, this.#labels, this.#tools()),
      panel("Notes", "", [], this.#notes, new_note.root),
      panel("Files", "", [], this.#files),
      panel("Spectra of this run", "wide", [], this.#miniatures),
    );
    this.update(run);
    this.#show_files(run);
  }

  /** Shows what the list says of the run now. Its files and spectra are asked for again when its state has changed. */
  update(run: RecordedRun): void {
    const balance = run.ledger_closed ? "closed: in = out + filtered + lost" : "not closed";
    this.#facts.show([
      ["started", day(run.started)],
      ["lasted", lasting(run.seconds)],
      ["hits", exact(run.hits)],
      ["events", exact(run.events)],
      ["size", quantity(run.bytes, "B")],
      ["lost", run.loss?.map(({ text }) => text).join("; ") ?? "–"],
      ["ledger", typeof run.ledger_closed === "boolean" ? balance : "–"],
      ...(run.removed ? [["tables", gone(run)] as [string, string]] : []),
    ]);
    this.#follow_comment(run.comment ?? "");
    if (this.#follow_labels(run.labels.join(" "))) this.#labelled = run.labels;
    const noted = JSON.stringify(run.notes);
    if (noted !== this.#noted) this.#notes.replaceChildren(list_of_notes(run.notes));
    this.#noted = noted;
    if (run.state === this.#state) return;
    this.#state = run.state;
    void this.#ask_for_files();
  }

  async #ask_for_files(): Promise<void> {
    try {
      this.#show_files(await get<RecordedRun>(`/api/runs/${encodeURIComponent(this.#name)}`));
    } catch (error) {
      this.#files.replaceChildren(h("p", { class: "empty" }, in_words(error)));
    }
  }

  #show_files(run: RecordedRun): void {
    const files = run.files ?? [];
    this.#files.replaceChildren(...downloads(run, files));
    if (files.some((file) => file.name === "spectra.json")) void show_miniatures(this.#miniatures, run.name);
  }

  #tools(): HTMLElement {
    const name = encodeURIComponent(this.#name);
    const answer = h("output", { class: "readout" });
    const save = () => post(`/api/runs/${name}/comment`, { comment: this.#comment.value });
    const keep = button("save comment", () => void answered(save(), () => notice("comment saved")));
    const read_back = () => {
      set_text(answer, "reading every file …");
      const verified = (found: unknown) => set_text(answer, verdict(found));
      void answered(post(`/api/runs/${name}/verify`), verified, () => set_text(answer, ""));
    };
    const verify = button("verify", read_back, { title: "read every file back and compare with the ledger" });
    const label = () => {
      const wanted = this.#labels.value.split(/\s+/).filter(Boolean);
      const added = wanted.filter((word) => !this.#labelled.includes(word));
      const removed = this.#labelled.filter((word) => !wanted.includes(word));
      void answered(post(`/api/runs/${name}/labels`, { added, removed }), () => {
        this.#labelled = wanted;
        notice("labels saved");
      });
    };
    const keep_labels = button("save labels", label, { title: "words of a-z, 0-9, _ and -" });
    return h("div", { class: "tools" }, keep, keep_labels, verify, answer);
  }
}

// Lets a field follow what the server says, for as long as nobody has typed into it; tells whether it has.
function following(field: HTMLInputElement | HTMLTextAreaElement): (text: string) => boolean {
  let said = "";
  return (text) => {
    const follows = field.value === said && text !== said;
    if (follows) field.value = text;
    said = text;
    return follows;
  };
}

function downloads(run: RecordedRun, files: readonly RunFile[]): HTMLElement[] {
  const link = ({ name, bytes }: RunFile) => {
    const href = `/api/runs/${encodeURIComponent(run.name)}/files/${encodeURIComponent(name)}`;
    const size = h("span", { class: "quiet" }, ` ${quantity(bytes, "B")}`);
    return h("li", {}, h("a", { href, download: name.replace(/^.*\//, "") }, name), size);
  };
  const none = h("li", { class: "quiet" }, "no files are listed");
  const list = h("ul", { class: "files" }, ...(files.length > 0 ? files.map(link) : [none]));
  const { path } = run;
  if (!path) return [list];
  return [
    h(
      "p",
      { class: "path" },
      h("code", {}, path),
      " ",
      button("copy path", () => void copy(path, "path")),
    ),
    list,
  ];
}

async function answered(
  answer: Promise<unknown>,
  then: (found: unknown) => void,
  refused: () => void = () => {},
): Promise<void> {
  try {
    then(await answer);
  } catch (error) {
    refused();
    notice(in_words(error), true);
  }
}

// What has become of its tables; nothing where they are there.
function gone({ removed }: RecordedRun): string {
  if (!removed) return "";
  return `${quantity(removed.bytes, "B")} removed by [record.retention], ${day(removed.at)}: ${removed.why ?? ""}`;
}

// What was wrong, in the words of the check; or that nothing was.
function verdict(found: unknown): string {
  const { ok, problems, removed } = (found ?? {}) as { ok?: boolean; problems?: string[]; removed?: unknown };
  if (ok === false) return `does not verify: ${(problems ?? []).join("; ") || "no reason is told"}`;
  if (removed) return "verified: what is left is whole, and the ledger agrees with it and what was removed";
  return "verified: every file is whole, and the ledger agrees";
}

async function show_miniatures(holder: HTMLElement, run: string): Promise<void> {
  try {
    const energies = Object.entries(await saved_spectra(run)).filter(([, { metadata }]) => metadata?.kind === "energy");
    // Of all hits where there are such, and each channel once.
    const at = energies.some(([, { metadata }]) => metadata?.at === "received") ? "received" : "kept";
    const found = energies
      .filter(([, { metadata }]) => metadata?.at === at)
      .sort(([, a], [, b]) => (a.metadata?.channel ?? 0) - (b.metadata?.channel ?? 0))
      .slice(0, MINIATURES);
    holder.replaceChildren();
    for (const [name, histogram] of found) {
      const counts = inner_counts(histogram);
      if (!counts) continue;
      const canvas = h("canvas", { "aria-hidden": "true" });
      holder.append(
        h(
          "div",
          { class: "stamp", title: name },
          h("span", { class: "stamp-name" }, name.replace(/: .*$/, "")),
          h("span", { class: "entries" }, count(histogram.metadata?.entries)),
          canvas,
        ),
      );
      draw_spark(canvas, counts, Math.max(...counts), true);
    }
    if (found.length === 0) holder.append(h("p", { class: "empty" }, "nothing was filled in this run"));
  } catch (error) {
    holder.replaceChildren(h("p", { class: "empty" }, in_words(error)));
  }
}
