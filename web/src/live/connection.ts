// The stream of states: held open, mended by itself, with the age of what was last heard.
//
//   /api/events ──► state, ten times a second ──► listeners, at most once a frame
//        └ broken ──► asked again after 1 s, 2 s, 4 s … 10 s; meanwhile the age grows

import type { LiveState } from "./generated.js";

/** What is known now. */
export interface Known {
  /** `null` before the first. */
  state: LiveState | null;
  /** Seconds since the state was heard; more than {@link STALE_SECONDS} is too old to be believed. */
  age_seconds: number;
  connected: boolean;
  /** What the server said when it refused. */
  refusal: string;
}

/** Ten updates that did not come. */
export const STALE_SECONDS = 1.5;

const LONGEST_WAIT_MS = 10_000;

/** Keeps the stream and tells whoever listens. */
export class Connection {
  #state: LiveState | null = null;
  #heard_ms = performance.now();
  #connected = false;
  #refusal = "";
  #wait_ms = 1000;
  #stream: EventSource | null = null;
  #drawn = false;
  readonly #listeners = new Set<(known: Known) => void>();

  /** Opens the stream. */
  open(): void {
    this.#connect();
    // Ages grow also when nothing comes, and a stream that went silent without an error is opened anew.
    setInterval(() => {
      if (!this.#connected || this.known().age_seconds > STALE_SECONDS) this.#tell();
      if (this.#connected && this.known().age_seconds > 5) this.#mend();
    }, 500);
  }

  /** Calls `listener` with every state, from now on. */
  listen(listener: (known: Known) => void): void {
    this.#listeners.add(listener);
  }

  /** What is known now. */
  known(): Known {
    const age_seconds = (performance.now() - this.#heard_ms) / 1000;
    return { state: this.#state, age_seconds, connected: this.#connected, refusal: this.#refusal };
  }

  /** Takes a state that came otherwise, as the answer to a command. */
  take(state: LiveState): void {
    this.#state = state;
    this.#heard_ms = performance.now();
    this.#tell();
  }

  #connect(): void {
    const stream = new EventSource("/api/events");
    this.#stream = stream;
    const heard = (event: MessageEvent<string>) => {
      this.#connected = true;
      this.#refusal = "";
      this.#wait_ms = 1000;
      this.take(JSON.parse(event.data) as LiveState);
    };
    stream.addEventListener("state", heard);
    stream.onerror = () => this.#mend();
  }

  #mend(): void {
    this.#stream?.close();
    this.#connected = false;
    this.#tell();
    setTimeout(() => this.#connect(), this.#wait_ms);
    this.#wait_ms = Math.min(this.#wait_ms * 2, LONGEST_WAIT_MS);
    // A stream cannot tell why it was refused, and where there are too many streams a single state may still be had.
    fetch("/api/state").then(
      async (answer) => {
        if (answer.ok) this.take((await answer.json()) as LiveState);
        else
          this.#refusal =
            answer.status === 401 || answer.status === 403
              ? "a token is needed: add ?token=… to the address"
              : `the server answers ${answer.status}`;
      },
      () => (this.#refusal = "the server does not answer"),
    );
  }

  #tell(): void {
    if (this.#drawn) return;
    this.#drawn = true;
    requestAnimationFrame(() => {
      this.#drawn = false;
      const known = this.known();
      this.#listeners.forEach((listener) => listener(known));
    });
  }
}
