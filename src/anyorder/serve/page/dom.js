// Making elements. All text reaches the page as text: nothing here parses HTML.

/** @typedef {Node | string | null | undefined | false} Child */

/** An element with properties, attributes (`aria-label`, `data-…`, `role`) and listeners (`onclick`).
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Record<string, unknown>} [given] @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]} */
export function el(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name in node && name !== "list" && name !== "form") Object.assign(node, { [name]: value });
    else node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Put these children in place of what is there.
 * @param {Element} node @param {...Child} children */
export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

/** A number between 0 and 1 for the style sheet, as a custom property.
 * @param {HTMLElement} node @param {string} name @param {number} value */
export function share(node, name, value) {
  node.style.setProperty(name, String(Math.max(0, Math.min(1, value)).toFixed(4)));
}

let fields = 0;

/** A labelled control. The label stands beside the control, not around it: what is inside would be read as its name.
 * @param {string} label @param {HTMLElement} control @param {Child} [value] what the control says, beside its label */
export function field(label, control, value) {
  control.id ||= `field-${++fields}`;
  return el("div", { className: "field" },
    el("div", { className: "label" }, el("label", { htmlFor: control.id }, label), value && ": ", value), control);
}

/** A select with these values; each is a string or [value, name].
 * @param {(string | [string, string])[]} values @param {string} chosen @param {Record<string, unknown>} [given] */
export function select(values, chosen, given = {}) {
  const node = el("select", given);
  choices(node, values, chosen);
  return node;
}

/** @param {HTMLSelectElement} node @param {(string | [string, string])[]} values @param {string} chosen */
export function choices(node, values, chosen) {
  const pairs = values.map((one) => (typeof one === "string" ? [one, one] : one));
  const kept = pairs.some(([value]) => value === chosen) ? chosen : pairs[0]?.[0];
  fill(node, ...pairs.map(([value, name]) => el("option", { value, selected: value === kept }, name)));
}

/** Calls that come fast become one, `wait` milliseconds after the last.
 * @param {() => void} call @param {number} wait */
export function later(call, wait) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(call, wait);
  };
}
