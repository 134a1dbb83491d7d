// Long texts: Ctrl+Enter (or ⌘+Enter) sends their form, and what was typed survives a reload until it is sent.

/** @param {EventTarget | null} at @returns {HTMLTextAreaElement | null} */
const draftAt = (at) => (at instanceof HTMLTextAreaElement && at.hasAttribute("data-draft") ? at : null);
/** @param {HTMLTextAreaElement} field */
const key = (field) => `draft ${location.pathname} ${field.id}`;
/** @param {HTMLTextAreaElement} field */
const keep = (field) => {
  if (field.value) sessionStorage.setItem(key(field), field.value);
  else sessionStorage.removeItem(key(field));
};

document.addEventListener("keydown", (event) => {
  const at = event.target;
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !(at instanceof HTMLTextAreaElement)) return;
  event.preventDefault();
  at.form?.requestSubmit();
});
document.addEventListener("input", (event) => {
  const field = draftAt(event.target);
  if (field) keep(field);
});
// A form is reset when its answer came: then the text is stored by the site.
document.addEventListener("reset", (event) => {
  if (!(event.target instanceof HTMLFormElement)) return;
  for (const field of event.target.elements) {
    const draft = draftAt(field);
    if (draft) sessionStorage.removeItem(key(draft));
  }
});
for (const field of document.querySelectorAll("textarea[data-draft]")) {
  const draft = draftAt(field);
  if (draft && !draft.value) draft.value = sessionStorage.getItem(key(draft)) ?? "";
}
