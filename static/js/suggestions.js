// Suggestions for the search box: a listbox under it, arrows choose, Tab or Enter takes.
import { one } from "./dom.js";

/**
 * `text` takes the place of the characters from `start` to `end`.
 * @typedef {{text: string, explanation: string, start: number, end: number}} Suggestion
 */

/**
 * @param {HTMLInputElement} box
 * @param {string} address answers with the suggestions for what was typed
 */
function suggest(box, address) {
  const list = Object.assign(document.createElement("ul"), { className: "suggestions", id: "q-list", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  box.form?.append(list);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "q-list",
    "aria-autocomplete": "list",
  }))
    box.setAttribute(name, value);
  /** @type {Suggestion[]} */
  let suggestions = [];
  let at = -1;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {AbortController | undefined} */
  let request;
  const close = () => {
    list.hidden = true;
    at = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const show = () => {
    list.replaceChildren(
      ...suggestions.map((one, n) => {
        const item = Object.assign(document.createElement("li"), { id: `q-${n}` });
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(n === at));
        item.append(
          Object.assign(document.createElement("code"), { textContent: one.text }),
          Object.assign(document.createElement("span"), { textContent: one.explanation }),
        );
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(n);
        });
        return item;
      }),
    );
    list.hidden = !suggestions.length;
    box.setAttribute("aria-expanded", String(suggestions.length > 0));
    if (at >= 0) {
      box.setAttribute("aria-activedescendant", `q-${at}`);
      list.children[at].scrollIntoView({ block: "nearest" });
    }
  };
  /** @param {number} n */
  const take = (n) => {
    const one = suggestions[n];
    const space = one.text.endsWith(":") ? "" : " ";
    box.value = box.value.slice(0, one.start) + one.text + space + box.value.slice(one.end);
    box.selectionStart = box.selectionEnd = one.start + one.text.length + space.length;
    ask();
  };
  const ask = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      request?.abort();
      request = new AbortController();
      const query = new URLSearchParams({ q: box.value, cursor: String(box.selectionStart) });
      try {
        suggestions = (await (await fetch(`${address}?${query}`, { signal: request.signal })).json()).suggestions;
      } catch {
        return;
      }
      at = -1;
      if (document.activeElement === box) show();
    }, 120);
  };
  box.addEventListener("input", ask);
  box.addEventListener("focus", ask);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + suggestions.length) % suggestions.length;
      show();
    } else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) {
      event.preventDefault();
      take(at);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    } // else the browser empties the box
  });
}

const box = one("#q");
if (box instanceof HTMLInputElement && box.form?.dataset.suggest) suggest(box, box.form.dataset.suggest);
