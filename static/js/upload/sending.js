// Files go up in chunks by tus 1.0 and go on where they stopped: after a broken connection, "Stop", a reload or in
// another tab.
/** @import { Entry } from "./chosen.js" */
/** @import { Kept } from "./kept.js" */

const RETRIES = 8,
  AT_ONCE = 3,
  AGAIN = [409, 423, 429, 502, 503, 504];
export const SIGNED_OUT = "You are signed out: sign in in another tab, then try again here.";

/** A sentence why something was not sent. `isFinal`: trying again does not help; else `seconds` to wait, if known. */
export class Failure extends Error {
  /**
   * @param {string} text
   * @param {{isFinal?: boolean, seconds?: number}} how
   */
  constructor(text, { isFinal = false, seconds = 0 } = {}) {
    super(text);
    this.isFinal = isFinal;
    this.seconds = seconds;
  }
}

/** @param {string} text */
const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/** One run of sending, until it is over or stopped. */
export class Sending {
  /** bytes that had arrived before it began: they say nothing about the speed of the line */
  before = 0;
  since = performance.now();
  #stop = new AbortController();
  #to;

  /**
   * @param {object} to
   * @param {string} to.slug of the job
   * @param {string} to.address of the site's uploads
   * @param {string} to.token against forged requests
   * @param {number} to.chunkBytes
   * @param {Kept} to.kept the addresses of what was begun
   * @param {(entry: Entry, sent: number) => void} to.onSent
   * @param {(entry: Entry) => void} to.onEnded
   * @param {(words: string) => void} to.onTrouble it tries again
   */
  constructor(to) {
    this.#to = to;
  }

  get isStopped() {
    return this.#stop.signal.aborted;
  }

  stop() {
    this.#stop.abort();
  }

  /**
   * Sends what is not there yet, a few files at a time.
   * @param {Entry[]} entries
   */
  async all(entries) {
    this.before = entries.reduce((sum, entry) => sum + entry.sent, 0);
    const queue = entries.filter((entry) => entry.state !== "done");
    for (const entry of queue) entry.state = "";
    const worker = async () => {
      for (let entry = queue.shift(); entry; entry = queue.shift()) {
        if (this.isStopped) return;
        try {
          await this.#file(entry);
          entry.state = "done";
        } catch (error) {
          if (this.isStopped) return;
          Object.assign(entry, { state: "refused", problem: error instanceof Error ? error.message : String(error) });
        }
        this.#to.onEnded(entry);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  /** @param {Entry} entry */
  async #file(entry) {
    const { chunkBytes, onSent } = this.#to;
    onSent(entry, entry.sent);
    const begun = await this.#insist(entry, () => this.#begin(entry));
    let { offset } = begun;
    this.before += Math.max(0, offset - entry.sent);
    while (offset < entry.file.size) {
      await this.#insist(entry, async () => {
        const headers = { "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" };
        const chunk = entry.file.slice(offset, offset + chunkBytes);
        try {
          const call = await this.#send("PATCH", begun.url, headers, chunk, (loaded) => onSent(entry, offset + loaded));
          offset = Number(call.getResponseHeader("Upload-Offset"));
        } catch (error) {
          if (!(error instanceof Failure && error.isFinal)) {
            const head = await this.#send("HEAD", begun.url).catch(() => null);
            if (head) offset = Number(head.getResponseHeader("Upload-Offset"));
          }
          throw error;
        }
      });
    }
    this.#to.kept.note(begun.key, null);
    onSent(entry, entry.file.size);
  }

