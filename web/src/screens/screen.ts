// What every screen is: an element, told of each state, and of the address that says what it shows.

import type { Known } from "../live/connection.js";
import type { LiveState } from "../live/generated.js";

/** What is known once the server has said something. */
export type Heard = Known & { state: LiveState };

/** What a screen is given. */
export interface Scene {
  /** What the address says is shown. */
  readonly shown: Readonly<Record<string, string>>;
  /** Changes what the address says, in place; an empty text leaves the name out. */
  show(changes: Record<string, string>): void;
}

/** A screen in the page. */
export interface Screen {
  readonly root: HTMLElement;
  /** A state has come, or the one there is has grown old. */
  update(heard: Heard): void;
  /** The address has changed under it. */
  moved?(): void;
  /** A key was pressed that the frame does not know; whether it was taken. */
  key?(key: string): boolean;
  /** It is left. */
  leave(): void;
}

/** Makes a screen. */
export type MakeScreen = (scene: Scene) => Screen;
