// One field that filters its options while one types, by WAI-ARIA's combobox pattern (list autocomplete). It takes the
// place of a select, of which one option must be chosen, or extends an input with a datalist, where any text will do.
// Without JavaScript the select and the datalist serve.

import { all } from "./dom.js";
import { matching, plain } from "./matching.js";
/** @import { Choice } from "./matching.js" */

const MAX_CHOICES = 200;

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} fields
 * @param {Record<string, string>} roles
 */
const make = (tag, fields, roles = {}) => {
  const made = Object.assign(document.createElement(tag), fields);
  for (const [name, value] of Object.entries(roles)) made.setAttribute(name, value);
  return made;
};

/** @type {(options: Iterable<HTMLOptionElement>) => Choice[]} */
const read = (options) =>
  [...options]
    .filter((option) => option.value)
    .map((option) => {
      const label = option.label || option.value,
        cut = label.lastIndexOf(" › ");
      return {
        value: option.value,
        label,
        title: cut < 0 ? label : label.slice(cut + 3),
        path: cut < 0 ? "" : label.slice(0, cut),
        name: plain(cut < 0 ? label : label.slice(cut + 3)),
        text: plain(`${label} ${option.value}`),
        group: option.parentElement?.getAttribute("label") ?? "",
      };
    });

/** @param {HTMLElement} element a select, or an input with a datalist */
function upgrade(element) {
  const isSelect = element.matches("select");
  const source = /** @type {any} */ (element);
  const fields = { type: "text", id: source.id, placeholder: source.dataset.combobox, required: source.required };
  /** @type {HTMLInputElement} */
  const input = isSelect ? make("input", fields) : source;
  const known = isSelect ? source : document.getElementById(source.getAttribute("list"));
  const choices = () => read(known?.options ?? []);
  const places = { id: `${input.id}-list`, className: "combobox-list", hidden: true };
  const list = make("div", places, { role: "listbox", "aria-label": "Choices" });
  const status = make("span", { className: "visually-hidden" }, { role: "status" });
  const box = make("div", { className: "combobox" });
  source.dataset.upgraded = "";
  source.removeAttribute("list");
  source.replaceWith(box);
  box.append(input, list, status);
  if (isSelect) {
    Object.assign(source, { id: `${input.id}-value`, hidden: true, required: false });
    box.append(source);
  }
  Object.assign(input, { autocomplete: "off", spellcheck: false });
  const roles = { role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list" };
  for (const [name, value] of Object.entries(roles)) input.setAttribute(name, value);

  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus

  /** @type {{option: Choice, item: HTMLElement}[]} */
  let visible = [];
  let at = -1;
  const chosen = () =>
    (isSelect ? source.selectedOptions[0]?.value && source.selectedOptions[0].label : input.value) || "";
  const close = () => {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  /** @param {number} n */
  const point = (n) => {
    at = n;
    visible.forEach(({ item }, number) => item.setAttribute("aria-selected", String(number === n)));
    if (n < 0) {
      input.removeAttribute("aria-activedescendant");
      return;
    }
    input.setAttribute("aria-activedescendant", visible[n].item.id);
    visible[n].item.scrollIntoView({ block: "nearest" });
  };
  /** @param {number} n */
  const take = (n) => {
    const { option } = visible[n];
    if (isSelect) source.value = option.value;
    input.value = isSelect ? option.label : option.value;
    input.setCustomValidity("");
    input.dispatchEvent(new Event("change", { bubbles: true }));
    close();
  };
  /** @type {(option: Choice, n: number) => HTMLElement} */
  const itemOf = (option, n) => {
    const roles = { role: "option", "aria-selected": "false" };
    const item = make("div", { id: `${input.id}-${n}`, className: "combobox-option" }, roles);
    item.append(make("span", { textContent: option.title }), make("small", { textContent: option.path }));
    item.addEventListener("mousedown", (event) => {
      event.preventDefault();
      take(n);
    });
    return item;
  };
  const open = (isWhole = false) => {
    const words = isWhole ? [] : plain(input.value).split(" ").filter(Boolean);
    visible = (words.length ? matching(choices(), words) : choices())
      .slice(0, MAX_CHOICES)
      .map((option, n) => ({ option, item: itemOf(option, n) }));
    list.replaceChildren();
    // groups in the order of the source; a filtered list is one, best first
    const groups = new Map();
    for (const one of visible) {
      const name = words.length ? "" : one.option.group;
      groups.set(name, [...(groups.get(name) ?? []), one.item]);
    }
    for (const [name, items] of groups) {
      const group = make("div", {}, name ? { role: "group", "aria-label": name } : { role: "presentation" });
      const title = { className: "combobox-group", textContent: name };
      if (name) group.append(make("div", title, { "aria-hidden": "true" }));
      group.append(...items);
      list.append(group);
    }
    const none = { className: "muted small", textContent: "Nothing matches." };
    if (!visible.length) list.append(make("p", none, { role: "presentation" }));
    status.textContent = `${visible.length} choice${visible.length === 1 ? "" : "s"}`;
    list.hidden = !isSelect && !visible.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    point(words.length && isSelect && visible.length ? 0 : -1);
    if (isWhole) point(visible.findIndex(({ option }) => option.label === input.value));
  };
  // a text that is none of the options is not kept where one of them must be chosen
  const settle = () => {
    close();
    if (!isSelect) return;
    const same = choices().find((option) => option.label.toLowerCase() === input.value.trim().toLowerCase());
    if (same) source.value = same.value;
    else if (!input.value.trim()) source.value = "";
    input.value = chosen();
    input.setCustomValidity("");
  };
  input.addEventListener("input", () => {
    if (isSelect) {
      source.value = "";
      input.setCustomValidity(input.value.trim() ? "Choose one of the list." : "");
    }
    open();
  });
  input.addEventListener("click", () => {
    if (list.hidden) open(true);
  });
  input.addEventListener("focus", () => open(true));
  input.addEventListener("blur", settle);
  input.addEventListener("keydown", (event) => {
    const { key } = event,
      last = visible.length - 1;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (event.altKey) {
        if (key === "ArrowDown") open(true);
        else close();
        return;
      }
      if (list.hidden) open(true);
      if (visible.length) point(key === "ArrowDown" ? (at >= last ? 0 : at + 1) : at <= 0 ? last : at - 1);
    } else if (key === "Enter" && !list.hidden && at >= 0) {
      event.preventDefault();
      take(at);
    } else if (key === "Tab" && !list.hidden && at >= 0) take(at);
    else if (key === "Escape" && !list.hidden) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  });
  if (isSelect) input.value = chosen();
}

const upgradeAll = () => all("[data-combobox]:not([data-upgraded])").forEach(upgrade);
upgradeAll();
document.addEventListener("htmx:after:settle", upgradeAll);
