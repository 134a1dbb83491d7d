// Acts that do not leave the page: what an answer swaps takes nothing away from whoever goes on working meanwhile, and
// an answer that never came, or that is another page, is told instead of shown.
(() => {
  const piece = () => document.getElementById("judged");
  const page = () => document.getElementById("incident");
  const NAMES = ["data-open", "data-testid", "data-act", "aria-label"];
  const named = (e) =>
    NAMES.filter((name) => e.hasAttribute(name)).map((name) => `[${name}="${CSS.escape(e.getAttribute(name))}"]`)[0];

  // A fold goes by its summary and by the row or panel that it stands in.
  const foldName = (fold) => {
    const summary = fold.querySelector("summary"),
      around = fold.parentElement.closest("[data-testid], [id]");
    const words = summary?.getAttribute("aria-label") ?? summary?.textContent.trim();
    return JSON.stringify([around?.dataset.testid ?? around?.id, fold.dataset.testid ?? fold.dataset.act ?? words]);
  };
  const folds = () => [...(page()?.querySelectorAll("details") ?? [])];
  const foldNamed = (name) => folds().find((fold) => foldName(fold) === name);
  // These are there for the form inside them and close when it is answered.
  const FORM_FOLDS = "details.editor, details.menu, details.record";

  // A select whose options name no default begins with its first one.
  const initial = (field) => {
    if (!field.matches("select")) return field.defaultValue;
    return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value ?? "";
  };
  const isTyped = (field) => field.value !== initial(field);
  const place = (field) => JSON.stringify([field.id, field.form?.elements.subject?.value]);
  const FIELDS = "form :is(input:not([type=hidden]), select, textarea)[id]";
  const fields = () => [...(piece()?.querySelectorAll(FIELDS) ?? [])];

  // Folds are open as before. The focus and the cursor go to the same control of the new piece, else to the fold that
  // was answered, else to the row, else to the piece. What was typed into other forms is in their fields again.
  let held;
  document.addEventListener("htmx:before:swap", (event) => {
    if (!piece()) return;
    const at = document.activeElement,
      answered = event.detail.ctx.sourceElement;
    const inside = piece().contains(at),
      isReplaced = inside || !!at.closest("#toasts, #activity-said, #evictions");
    const row = piece().querySelector("[data-cursor].is-current") ?? (inside ? at.closest("[data-cursor]") : null);
    const closing = answered?.closest(FORM_FOLDS);
    const others = fields().filter((field) => field.form !== answered && (isTyped(field) || field === at));
    const typed = new Map(others.map((field) => [place(field), field.value]));
    const fold = isReplaced
      ? closing?.contains(at)
        ? closing
        : at.matches("summary")
          ? at.parentElement
          : null
      : null;
    held = {
      row: row && named(row),
      control: isReplaced && !(at.form === answered && !at.matches("button")) ? named(at) : undefined,
      fold: fold && foldName(fold),
      isReplaced,
      typed,
      at: inside && at.id && typed.has(place(at)) ? place(at) : undefined,
      open: folds()
        .filter((one) => one.open && one !== closing)
        .map(foldName),
    };
  });
  document.addEventListener("htmx:after:settle", () => {
    if (!held || !piece()) return;
    const { row: rowName, control, fold, isReplaced, typed, at, open } = held;
    held = undefined;
    for (const one of folds()) if (open.includes(foldName(one))) one.open = true;
    for (const field of fields().filter((one) => typed.has(place(one)))) {
      field.value = typed.get(place(field));
      if (place(field) === at) field.focus({ preventScroll: true });
    }
    const row = rowName && piece().querySelector(rowName);
    row?.classList.add("is-current");
    if (!isReplaced || document.activeElement !== document.body) return;
    const found = control && ((row ?? piece()).querySelector(control) ?? piece().querySelector(control));
    const summary = fold && foldNamed(fold)?.querySelector("summary");
    const to = found ?? summary ?? row?.querySelector("[data-open]") ?? piece();
    to.focus({ preventScroll: true });
  });

  const tell = (words, link) => {
    const toast = Object.assign(document.createElement("div"), { className: "toast error", textContent: `${words} ` });
    if (link) toast.append(Object.assign(document.createElement("a"), link));
    document.getElementById("toasts").append(toast);
  };
  const isAct = (ctx) => ctx.request.method === "POST";

  // A page of its own is no piece of this one: a refusal is quoted, and whoever was signed out is told so.
  document.addEventListener("htmx:after:request", (event) => {
    const { ctx } = event.detail,
      answer = ctx.response.raw;
    const isSignIn = answer.redirected && new URL(answer.url).pathname === document.body.dataset.signIn;
    const isPage = /<html[\s>]/i.test(ctx.text);
    if (isSignIn && !isAct(ctx)) {
      event.preventDefault();
      location.reload();
      return;
    }
    if (isSignIn) {
      const next = new URLSearchParams({ next: location.pathname + location.search });
      tell("You were signed out, so this was not saved.", {
        href: `${document.body.dataset.signIn}?${next}`,
        textContent: "Sign in",
      });
    } else if (answer.status >= 400 && isPage) {
      const refusal = new DOMParser().parseFromString(ctx.text, "text/html");
      const said = [...refusal.querySelectorAll(".error-page :is(h1, h1 + p)")].map((e) => e.textContent).join(": ");
      if (!ctx.sourceElement.matches("[data-live]")) tell(said || `The site answered ${answer.status}.`);
    } else {
      if (ctx.sourceElement.matches("form[data-emptied]")) ctx.sourceElement.reset();
      return;
    }
    event.preventDefault();
  });
  document.addEventListener("htmx:error", (event) => {
    const { ctx } = event.detail;
    const words = "The site did not answer: reload the page to see whether this was saved.";
    if (ctx && isAct(ctx)) tell(words, { href: location.href, textContent: "Reload" });
  });
})();
