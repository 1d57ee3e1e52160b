// What the system has to say: alarms that stand, then messages, newest first, each with what to do.

import { clock } from "../figures/time.js";
import { in_words } from "../draw/flow_layout.js";
import type { LiveState } from "../live/generated.js";
import { in_words as refused, post } from "../live/requests.js";
import { loss_key, losses } from "../live/state.js";
import { button, notice } from "./controls.js";
import { h, Keyed, set, set_text } from "./element.js";

interface Entry {
  key: string;
  level: string;
  time: string;
  text: string;
  advice: string;
  /** An alarm that nobody has seen yet. */
  unseen?: { name: string; subject: string };
}

const SIGNS: Record<string, string> = { loss: "▼", alarm: "▲", error: "▲", warning: "▲", info: "·", note: "✎" };

/** The list of messages. */
export class Messages {
  readonly root = h("ol", { class: "messages", "aria-live": "polite" });
  readonly #list = new Keyed<Entry>(
    this.root,
    ({ key }) => key,
    (entry) =>
      h(
        "li",
        {},
        h("time"),
        h("i", { "aria-hidden": "true" }),
        h("p"),
        h("p", { class: "advice" }),
        ...(entry.unseen ? [acknowledging(entry.unseen)] : []),
      ),
    (element, entry) => this.#update(element, entry),
  );

  /** Shows what stands in a state. */
  show(state: LiveState): void {
    const entries = [...alarms(state), ...standing_losses(state), ...told(state)];
    this.#list.show(
      entries.length > 0 ? entries : [{ key: "none", level: "info", time: "", text: "nothing to report", advice: "" }],
    );
  }

  #update(element: Element, { level, time, text, advice }: Entry): void {
    const [when, sign, what, help] = element.children;
    if (!when || !sign || !what || !help) return;
    set(element, "class", level);
    set_text(when, time);
    set_text(sign, SIGNS[level] ?? "·");
    set_text(what, text);
    set_text(help, advice);
  }
}

function alarms(state: LiveState): Entry[] {
  return state.alarms
    .filter(({ active }) => active)
    .map(({ name, subject, text, since, acknowledged }) => ({
      key: `alarm ${name} ${subject}${acknowledged ? " acknowledged" : ""}`,
      level: "alarm",
      time: clock(since),
      text: [name, subject, text].filter(Boolean).join(": "),
      advice: acknowledged ? `acknowledged at ${clock(acknowledged)}` : "",
      ...(acknowledged ? {} : { unseen: { name, subject } }),
    }));
}

function acknowledging(alarm: { name: string; subject: string }): HTMLElement {
  const see = () =>
    post("/api/alarms/acknowledge", alarm).catch((error: unknown) => {
      notice(refused(error), true);
    });
  return button("acknowledge", () => void see(), { title: "say that somebody has seen it" });
}

/** The largest losses of a state as messages, each with a key of its own. */
export function standing_losses(state: LiveState): Entry[] {
  return losses(state)
    .slice(0, 8)
    .map((loss) => ({
      key: `loss ${loss_key(loss)}`,
      level: "loss",
      time: "",
      text: in_words({ ...loss, advice: "" }),
      advice: loss.advice,
    }));
}

// An alarm that stands has its line; that it was raised is not said a second time.
function told({ messages, alarms }: LiveState): Entry[] {
  const raised = alarms
    .filter(({ active }) => active)
    .map(({ name, subject }) => `raised alarm "${name}"${subject === "" ? ":" : ` of ${subject}:`}`);
  return messages
    .filter(({ text }) => !raised.some((words) => text.startsWith(words)))
    .toReversed()
    .map(({ number, time, level, text, advice }) => ({ key: String(number), level, time: clock(time), text, advice }));
}
