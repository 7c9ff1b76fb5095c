// The page: tabs, the address, and which model answers.

import { ask } from "./api.js";
import { el } from "./dom.js";
import { fillView } from "./fill.js";
import { jointView } from "./joint.js";
import { learnView } from "./learn.js";
import { readLink } from "./links.js";
import { scoreView } from "./score.js";
import { writeView } from "./write.js";

/** A view: `mount` draws it into its panel once, `open` is called with the settings of the address whenever it is shown.
 * @typedef {{open: (settings: import("./links.js").Settings) => void}} View */

/** @type {[string, string, (panel: HTMLElement) => View][]} */
const VIEWS = [
  ["fill", "Fill", fillView],
  ["write", "Write", writeView],
  ["joint", "Joint", jointView],
  ["score", "Score", scoreView],
  ["learn", "Learn", learnView],
];

/** @type {Map<string, View>} */
const mounted = new Map();
const tabs = /** @type {HTMLElement} */ (document.getElementById("tabs"));
const panels = /** @type {HTMLElement} */ (document.getElementById("panels"));

for (const [name, title] of VIEWS) {
  tabs.append(el("button", {
    id: `tab-${name}`, role: "tab", type: "button", "aria-controls": `panel-${name}`,
    onclick: () => { if (readLink(location.hash).view !== name) location.hash = links.get(name) ?? name; },
  }, title));
  panels.append(el("section", { id: `panel-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, tabIndex: -1, hidden: true }));
}

/** Where each view was left. @type {Map<string, string>} */
const links = new Map();
let current = "";

function show() {
  const { view, settings } = readLink(location.hash);
  const [name, title, make] = VIEWS.find(([one]) => one === view) ?? VIEWS[0];
  current = name;
  for (const [one] of VIEWS) {
    const tab = /** @type {HTMLElement} */ (document.getElementById(`tab-${one}`));
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    /** @type {HTMLElement} */ (document.getElementById(`panel-${one}`)).hidden = one !== name;
  }
  document.title = `${title} · anyorder`;
  if (!mounted.has(name)) mounted.set(name, make(/** @type {HTMLElement} */ (document.getElementById(`panel-${name}`))));
  mounted.get(name)?.open(settings);
}

tabs.addEventListener("keydown", (event) => {
  const at = VIEWS.findIndex(([name]) => name === current);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const tab = /** @type {HTMLElement} */ (tabs.children[(to + VIEWS.length) % VIEWS.length]);
  tab.focus();
  tab.click();
});

// Leaving a view remembers its address, so that coming back finds it as it was.
window.addEventListener("hashchange", (event) => {
  const left = new URL(event.oldURL).hash;
  links.set(readLink(left).view || "fill", left.slice(1));
  show();
});
show();

const status = /** @type {HTMLElement} */ (document.getElementById("model"));
ask("health").then(
  (health) => {
    status.textContent = health.model.split(/[\\/]/).at(-1); // a folder's name, not the way to it
    status.title = `${health.vocab_size.toLocaleString("en")} tokens, texts of up to ${health.max_length}`;
    status.classList.add("up");
  },
  (error) => {
    status.textContent = "no server";
    status.title = error.message;
    status.classList.add("down");
  },
);
