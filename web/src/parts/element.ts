// Elements of the page, made and changed with as little as possible.

type Child = Node | string | null | false;
type Value = string | number | boolean | ((event: never) => void) | undefined;

/** An HTML element: `on…` are listeners, true and false set or leave out an attribute, all else is an attribute. */
export function h<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[T] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== false));
  return element;
}

/** An element of a drawing. */
export function svg<T extends keyof SVGElementTagNameMap>(
  tag: T,
  attributes: Record<string, string | number> = {},
  ...children: Child[]
): SVGElementTagNameMap[T] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children.filter((child): child is Node | string => child !== null && child !== false));
  return element;
}

/** Sets text, but only when it is another: what does not change costs no layout. */
export function set_text(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets an attribute, but only when it is another. */
export function set(element: Element, name: string, value: string | number | null): void {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/** Shows or hides. */
export function show(element: HTMLElement, shown: boolean): void {
  if (element.hidden === shown) element.hidden = !shown;
}

/** Keeps one element per item, in order: made once, updated ever after, removed when its item is gone. */
export class Keyed<T> {
  readonly #elements = new Map<string, Element>();

  constructor(
    private readonly parent: Element,
    private readonly key: (item: T) => string,
    private readonly make: (item: T) => Element,
    private readonly update: (element: Element, item: T) => void,
  ) {}

  /** Shows these items. */
  show(items: readonly T[]): void {
    const keys = new Set(items.map(this.key));
    for (const [key, element] of this.#elements) {
      if (keys.has(key)) continue;
      element.remove();
      this.#elements.delete(key);
    }
    items.forEach((item, index) => {
      const key = this.key(item);
      let element = this.#elements.get(key);
      if (!element) this.#elements.set(key, (element = this.make(item)));
      if (this.parent.children[index] !== element)
        this.parent.insertBefore(element, this.parent.children[index] ?? null);
      this.update(element, item);
    });
  }
}

/** Calls back when an element's size has changed, once a frame at most. */
export function on_resize(element: Element, resized: (width: number, height: number) => void): ResizeObserver {
  const observer = new ResizeObserver((entries) => {
    const box = entries.at(-1)?.contentRect;
    if (box && box.width > 0) requestAnimationFrame(() => resized(Math.round(box.width), Math.round(box.height)));
  });
  observer.observe(element);
  return observer;
}
