// Links that carry the settings: #write?sampler=gibbs&seed=3

/** @typedef {Record<string, string>} Settings */

/** @param {string} hash @returns {{view: string, settings: Settings}} */
export function readLink(hash) {
  const [view, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  return { view, settings: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {string} view @param {Settings} settings what is empty is left out */
export function makeLink(view, settings) {
  const said = Object.entries(settings).filter(([, value]) => value !== "");
  return `#${view}${said.length ? `?${new URLSearchParams(said)}` : ""}`;
}

/** Write the settings into the address, without an entry in the history for every letter typed. An answer that comes late,
 * when another view is shown, leaves the address alone.
 * @param {string} view @param {Settings} settings */
export function remember(view, settings) {
  const { view: shown } = readLink(location.hash);
  if (shown !== view && document.getElementById(`panel-${shown}`)) return;
  const link = makeLink(view, settings);
  if (link !== location.hash) history.replaceState(null, "", link);
}

/** @param {string} view @param {Settings} settings @returns {Promise<boolean>} whether it could be copied */
export async function copyLink(view, settings) {
  remember(view, settings);
  try {
    await navigator.clipboard.writeText(location.href);
    return true;
  } catch {
    return false;
  }
}
