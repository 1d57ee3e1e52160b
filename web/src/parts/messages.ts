// What the system has to say: alarms that stand, then messages, newest first, each with what to do.

import { clock } from "../figures/time.js";
import { in_words } from "../draw/flow_layout.js";
import { losses, type State } from "../live/state.js";
import { h, Keyed, set, set_text } from "./element.js";

interface Entry {
  key: string;
  level: string;
  time: string;
  text: string;
  advice: string;
}

const SIGNS: Record<string, string> = {
  loss: "▼",
  alarm: "▲",
  error: "▲",
  warning: "▲",
  warn: "▲",
  info: "·",
  debug: "·",
};

/** The list of messages. */
export class Messages {
  readonly root = h("ol", { class: "messages", "aria-live": "polite" });
  readonly #list = new Keyed<Entry>(
    this.root,
    ({ key }) => key,
    () => h("li", {}, h("time"), h("i", { "aria-hidden": "true" }), h("p"), h("p", { class: "advice" })),
    (element, entry) => this.#update(element, entry),
  );

  /** Shows what stands in a state. */
  show(state: State): void {
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

function alarms(state: State): Entry[] {
  return (state.alarms ?? [])
    .filter(({ active }) => active !== false)
    .map((alarm) => ({
      key: `alarm ${alarm.name} ${alarm.subject ?? ""}`,
      level: "alarm",
      time: clock(alarm.since),
      text: [alarm.name, alarm.subject, alarm.text].filter(Boolean).join(": "),
      advice: "",
    }));
}

function standing_losses(state: State): Entry[] {
  return losses(state)
    .slice(0, 8)
    .map((loss) => ({
      key: `loss ${loss.stage} ${loss.reason} ${loss.source ?? ""}`,
      level: "loss",
      time: "",
      text: in_words({
        reason: loss.reason,
        count: loss.count,
        ...(loss.unit ? { unit: loss.unit } : {}),
        ...(loss.source ? { source: loss.source } : {}),
        ...(loss.quality ? { quality: loss.quality } : {}),
      }),
      advice: loss.advice ?? "",
    }));
}

function told(state: State): Entry[] {
  return [...(state.messages ?? [])]
    .reverse()
    .slice(0, 100)
    .map(({ number, time, level, text, advice }, index) => ({
      key: `${number ?? time ?? index} ${text}`,
      level: (level ?? "info").toLowerCase(),
      time: time === undefined ? "" : clock(time),
      text,
      advice: advice ?? "",
    }));
}
