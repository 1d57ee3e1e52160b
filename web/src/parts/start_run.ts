// Starting and stopping: one small form, one question.

import { change_of, limits_of, type Limits } from "../live/configuration.js";
import { get, in_words, post } from "../live/requests.js";
import { notice } from "./controls.js";
import { h, set_text } from "./element.js";

/** Asks for title, comment and limits of a new run, and starts it. */
export function ask_for_run(): void {
  document.querySelector("dialog.start")?.remove();
  const title = h("input", { type: "text", name: "title", maxlength: 200, autofocus: true });
  const comment = h("textarea", { name: "comment", rows: 3 });
  const seconds = h("input", { type: "number", name: "seconds", min: 0, step: "any", placeholder: "no limit" });
  const hits = h("input", { type: "number", name: "hits", min: 0, placeholder: "no limit" });
  const events = h("input", { type: "number", name: "events", min: 0, placeholder: "no limit" });
  const record = h("input", { type: "checkbox", name: "record", checked: true });
  const configured = h("p", { class: "quiet" });
  const changed = h("p", { class: "quiet" });
  void get<unknown>("/api/configuration").then(
    (told) => {
      const change = change_of(told);
      set_text(changed, change?.words ?? "");
      changed.classList.toggle("refusal", change?.is_wrong ?? false);
      // What the file says of it now is seen when the run is there.
      set_text(configured, change ? "" : limit_words(limits_of(told)));
    },
    () => {},
  );
  const refusal = h("output", { class: "refusal" });
  const start = h("button", { type: "submit", class: "main" }, "start");
  const field = (text: string, input: HTMLElement) => h("label", {}, h("span", {}, text), input);
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", {}, "New run"),
    field("title", title),
    field("comment", comment),
    h(
      "fieldset",
      {},
      h("legend", {}, "stop by itself after"),
      field("seconds", seconds),
      field("hits", hits),
      field("events", events),
      configured,
    ),
    h("label", { class: "check" }, record, "keep the data (otherwise only the ledger, losses and spectra of the run)"),
    changed,
    refusal,
    h("div", { class: "tools" }, start, h("button", { type: "button", onclick: () => dialog.close() }, "cancel")),
  );
  const dialog = h("dialog", { class: "start", "aria-label": "New run" }, form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const limit = (name: string, { value }: HTMLInputElement) => (Number(value) > 0 ? { [name]: Number(value) } : {});
    const wanted = {
      title: title.value,
      comment: comment.value,
      ...limit("seconds", seconds),
      ...limit("hits", hits),
      ...limit("events", events),
      ...(record.checked ? {} : { record: false }),
    };
    start.disabled = true;
    post("/api/run/start", wanted).then(
      () => dialog.close(),
      (error: unknown) => {
        refusal.textContent = in_words(error);
        start.disabled = false;
      },
    );
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function limit_words(limits: Limits): string {
  const named = Object.entries(limits).filter(([, limit]) => limit !== null);
  if (named.length === 0) return "with none of these, it goes on until somebody stops it";
  const each = named.map(([name, limit]) => `${limit} ${name}`);
  return `with none of these, the configuration's: ${each.join(", ")}`;
}

/** Says what stopping does, and stops. */
export function ask_to_stop(run: string): void {
  document.querySelector("dialog.stop")?.remove();
  const dialog = h(
    "dialog",
    { class: "stop", "aria-label": "Stop the run" },
    h(
      "form",
      { method: "dialog" },
      h("h2", {}, `Stop ${run}?`),
      h(
        "p",
        {},
        "What is in flight is written, the ledger is closed, and the run cannot be continued. The boards stay configured; a new run can start at once.",
      ),
      h(
        "div",
        { class: "tools" },
        h("button", { type: "submit", value: "stop", class: "main", autofocus: true }, "stop"),
        h("button", { type: "submit", value: "" }, "cancel"),
      ),
    ),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (dialog.returnValue === "stop") void ask("/api/run/stop");
  });
  document.body.append(dialog);
  dialog.showModal();
}

/** Asks for a change of the run's state; a refusal is told. */
export async function ask(path: "/api/run/stop" | "/api/run/pause" | "/api/run/resume"): Promise<void> {
  try {
    await post(path);
  } catch (error) {
    notice(in_words(error), true);
  }
}
