// Triggered boards by completeness: which one is missing? One small cell per board, always at the same place; the boards that
// are incomplete also have a large card, the worst first.
//
//   ┌ board 17 ┐ ┌ board 4 ┐
//   │   42.0 % │ │  99.9 % │      few boards: a card each, in their order
//   └──────────┘ └─────────┘
//   ▪▪▪▪▫▪▪▪▪▪▪▪▪▪▪▪▫▪▪▪▪▪▪▪      many: cells; hover or focus tells the numbers

import type { Completeness } from "../live/generated.js";
import { count, share } from "../figures/quantity.js";
import { h, Keyed, set, set_text, show } from "./element.js";

/** So many boards have a card each; of more, only those that are incomplete. */
const MOST_CARDS = 16;
/** So many of the incomplete ones, the worst first. */
const MOST_INCOMPLETE = 12;

/** The boards of a run. */
export class Boards {
  readonly #large = h("div", { class: "boards", role: "list", "aria-label": "Completeness of each board" });
  readonly #dense = h("div", {
    class: "board-cells",
    role: "group",
    "aria-label": "Completeness of all boards",
    onkeydown: (event: KeyboardEvent) => this.#move(event),
    onfocusin: (event: FocusEvent) => this.#point(event.target),
    onfocusout: () => this.#point(null),
    onpointerover: (event: PointerEvent) => this.#point(event.target),
    onpointerleave: () => this.#point(null),
  });
  readonly root = h("div", { class: "board-parts" }, this.#large, this.#dense);
  readonly summary = h("output", { class: "readout" });
  readonly #cards = new Keyed<Completeness>(
    this.#large,
    ({ name }) => name,
    ({ name }) => make_card(name),
    update_card,
  );
  readonly #cells = new Keyed<Completeness>(
    this.#dense,
    ({ name }) => name,
    () => h("i", { class: "board-cell", role: "img", tabindex: -1 }),
    (cell, board) => update_cell(cell, board),
  );
  #pointed: Element | null = null;
  #words = "";

  /** Shows these boards. */
  show(boards: readonly Completeness[]): void {
    const are_many = boards.length > MOST_CARDS;
    const incomplete = boards.filter(({ expected, built }) => expected > built).sort((a, b) => part(a) - part(b));
    this.#cards.show(are_many ? incomplete.slice(0, MOST_INCOMPLETE) : boards);
    this.#cells.show(are_many ? boards : []);
    show(this.#dense, are_many);
    show(this.#large, !are_many || incomplete.length > 0);
    if (are_many && !this.#dense.querySelector("[tabindex='0']"))
      this.#dense.firstElementChild?.setAttribute("tabindex", "0");
    const worst = incomplete[0];
    this.#words = worst
      ? `${incomplete.length} of ${boards.length} incomplete, most of all ${worst.name}`
      : boards.length > 0
        ? `all ${boards.length} complete`
        : "";
    this.summary.classList.toggle("lost", incomplete.length > 0);
    this.#tell();
  }

  // All cells are one stop on the way through the page; arrows go from board to board.
  #move(event: KeyboardEvent): void {
    const at = document.activeElement;
    const next = { ArrowRight: at?.nextElementSibling, ArrowLeft: at?.previousElementSibling }[event.key];
    if (!(next instanceof HTMLElement) || at?.parentElement !== this.#dense) return;
    event.preventDefault();
    at.setAttribute("tabindex", "-1");
    next.tabIndex = 0;
    next.focus();
  }

  #point(target: EventTarget | null): void {
    this.#pointed = target instanceof Element && target.matches(".board-cell") ? target : null;
    this.#tell();
  }

  // The numbers of the board that is pointed at, else of all.
  #tell(): void {
    set_text(this.summary, this.#pointed?.getAttribute("aria-label") ?? this.#words);
  }
}

function part({ expected, built }: Completeness): number {
  return expected > 0 ? built / expected : NaN;
}

function in_words({ name, expected, built, missing }: Completeness): string {
  const now =
    expected > 0
      ? `${share(built / expected)}, ${count(built)} of ${count(expected)} fragments came in the last seconds`
      : "no triggers in the last seconds";
  return `${name}: ${now}, ${count(missing)} are missing since the start`;
}

function make_card(name: string): Element {
  return h("div", { class: "board", role: "listitem" }, h("i"), h("span", { class: "board-name" }, name), h("b"));
}

function update_card(card: Element, board: Completeness): void {
  const came = part(board);
  const [level, , value] = card.children;
  if (!(level instanceof HTMLElement) || !value) return;
  const height = Number.isNaN(came) ? "0%" : `${(came * 100).toFixed(1)}%`;
  if (level.style.height !== height) level.style.height = height;
  card.classList.toggle("unknown", Number.isNaN(came));
  card.classList.toggle("missing", came < 1);
  set_text(value, Number.isNaN(came) ? "no triggers" : share(came));
  set(card, "title", in_words(board));
}

function update_cell(cell: Element, board: Completeness): void {
  const came = part(board);
  // Also one fragment in a million is seen; beyond that, the more is missing, the redder.
  const red = came < 1 ? `${(35 + 65 * (1 - came)).toFixed(0)}%` : "";
  if (cell instanceof HTMLElement && cell.style.getPropertyValue("--red") !== red) cell.style.setProperty("--red", red);
  cell.classList.toggle("unknown", Number.isNaN(came));
  cell.classList.toggle("missing", came < 1);
  set(cell, "title", in_words(board));
  set(cell, "aria-label", in_words(board));
}
