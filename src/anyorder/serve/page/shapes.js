// The settings of Write: what is given, which sampler, and how they become a request and a link.

import { choices, el, field, select } from "./dom.js";

/** What can be given, and which fields that takes. @type {Record<string, [string, string[]]>} */
const SHAPES = {
  prompt: ["words anywhere", ["text"]],
  around: ["beginning and end", ["begin", "end"]],
  scatter: ["scattered words", ["scatter"]],
  acrostic: ["acrostic", ["acrostic"]],
};
/** The options of each sampler that the page offers. @type {Record<string, string[]>} */
export const SAMPLERS = {
  "any-order": ["order"],
  parallel: ["order", "steps"],
  refine: ["steps"],
  gibbs: ["block", "steps"],
  adaptive: ["block", "steps"],
  metropolis: ["steps"],
};
/** @type {Record<string, string[]>} */
const ORDERS = {
  "any-order": ["random", "left-to-right", "right-to-left", "confidence", "entropy"],
  parallel: ["confidence", "margin", "entropy", "random"],
};
/** @type {Record<string, string>} */
export const DEFAULTS = {
  shape: "around", text: "The ___ sea ___{5} .", begin: "Once upon a time", end: "They lived happily ever after.",
  scatter: "moon river boat night", acrostic: "SEA", length: "40", sampler: "any-order", order: "", steps: "", block: "", temperature: "0.8",
  top_p: "0.95", seed: "1", against: "",
};

export class Shapes {
  /** @param {() => void} changed */
  constructor(changed) {
    const d = DEFAULTS;
    /** @type {Record<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */
    this.controls = {
      shape: select(Object.entries(SHAPES).map(([value, [name]]) => [value, name]), d.shape),
      text: el("textarea", { rows: 2, maxLength: 4000 }),
      begin: el("input", { maxLength: 2000 }), end: el("input", { maxLength: 2000 }),
      scatter: el("input", { maxLength: 2000 }), acrostic: el("input", { maxLength: 24 }),
      length: el("input", { type: "number", min: 1, max: 512, inputMode: "numeric", placeholder: "automatic" }),
      sampler: select(Object.keys(SAMPLERS), d.sampler), order: select([], ""),
      steps: el("input", { type: "number", min: 1, max: 512, placeholder: "automatic" }),
      block: el("input", { type: "number", min: 1, max: 64, placeholder: "automatic" }),
      temperature: el("input", { type: "number", min: 0.05, max: 5, step: 0.05 }),
      top_p: el("input", { type: "number", min: 0.05, max: 1, step: 0.05 }),
      seed: el("input", { type: "number", min: 0, max: 2 ** 31, step: 1 }),
      against: select([["", "nothing"], ...Object.keys(SAMPLERS).map((one) => /** @type {[string, string]} */ ([one, one]))], ""),
    };
    const dice = el("button", { type: "button", "aria-label": "Another seed", title: "Another seed", onclick: () => {
      this.set({ seed: String(Math.floor(Math.random() * 10000)) });
      changed();
    } }, "⚄");
    const c = this.controls;
    /** @type {Record<string, HTMLElement>} */
    this.fields = {
      shape: field("Given", c.shape), text: field("Words to keep; ... for a stretch of text, ___{5} for five tokens", c.text),
      begin: field("It begins", c.begin), end: field("It ends", c.end), scatter: field("Words to scatter, in this order", c.scatter),
      acrostic: field("Letters that begin the lines", c.acrostic), length: field("Tokens in all", c.length),
      sampler: field("Sampler", c.sampler), order: field("Order", c.order), steps: field("Steps", c.steps), block: field("Block", c.block),
      temperature: field("Temperature", c.temperature), top_p: field("Top-p", c.top_p),
      seed: el("div", { className: "field" }, el("label", { className: "label", htmlFor: "write-seed" }, "Seed"), el("div", { className: "pair" }, c.seed, dice)),
      against: field("Compare with", c.against),
    };
    c.seed.id = "write-seed";
    const texts = ["text", "begin", "end", "scatter", "acrostic"];
    const others = Object.keys(this.fields).filter((name) => name !== "shape" && !texts.includes(name));
    const all = (/** @type {string[]} */ names) => names.map((name) => this.fields[name]);
    this.element = el("div", { className: "toy" },
      el("div", { className: "given-fields" }, this.fields.shape, el("div", { className: "given-texts" }, ...all(texts))),
      el("div", { className: "settings" }, ...all(others)));
    this.element.addEventListener("input", () => {
      this.#arrange();
      changed();
    });
    this.set(DEFAULTS);
  }

  /** @param {import("./links.js").Settings} given */
  set(given) {
    for (const [name, value] of Object.entries(given)) if (this.controls[name] && name !== "order") this.controls[name].value = value;
    this.#arrange(given.order);
    if (this.controls.shape.value === "") this.controls.shape.value = DEFAULTS.shape;
    if (this.controls.sampler.value === "") this.controls.sampler.value = DEFAULTS.sampler;
    this.#arrange(given.order);
  }

  /** Show the fields that matter. @param {string} [order] */
  #arrange(order) {
    const { shape, sampler } = this.controls;
    const wanted = new Set(SHAPES[shape.value]?.[1] ?? []);
    for (const [, names] of Object.values(SHAPES)) for (const name of names) this.fields[name].hidden = !wanted.has(name);
    const options = SAMPLERS[sampler.value] ?? [];
    for (const name of ["order", "steps", "block"]) this.fields[name].hidden = !options.includes(name);
    const orders = ORDERS[sampler.value] ?? [];
    const select = /** @type {HTMLSelectElement} */ (this.controls.order);
    if (order !== undefined || [...select.options].map((one) => one.value).join() !== orders.join()) choices(select, orders, order ?? select.value);
  }

  /** What differs from the defaults and is shown, for the link. */
  get settings() {
    /** @type {import("./links.js").Settings} */
    const out = {};
    for (const [name, control] of Object.entries(this.controls)) {
      const usual = name === "order" ? ORDERS[this.controls.sampler.value]?.[0] ?? "" : DEFAULTS[name];
      if (control.value !== usual && !this.fields[name].hidden) out[name] = control.value === "" ? "-" : control.value;
    }
    return out;
  }

  /** The body of POST /generate, for the sampler chosen or the one to compare it with. @param {string} [sampler] */
  request(sampler = this.controls.sampler.value) {
    const value = (/** @type {string} */ name) => this.controls[name].value.trim();
    /** @type {Record<string, unknown>} */
    const body = { stream: true, canvas: true, sampler, temperature: Number(value("temperature") || 1), seed: Math.floor(Number(value("seed") || 0)) };
    if (value("top_p") && Number(value("top_p")) < 1) body.top_p = Number(value("top_p"));
    if (value("length")) body.length = Number(value("length"));
    const [, names] = SHAPES[this.controls.shape.value];
    for (const name of names) if (value(name)) body[name === "text" ? "texts" : name] = name === "text" ? [value(name).replace(/…/g, "...")] : value(name);
    const mine = sampler === this.controls.sampler.value;
    for (const name of SAMPLERS[sampler]) {
      if (name === "order") body.order = mine ? value("order") : ORDERS[sampler][0];
      else if (value(name) && !this.fields[name].hidden) body[name] = Number(value(name));
    }
    return body;
  }
}
