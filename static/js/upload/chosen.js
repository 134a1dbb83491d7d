// The files that were chosen: by dialogue, as a folder, or dropped anywhere on the page.
import { count, element, size, visible } from "./words.js";

/**
 * @typedef {object} Entry
 * @property {File} file
 * @property {string} path
 * @property {number} sent bytes that have arrived
 * @property {"" | "done" | "refused"} state
 * @property {string} problem
 * @property {HTMLLIElement} [item] its row in the list
 * @property {HTMLButtonElement} [remove]
 * @property {HTMLProgressElement} [bar]
 */

const MAX_ROWS = 500;

export class Chosen {
  /** @type {Map<string, Entry>} by path */
  files = new Map();
  #parts;

  /**
   * @param {object} parts of the page
   * @param {HTMLElement} parts.list
   * @param {HTMLElement} parts.tally
   * @param {HTMLElement} parts.choose gets the focus when the list is empty
   * @param {(path: string) => void} parts.onAdded
   */
  constructor(parts) {
    this.#parts = parts;
    parts.tally.querySelector("button")?.addEventListener("click", () => {
      for (const path of this.files.keys()) this.forget(path);
      parts.choose.focus();
    });
  }

  /** @param {Entry["state"]} [state] */
  entries(state) {
    return [...this.files.values()].filter((entry) => state === undefined || entry.state === state);
  }

  /**
   * @param {File} file
   * @param {string} path
   */
  add(file, path) {
    const old = this.files.get(path);
    if (old) {
      if (old.state === "done" || (old.file.size === file.size && old.file.lastModified === file.lastModified)) return;
      this.forget(path);
    }
    /** @type {Entry} */
    const entry = { file, path, sent: 0, state: "", problem: "" };
    this.files.set(path, entry);
    if (this.files.size <= MAX_ROWS) this.#row(entry);
    this.#parts.onAdded(path);
    this.#summary();
  }

  /** @param {string} path */
  forget(path) {
    this.files.get(path)?.item?.remove();
    this.files.delete(path);
    this.#summary();
  }

  /** @param {Entry} entry */
  #row(entry) {
    const item = document.createElement("li");
    const remove = element("button", "button quiet small", "Remove");
    remove.type = "button";
    remove.setAttribute("aria-label", visible(`Remove ${entry.path}`));
    remove.addEventListener("click", () => {
      const next = item.nextElementSibling ?? item.previousElementSibling;
      this.forget(entry.path);
      (next?.querySelector("button") ?? this.#parts.choose).focus();
    });
    item.append(element("span", "file-name", entry.path), element("span", "file-size", size(entry.file.size)), remove);
    this.#parts.list.append(item);
    Object.assign(entry, { item, remove });
  }

  #summary() {
    const { tally } = this.#parts,
      all = this.entries();
    tally.hidden = !all.length;
    const hidden = all.filter((entry) => !entry.item).length;
    const bytes = all.reduce((sum, entry) => sum + entry.file.size, 0);
    const listed = hidden ? `; the first ${MAX_ROWS} are listed` : "";
    const words = tally.querySelector("span");
    if (words) words.textContent = `${count(all.length, "file")}, ${size(bytes)}${listed}`;
  }

  /**
   * All files of a dropped file or folder.
   * @param {FileSystemEntry} entry
   * @param {string} prefix
   */
  async walk(entry, prefix = "") {
    if (entry.isFile) {
      const single = /** @type {FileSystemFileEntry} */ (entry);
      this.add(await new Promise((resolve, reject) => single.file(resolve, reject)), prefix + entry.name);
      return;
    }
    const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
    for (;;) {
      // readEntries gives at most a hundred at a time
      /** @type {FileSystemEntry[]} */
      const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!batch.length) return;
      for (const child of batch) await this.walk(child, `${prefix}${entry.name}/`);
    }
  }
}

/**
 * Files come by two buttons, by a click into the field, or dropped anywhere on the page: a file dropped beside the
 * field would otherwise replace the page by itself.
 * @param {Chosen} chosen
 * @param {object} parts
 * @param {HTMLFormElement} parts.form
 * @param {HTMLElement} parts.drop
 * @param {HTMLInputElement} parts.input
 * @param {() => boolean} parts.isBusy
 * @param {(sentences: string[]) => void} parts.tell
 */
export function wire(chosen, { form, drop, input, isBusy, tell }) {
  const folder = Object.assign(document.createElement("input"), {
    type: "file",
    multiple: true,
    hidden: true,
    webkitdirectory: true,
  });
  folder.dataset.testid = "upload-folder";
  drop.append(folder);
  input.hidden = true; // its own "no file chosen" would contradict the list; two buttons stand for it
  for (const chooser of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-choose]"))) {
    chooser.hidden = false;
    chooser.addEventListener("click", () => (chooser.dataset.choose === "folder" ? folder : input).click());
  }
  drop.addEventListener("click", (event) => {
    const isControl = event.target instanceof Element && event.target.closest("button, input, a");
    if (!isBusy() && !isControl) input.click();
  });
  for (const source of [input, folder])
    source.addEventListener("change", () => {
      for (const file of source.files ?? []) chosen.add(file, file.webkitRelativePath || file.name);
      source.value = "";
    });

  let depth = 0;
  /** @param {number} by */
  const over = (by) => {
    depth = Math.max(0, depth + by);
    drop.classList.toggle("is-over", depth > 0);
  };
  /** @param {DragEvent} event */
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  window.addEventListener("dragenter", (event) => {
    if (holdsFiles(event)) over(1);
  });
  window.addEventListener("dragleave", (event) => {
    if (holdsFiles(event)) over(-1);
  });
  window.addEventListener("dragover", (event) => {
    if (holdsFiles(event)) event.preventDefault();
  });
  window.addEventListener("drop", async (event) => {
    if (!holdsFiles(event) || !event.dataTransfer) return;
    event.preventDefault();
    over(-depth);
    if (isBusy()) return;
    const dropped = [...event.dataTransfer.items]
      .map((item) => item.webkitGetAsEntry?.())
      .filter((one) => one !== null);
    if (!dropped.length) for (const file of event.dataTransfer.files) chosen.add(file, file.name);
    for (const entry of dropped)
      await chosen.walk(entry).catch((error) => tell([`${entry.name} could not be read: ${error.message}`]));
  });
}
