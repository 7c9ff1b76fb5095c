// Small parts that several views share.

import { el } from "./dom.js";
import { copyLink } from "./links.js";

/** @param {string} title @param {string} text */
export function intro(title, text) {
  return el("div", { className: "intro" }, el("h1", {}, title), el("p", {}, text));
}

/** Examples to start from. @param {string[]} texts @param {(text: string) => void} use */
export function examples(texts, use) {
  return el("div", { className: "examples", role: "group", "aria-label": "Examples" }, el("span", { className: "hint" }, "Try"),
    ...texts.map((text) => el("button", { type: "button", className: "chip", onclick: () => use(text) }, text)));
}

/** @param {string} view @param {() => import("./links.js").Settings} settings */
export function copyButton(view, settings) {
  const button = el("button", { type: "button", className: "quiet", onclick: async () => {
    const copied = await copyLink(view, settings());
    button.textContent = copied ? "Link copied" : "The link is in the address bar";
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  } }, "Copy link");
  return button;
}
