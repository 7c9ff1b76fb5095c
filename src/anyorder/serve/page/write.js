// Write: watch a text appear in any order, stop, go back, look closer, pin words and redraw the rest.

import { events, file } from "./api.js";
import { Board } from "./board.js";
import { el, fill } from "./dom.js";
import { inspector } from "./inspect.js";
import { remember } from "./links.js";
import { Latest, Notice } from "./notice.js";
import { copyButton, intro } from "./parts.js";
import { legend } from "./player.js";
import { DEFAULTS, Shapes } from "./shapes.js";
import { Take } from "./take.js";
import { transport } from "./transport.js";

/** @param {HTMLElement} panel @returns {import("./app.js").View} */
export function writeView(panel) {
  const shapes = new Shapes(() => remember("write", shapes.settings));
  const stages = el("div", { className: "stages" });
  const notice = new Notice(stages);
  const heard = { pick: (/** @type {Board} */ board, /** @type {number} */ i) => { active = board; look.look(board, i); }, change: () => act() };
  const boards = [new Board("The text", heard), new Board("The text of the other sampler", heard)];
  let active = boards[0];
  /** @type {Take[]} */
  let takes = [];
  const latest = new Latest();
  const player = transport((step) => boards.forEach((board) => board.show(step)));
  const { timeline } = player;
  const look = inspector((board, i, other) => {
    board.take?.put(i, other);
    board.pinned.add(i);
    timeline.grow(longest(), false);
    timeline.seek(timeline.length);
    look.look(board, i);
  });

  const go = el("button", { type: "submit", className: "primary" }, "Write");
  const pin = el("button", { type: "button", onclick: () => active.pin() }, "Pin");
  const redraw = el("button", { type: "button", onclick: () => again((i) => !active.chosen.has(i) || active.pinned.has(i)) }, "Redraw selection");
  const rewrite = el("button", { type: "button", onclick: () => again((i) => active.pinned.has(i)) }, "Rewrite around pins");
  const clear = el("button", { type: "button", className: "quiet", onclick: () => active.clear() }, "Clear selection");
  const saves = ["html", "gif"].map((kind) => el("button", { type: "button", onclick: () => save(kind) }, `Save as ${kind.toUpperCase()}`));

  const longest = () => Math.max(0, ...takes.map((take) => take.recording.steps.length));

  function act() {
    const has = active.chosen.size > 0;
    const finished = active.take?.finished === true;
    pin.disabled = !has;
    pin.textContent = has && [...active.chosen].every((i) => active.pinned.has(i)) ? "Unpin" : "Pin";
    redraw.disabled = !has || !finished;
    rewrite.disabled = active.pinned.size === 0 || !finished;
    clear.disabled = !has;
    for (const button of saves) button.disabled = !finished;
  }

  /** One of the samplers, from its first event to its last. @param {number} number @param {AbortSignal} signal */
  async function stream(number, signal) {
    const body = shapes.request(number === 0 ? undefined : shapes.controls.against.value);
    const take = takes[number];
    take.recording.note = said(body);
    fill(boards[number].caption, String(body.sampler), " ", el("small", {}, said(body).replace(/^[^,]*,? ?/, "")));
    for await (const event of events("generate", body, signal)) {
      if (signal.aborted) return;
      take.add(event);
      if (event.type === "start") boards[number].set(take);
      timeline.grow(longest(), true);
    }
  }

  async function write() {
    remember("write", shapes.settings);
    const two = shapes.controls.against.value !== "";
    stages.classList.toggle("two", two);
    fill(stages, ...boards.slice(0, two ? 2 : 1).map((board) => board.element));
    takes = boards.slice(0, two ? 2 : 1).map(() => new Take(title(shapes.request()), ""));
    active = boards[0];
    boards.forEach((board) => board.chosen.clear());
    look.empty();
    act();
    timeline.pause();
    timeline.grow(0, true);
    timeline.seek(0);
    notice.say("Writing …");
    timeline.play();
    try {
      const done = await latest.run((signal) => Promise.all(takes.map((_, i) => stream(i, signal))));
      if (done === undefined) return;
      notice.done(takes.map((take, i) => `${two ? `${boards[i].caption.firstChild?.textContent}: ` : ""}${take.recording.steps.length} steps, ${take.passes} passes, ln q = ${take.logProb.toFixed(1)}`).join(" · "));
    } catch (error) {
      notice.failed(error, write);
    }
    timeline.grow(longest(), false);
    act();
  }

  /** Keep some tokens, draw the others anew: what is kept becomes the prompt. @param {(i: number) => boolean} kept */
  function again(kept) {
    const take = /** @type {Take} */ (active.take);
    if (active !== boards[0]) boards[0].pinned = new Set(active.pinned);
    shapes.set({ shape: "prompt", text: take.keeping(kept), length: "", seed: String(Number(shapes.controls.seed.value) + 1) });
    write();
  }

  /** @param {string} kind */
  async function save(kind) {
    const take = /** @type {Take} */ (active.take);
    notice.say(`Making the ${kind.toUpperCase()} …`);
    try {
      const made = await file("animation", { kind, recording: take.recording });
      const link = el("a", { href: URL.createObjectURL(made), download: `anyorder.${kind}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      notice.say(`Saved as anyorder.${kind}.`);
    } catch (error) {
      notice.failed(error);
    }
  }

  fill(panel,
    intro("Write in any order", "Words appear in the order the sampler draws them, coloured by how probable they were. Stop, go back, look closer, pin what you like and redraw the rest."),
    el("form", { className: "card", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); write(); } },
      shapes.element, el("div", { className: "row" }, go, copyButton("write", () => shapes.settings))),
    el("div", { className: "beside" },
      el("div", { className: "card" }, player.element, notice.element, stages,
        el("div", { className: "row", role: "group", "aria-label": "The selection" }, pin, redraw, rewrite, clear),
        el("div", { className: "row" }, legend(), el("div", { className: "row saves" }, ...saves))),
      look.element));
  fill(stages, boards[0].element);
  boards[0].empty(40);
  notice.say("Press Write to begin.");
  act();
  let opened = "";
  return {
    open(given) {
      const link = JSON.stringify(given);
      if (link !== opened && Object.keys(given).length) {
        shapes.set({ ...DEFAULTS, ...Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value === "-" ? "" : value])) });
      }
      opened = link;
      remember("write", shapes.settings);
    },
  };
}

/** What was given, in a line. @param {Record<string, unknown>} body */
function title(body) {
  const given = Array.isArray(body.texts) ? body.texts[0] : undefined;
  return ["begin", "end", "scatter", "acrostic"].filter((name) => body[name]).map((name) => `${name}: ${body[name]}`).concat(given ?? []).join("; ");
}

/** How it is made, in a line. @param {Record<string, unknown>} body */
function said(body) {
  const names = ["order", "steps", "block", "temperature", "top_p", "seed"].filter((name) => body[name] !== undefined);
  return [body.sampler, ...names.map((name) => `${name.replace("_", "-")} ${body[name]}`)].join(", ");
}
