// What the upload page remembers of uploads that have not ended: it survives a reload, a closed tab and the end of the
// browser. Without storage an upload begins again.

/** The site keeps the bytes of an upload without its end for two days. */
const KEPT_MS = 2 * 86_400_000;

/**
 * Notes of one person, who may share the browser with others.
 */
export class Kept {
  #prefix;

  /** @param {string} person */
  constructor(person) {
    this.#prefix = `faultline-upload:${person}:`;
    this.#forgetOld();
  }

  /**
   * @param {string} name
   * @returns {any}
   */
  of(name) {
    try {
      return JSON.parse(localStorage.getItem(this.#prefix + name) ?? "null")?.value ?? null;
    } catch {
      return null;
    }
  }

  /** @type {(name: string, value: unknown) => void} null forgets it */
  note(name, value) {
    try {
      if (value === null) localStorage.removeItem(this.#prefix + name);
      else localStorage.setItem(this.#prefix + name, JSON.stringify({ value, at: Date.now() }));
    } catch {
      /* it is sent from the beginning after a reload */
    }
  }

  #forgetOld() {
    try {
      const names = Object.keys(localStorage).filter((name) => name.startsWith(this.#prefix));
      for (const name of names) {
        const { at } = JSON.parse(localStorage.getItem(name) ?? "{}") ?? {};
        if (!(Date.now() - at < KEPT_MS)) localStorage.removeItem(name);
      }
    } catch {
      /* there is no storage */
    }
  }
}

/**
 * One text for a choice of files, equal if the same files are chosen again.
 * @param {{path: string, file: File}[]} entries
 */
export function choiceOf(entries) {
  const names = entries.map(({ path, file }) => `${path}:${file.size}:${file.lastModified}`).sort();
  let sum = 0x811c9dc5; // FNV-1a
  for (const letter of names.join("\n")) sum = Math.imul(sum ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return `${names.length}:${sum}`;
}
