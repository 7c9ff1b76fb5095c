// Talking to the server that served this page.

/** What the server refused, or why it could not be asked: a sentence for the reader. */
export class Refused extends Error {
  /** @param {string} message @param {number} status 0 where no answer came */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const GONE = "The server does not answer. Is anyorder serve still running?";
const BROKEN = "The connection broke off. What had arrived by then is kept; try again.";
const PATIENCE = 3; // times to wait for a busy server

/** @param {number} seconds @param {AbortSignal} [signal] @returns {Promise<void>} */
function wait(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** Ask for the key, once, if the server wants one. @returns {Promise<string | null>} */
function askKey() {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("key"));
  const value = /** @type {HTMLInputElement} */ (document.getElementById("key-value"));
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? value.value : null), { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

/** @param {string} path @param {unknown} body @param {AbortSignal} [signal] @returns {Promise<Response>} */
async function send(path, body, signal) {
  for (let tries = 0; ; tries++) {
    const key = sessionStorage.getItem("anyorder-key");
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/json", ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
    /** @type {Response} */
    let answer;
    try {
      answer = await fetch(path, body === undefined ? { headers, signal } : { method: "POST", headers, signal, body: JSON.stringify(body) });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Refused(GONE, 0);
    }
    if (answer.ok) return answer;
    if (answer.status === 401 && tries === 0) {
      const given = await askKey();
      if (given !== null) {
        sessionStorage.setItem("anyorder-key", given);
        continue;
      }
    }
    if (answer.status === 429 && tries < PATIENCE) {
      await wait(Math.min(5, Number(answer.headers.get("Retry-After") ?? 1)), signal);
      continue;
    }
    throw new Refused(await sentence(answer), answer.status);
  }
}

/** The server's own sentence. @param {Response} answer */
async function sentence(answer) {
  try {
    const { error } = await answer.json();
    return String(error.message);
  } catch {
    return `The server answered ${answer.status}.`;
  }
}

/** @param {string} path @param {unknown} [body] nothing: GET @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function ask(path, body, signal) {
  return (await send(path, body, signal)).json();
}

/** @param {string} path @param {unknown} body @returns {Promise<Blob>} */
export async function file(path, body) {
  return (await send(path, body)).blob();
}

/** The server-sent events of an answer, parsed, until [DONE].
 * @param {string} path @param {unknown} body @param {AbortSignal} signal @returns {AsyncGenerator<any>} */
export async function* events(path, body, signal) {
  const answer = await send(path, body, signal);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Refused(BROKEN, 0);
      rest += decoder.decode(value, { stream: true });
      const parts = rest.split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const data = part.replace(/^data: /, "");
        if (data === "[DONE]") return;
        if (!part.startsWith("data: ")) continue;
        const event = JSON.parse(data);
        if (event.type === "error") throw new Refused(String(event.error.message), Number(event.error.code));
        yield event;
      }
    }
  } catch (error) {
    if (signal.aborted || error instanceof Refused) throw error;
    throw new Refused(BROKEN, 0);
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