  /**
   * The address and offset of an upload: the one that was begun before, if the server still has it, or a new one.
   * @param {Entry} entry
   */
  async #begin(entry) {
    const { slug, address, chunkBytes, kept } = this.#to;
    const key = `${slug}:${entry.path}:${entry.file.size}:${entry.file.lastModified}`;
    const known = kept.of(key);
    if (known) {
      const head = await this.#send("HEAD", known).catch((error) => {
        if (error.isFinal) return null;
        throw error;
      });
      if (head) return { url: known, offset: Number(head.getResponseHeader("Upload-Offset")), key };
    }
    if (this.isStopped) throw new Failure("Stopped.", { isFinal: true });
    const made = await this.#send("POST", address, {
      "Upload-Length": String(entry.file.size),
      "Upload-Metadata": `job ${base64(slug)},path ${base64(entry.path)}`,
    });
    const url = made.getResponseHeader("Location") ?? "";
    if (entry.file.size > chunkBytes) kept.note(key, url);
    return { url, offset: 0, key };
  }

  /**
   * Acts until it succeeds, is stopped, or has failed too often.
   * @template T
   * @param {Entry} entry
   * @param {() => Promise<T>} act
   * @returns {Promise<T>}
   */
  async #insist(entry, act) {
    for (let failures = 1; ; failures += 1) {
      if (this.isStopped) throw new Failure("Stopped.", { isFinal: true });
      try {
        return await act();
      } catch (error) {
        // A browser refuses to read a file that was written to since it was chosen.
        const first = entry.file.slice(0, 1).arrayBuffer();
        const isReadable = await first.then(
          () => true,
          () => false,
        );
        if (!isReadable) throw new Failure("The file changed while it was sent: choose it again.", { isFinal: true });
        if (!(error instanceof Failure) || error.isFinal || failures > RETRIES) throw error;
        this.#to.onTrouble(`${error.message} Trying again…`);
        await this.#wait(error.seconds ? error.seconds * 1000 : Math.min(30_000, 500 * 2 ** failures));
      }
    }
  }

  /**
   * A pause that the return of the connection, or "Stop", ends early.
   * @param {number} ms
   * @returns {Promise<void>}
   */
  #wait(ms) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(end, ms);
      window.addEventListener("online", end, { once: true });
      this.#stop.signal.addEventListener("abort", end, { once: true });
    });
  }

  /**
   * One request by XMLHttpRequest, the only way to see bytes leave. Rejects with a Failure.
   * @param {string} method
   * @param {string} url
   * @param {Record<string, string>} headers
   * @param {Blob} [body]
   * @param {(loaded: number) => void} [onProgress]
   * @returns {Promise<XMLHttpRequest>}
   */
  #send(method, url, headers = {}, body, onProgress) {
    return new Promise((resolve, reject) => {
      const call = new XMLHttpRequest();
      const abort = () => call.abort();
      call.open(method, url);
      const all = { "X-CSRFToken": this.#to.token, "Tus-Resumable": "1.0.0", ...headers };
      for (const [name, value] of Object.entries(all)) call.setRequestHeader(name, value);
      if (onProgress) call.upload.addEventListener("progress", (event) => onProgress(event.loaded));
      call.addEventListener("load", () => {
        if (call.status >= 200 && call.status < 300) resolve(call);
        else reject(refusal(call));
      });
      call.addEventListener("error", () => reject(new Failure("The connection broke off.")));
      call.addEventListener("abort", () => reject(new Failure("Stopped.", { isFinal: true })));
      call.addEventListener("loadend", () => this.#stop.signal.removeEventListener("abort", abort));
      this.#stop.signal.addEventListener("abort", abort);
      call.send(body);
    });
  }
}

/**
 * The site's refusal, and whether trying again may help.
 * @param {XMLHttpRequest} call
 */
function refusal(call) {
  let detail = "";
  try {
    detail = JSON.parse(call.responseText).detail;
  } catch {
    /* a proxy's page */
  }
  if (call.status === 401) detail = SIGNED_OUT;
  return new Failure(detail || `The server answered ${call.status}.`, {
    isFinal: !AGAIN.includes(call.status),
    seconds: Number(call.getResponseHeader("Retry-After")) || 0,
  });
}
