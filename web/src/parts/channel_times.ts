// Live time and corrected rate of the channel whose spectrum is shown large.
//
//   state.sources[].channels ──► of one number ──► facts

import { channel_times } from "../figures/channel_times.js";
import type { LiveState } from "../live/generated.js";
import { Facts } from "./controls.js";
import { h, show } from "./element.js";

/** The facts of a channel; hidden of a spectrum that is of no single channel. */
export class ChannelTimes {
  readonly root: HTMLElement;
  readonly #facts = new Facts();

  constructor(private readonly channel: number | null) {
    this.root = h(
      "section",
      { class: "channel-times", hidden: true },
      h("h3", {}, "Whole channel, since the start"),
      this.#facts.root,
    );
  }

  update({ sources }: LiveState): void {
    const own = sources.flatMap(({ channels }) => channels).find(({ channel }) => channel === this.channel);
    show(this.root, own !== undefined);
    if (own) this.#facts.show(channel_times(own));
  }
}
