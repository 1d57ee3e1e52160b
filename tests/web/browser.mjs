// Debian's Chromium, without a window, and an eye on everything that it complains about.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";

// The packages lie beside the page's sources.
const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

/**
 * For what comes at all: it comes at once on a quiet machine, and no result depends on how soon it comes on a busy one, whose kernel may
 * let a process wait for a minute.
 */
export const WAIT_MS = 240_000;

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Where Chromium is, or `null`. */
export function chromium_path() {
  return (
    [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => path && existsSync(path)) ??
    null
  );
}

/** Opens Chromium. */
export async function open_browser() {
  return chromium.launch({ executablePath: chromium_path(), args: FLAGS });
}

/** Opens a page that notes errors: everything in `complaints` is a fault. */
export async function open_page(browser, address, { theme = "light", width = 1440, height = 900 } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const complaints = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(address);
  return { page, complaints, close: () => context.close() };
}
