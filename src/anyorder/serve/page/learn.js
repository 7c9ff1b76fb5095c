// Learn: the main points of three papers, on exact tables, in the browser.

import { el, fill } from "./dom.js";
import { remember } from "./links.js";
import { intro } from "./parts.js";
import { mixingToy } from "./toy-mixing.js";
import { ordersToy } from "./toy-orders.js";
import { stutterToy } from "./toy-stutter.js";

/** @param {HTMLElement} panel @returns {import("./app.js").View} */
export function learnView(panel) {
  fill(panel,
    intro("See why", "Three toys whose true distribution is known, so that what goes wrong is the method's doing and not the model's. Nothing here asks the server."),
    el("div", { className: "columns" }, stutterToy(), mixingToy(), ordersToy()));
  return { open: () => remember("learn", {}) };
}
