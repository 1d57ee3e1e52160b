// The few controls of the page: a switch, a choice, a button, a panel with a title, a short notice.

import { h } from "./element.js";

/** A button; `key` is the shortcut that its hint tells. */
export function button(
  text: string,
  pressed: () => void,
  more: { key?: string; class?: string; title?: string } = {},
): HTMLButtonElement {
  const title = more.title ?? "";
  const hint = more.key ? `${title}${title ? " " : ""}(${more.key})` : title;
  return h("button", { type: "button", class: more.class, title: hint || undefined, onclick: pressed }, text);
}

/** A button that is in or out. */
export class Toggle {
  readonly root: HTMLButtonElement;
  #on: boolean;

  constructor(text: string, on: boolean, changed: (on: boolean) => void, title = "") {
    this.#on = on;
    this.root = h(
      "button",
      {
        type: "button",
        class: "toggle",
        "aria-pressed": String(on),
        title: title || undefined,
        onclick: () => this.press(),
      },
      text,
    );
    this.press = () => {
      this.set(!this.#on);
      changed(this.#on);
    };
  }

  /** As if it were pressed. */
  readonly press: () => void;

  get on(): boolean {
    return this.#on;
  }

  /** Sets it without telling anybody. */
  set(on: boolean): void {
    this.#on = on;
    this.root.setAttribute("aria-pressed", String(on));
  }
}

/** One of several, side by side. */
export function segments<T extends string>(
  label: string,
  choices: readonly (readonly [T, string])[],
  chosen: T,
  changed: (choice: T) => void,
): { root: HTMLElement; set(choice: T): void } {
  const buttons = choices.map(([value, text]) => {
    const one: HTMLButtonElement = button(text, () => {
      mark(value);
      changed(value);
    });
    return [value, one] as const;
  });
  const mark = (choice: T) =>
    buttons.forEach(([value, one]) => one.setAttribute("aria-pressed", String(value === choice)));
  mark(chosen);
  return {
    root: h("div", { class: "segments", role: "group", "aria-label": label }, ...buttons.map(([, one]) => one)),
    set: mark,
  };
}

/** A choice out of a list that may change. */
export class Choice {
  readonly root: HTMLLabelElement;
  readonly #select: HTMLSelectElement;
  #written = "";

  constructor(label: string, changed: (value: string) => void) {
    this.#select = h("select", { onchange: () => changed(this.#select.value) });
    this.root = h("label", { class: "field" }, h("span", {}, label), this.#select);
  }

  /** Offers these, one of them chosen. */
  offer(options: readonly (readonly [value: string, text: string])[], chosen: string): void {
    const written = JSON.stringify(options);
    if (written !== this.#written) {
      this.#written = written;
      this.#select.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
    }
    if (this.#select.value !== chosen) this.#select.value = chosen;
  }
}

/** A part of a screen, with its title; what stands beside the title comes after it. */
export function panel(title: string, name: string, beside: (Node | string)[], ...content: Node[]): HTMLElement {
  return h(
    "section",
    { class: `panel ${name}`, "aria-label": title },
    h("header", {}, h("h2", {}, title), ...beside),
    ...content,
  );
}

/** A short word at the foot of the page, that goes by itself. */
export function notice(text: string, is_refusal = false): void {
  const shown = h("div", { class: `notice${is_refusal ? " refusal" : ""}`, role: "status" }, text);
  document.querySelectorAll(".notice").forEach((old) => old.remove());
  document.body.append(shown);
  setTimeout(() => shown.remove(), is_refusal ? 12_000 : 4000);
}

/** Puts text on the clipboard, also where a page without TLS has none. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  notice(`${what} copied`);
}

/** Pairs of a name and a number that changes in its place. */
export class Facts {
  readonly root = h("dl", { class: "facts" });
  readonly #values = new Map<string, HTMLElement>();

  /** Shows these, in this order. */
  show(facts: readonly (readonly [name: string, value: string])[]): void {
    const names = facts.map(([name]) => name).join("\n");
    if (names !== [...this.#values.keys()].join("\n")) {
      this.#values.clear();
      this.root.replaceChildren(
        ...facts.map(([name]) => {
          const value = h("dd");
          this.#values.set(name, value);
          return h("div", {}, h("dt", {}, name), value);
        }),
      );
    }
    for (const [name, text] of facts) {
      const value = this.#values.get(name);
      if (value && value.textContent !== text) value.textContent = text;
    }
  }
}
