// The upload page: files and folders are dropped or chosen, the job is made once, the files go up in chunks and go on
// where they stopped. Without this script the form posts everything in one request.
/** @import { Entry } from "./upload/chosen.js" */
import { Chosen, wire } from "./upload/chosen.js";
import { digestsOf } from "./upload/digests.js";
import { Kept, choiceOf } from "./upload/kept.js";
import { Failure, SIGNED_OUT, Sending } from "./upload/sending.js";
import { count, element, left, shortened, size, visible } from "./upload/words.js";

const form = /** @type {HTMLFormElement} */ (document.querySelector("[data-upload]"));
/** @type {(selector: string) => any} */
const part = (selector) => form.querySelector(selector);
const total = part("[data-total]"),
  status = part("[data-status]"),
  errors = part("[data-upload-errors]"),
  stop = part("[data-stop]"),
  button = part("[type=submit]"),
  name = part("[name=name]"),
  token = part("[name=csrfmiddlewaretoken]").value,
  choose = part("[data-choose]");
const kept = new Kept(form.dataset.person ?? "");
/** The name of the note on the upload that did not end: its job, and which files were chosen. */
const PENDING = "pending";
/** @type {{slug: string, url: string} | null} */
let job = form.dataset.slug ? { slug: form.dataset.slug, url: form.dataset.url ?? "" } : null;
let isNamed = false; // the name was typed, not guessed
let isBusy = false;
/** The choice of files that a person sends although a job has them. */
let sentAgain = "";
/** @type {Sending | null} */
let sending = null;

const chosen = new Chosen({
  list: part("[data-files]"),
  tally: part("[data-tally]"),
  choose,
  onAdded: (path) => {
    if (!name || isNamed || name.value) return;
    const guess = visible(path)
      .split("/")[0]
      .replace(/(\.tar)?\.[a-z0-9]+$/i, "");
    name.value = shortened(guess, name.maxLength);
  },
});
wire(chosen, { form, drop: part("[data-drop]"), input: part("input[type=file]"), isBusy: () => isBusy, tell });
name?.addEventListener("input", () => {
  isNamed = true;
});

// ---- telling

/** @type {(sentences: string[], how?: "error" | "warning") => void} */
function tell(sentences, how = "error") {
  errors.className = `notice ${how}`;
  errors.replaceChildren(...sentences.map((sentence) => element("p", "", sentence)));
  errors.hidden = !sentences.length;
  if (sentences.length) errors.scrollIntoView({ block: "nearest" });
}

function progress(note = "") {
  if (!sending) return;
  const entries = chosen.entries(),
    sent = entries.reduce((sum, entry) => sum + entry.sent, 0),
    whole = entries.reduce((sum, entry) => sum + entry.file.size, 0);
  total.max = whole || 1;
  total.value = whole ? sent : 1;
  const seconds = (performance.now() - sending.since) / 1000,
    went = sent - sending.before;
  const rest = !note && seconds > 3 && went > 0 && sent < whole ? `, ${left(((whole - sent) * seconds) / went)}` : "";
  const done = chosen.entries("done").length.toLocaleString("en");
  status.textContent = note || `${done} of ${count(entries.length, "file")}, ${size(sent)} of ${size(whole)}${rest}`;
}

/** @type {(entry: Entry, sent: number) => void} */
function showSent(entry, sent) {
  if (entry.item && !entry.bar) {
    entry.bar = Object.assign(element("progress", ""), { max: entry.file.size || 1, value: 0 });
    entry.bar.setAttribute("aria-label", visible(`Sent of ${entry.path}`));
    entry.item.append(entry.bar);
  }
  entry.item?.querySelector(".problem")?.remove();
  entry.sent = Math.min(sent, entry.file.size);
  if (entry.bar) entry.bar.value = entry.sent === entry.file.size ? entry.bar.max : entry.sent;
  progress();
}

/** @param {{field: string, detail: string}[]} rows what the site says about the fields of the form */
function showErrors(rows) {
  for (const old of form.querySelectorAll(".errorlist")) old.remove();
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  const rest = [];
  for (const { field, detail } of rows) {
    const target = field === "__all__" ? null : part(`[name="${field}"]`);
    if (!target) {
      rest.push(detail);
      continue;
    }
    target.closest("details")?.setAttribute("open", "");
    const list = element("ul", "errorlist");
    list.append(element("li", "", detail));
    target.closest(".field")?.append(list);
    target.setAttribute("aria-invalid", "true");
  }
  tell(rest.length || !rows.length ? rest : ["Some fields need another look."]);
  part("[aria-invalid=true]")?.focus();
}

/** @param {boolean} is */
function setBusy(is) {
  isBusy = is;
  total.hidden = stop.hidden = !is;
  button.disabled = is;
  for (const one of /** @type {NodeListOf<HTMLButtonElement>} */ (
    form.querySelectorAll("[data-choose], [data-tally] button")
  ))
    one.disabled = is;
  for (const entry of chosen.entries()) if (entry.remove) entry.remove.hidden = is || entry.state === "done";
  const fields = part("[data-job]");
  if (fields) fields.disabled = Boolean(job);
}

// ---- the job, then the files

/** The job of an upload of the same files that did not end, if it is still there. */
async function unendedJob() {
  const pending = kept.of(PENDING);
  if (!pending || pending.choice !== choiceOf(chosen.entries())) return null;
  const answer = await fetch(`${form.dataset.jobs}${encodeURIComponent(pending.slug)}/`, {
    credentials: "same-origin",
  }).catch(() => null);
  return answer?.ok ? { slug: pending.slug, url: pending.url } : null;
}

/** A job that has all chosen files already, for a person who did not say that they are to be sent again. */
async function jobWithSameFiles() {
  if (choiceOf(chosen.entries()) === sentAgain) return null;
  const digests = await digestsOf(chosen.entries()).catch(() => []);
  if (!digests.length) return null;
  const answer = await fetch(`${form.dataset.jobs}?sha256=${digests.join(",")}`, { credentials: "same-origin" }).catch(
    () => null,
  );
  return answer?.ok ? ((await answer.json()).results.at(-1) ?? null) : null;
}

/** @param {{slug: string, name: string}} same */
function offerSame(same) {
  sentAgain = choiceOf(chosen.entries());
  const sentence = `“${visible(same.name)}” has this evidence already. Open that job, or upload it again as a new one.`;
  tell([sentence], "warning");
  const href = `/jobs/${encodeURIComponent(same.slug)}/`;
  errors.append(Object.assign(element("a", "button", "Open that job"), { href }));
  button.textContent = "Upload again";
}

/**
 * The job that the form describes; rejects with a Failure, or with what is wrong with its fields.
 * @param {FormData} data
 */
async function makeJob(data) {
  data.delete("files");
  const response = await fetch(window.location.href, {
    method: "POST",
    body: data,
    credentials: "same-origin",
    headers: { Accept: "application/json" },
  });
  if (response.redirected) throw new Failure(SIGNED_OUT, { isFinal: true });
  const answer = await response.json().catch(() => {
    throw new Failure(`The server answered ${response.status}: try again.`, { isFinal: true });
  });
  if (response.ok) return answer;
  const problems = [{ field: "__all__", detail: answer.detail ?? `The server answered ${response.status}.` }];
  throw Object.assign(new Error("form"), { rows: answer.errors ?? problems });
}

/** @param {string} slug */
function newSending(slug) {
  return new Sending({
    slug,
    address: form.dataset.tus ?? "",
    token,
    chunkBytes: Number(form.dataset.chunk),
    kept,
    onSent: showSent,
    onEnded: (entry) => {
      if (entry.problem && entry.state === "refused") entry.item?.append(element("span", "problem", entry.problem));
      progress();
    },
    onTrouble: progress,
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isBusy) return;
  if (!chosen.files.size) {
    tell(["Choose at least one file."]);
    choose.focus();
    return;
  }
  tell([]);
  const fields = new FormData(form); // before they are disabled: those are not sent
  setBusy(true);
  try {
    job ??= await unendedJob();
    const same = job ? null : await jobWithSameFiles();
    if (same) {
      offerSame(same);
      setBusy(false);
      return;
    }
    job ??= await makeJob(fields);
  } catch (/** @type {any} */ error) {
    if (error.rows) showErrors(error.rows);
    else tell([error.isFinal ? error.message : `The server cannot be reached: ${error.message}`]);
    setBusy(false);
    return;
  }
  if (!job) return;
  setBusy(true); // the job stays: its fields are not asked again
  const choice = choiceOf(chosen.entries());
  kept.note(PENDING, { slug: job.slug, url: job.url, name: name?.value ?? form.dataset.name, choice });
  /** @param {Event} unload */
  const leave = (unload) => unload.preventDefault();
  window.addEventListener("beforeunload", leave);
  sending = newSending(job.slug);
  progress();
  await sending.all(chosen.entries());
  window.removeEventListener("beforeunload", leave);
  const { isStopped } = sending;
  sending = null;
  if (!isStopped) {
    await fetch(`${form.dataset.jobs}${encodeURIComponent(job.slug)}/diagnose/`, {
      method: "POST",
      credentials: "same-origin",
      body: "{}",
      headers: { "X-CSRFToken": token, "Content-Type": "application/json" },
    }).catch(() => null); // it is diagnosed by itself when nothing more comes
    if (!chosen.entries("refused").length) {
      kept.note(PENDING, null);
      window.location.assign(job.url);
      return;
    }
  }
  setBusy(false);
  tellRest(isStopped, job.url);
});

/** @type {(isStopped: boolean, url: string) => void} */
function tellRest(isStopped, url) {
  const all = count(chosen.files.size, "file"),
    refused = chosen.entries("refused");
  status.textContent = "";
  tell([
    isStopped
      ? `Stopped: ${chosen.entries("done").length} of ${all} are there, nothing that arrived is lost.`
      : `${refused.length} of ${all} ${refused.length === 1 ? "was" : "were"} not taken:`,
    ...refused.slice(0, 20).map((entry) => `${entry.path}: ${entry.problem}`),
    ...(refused.length > 20 ? [`and ${refused.length - 20} more, marked in the list`] : []),
  ]);
  button.textContent = isStopped ? "Go on" : "Try these again";
  errors.append(Object.assign(element("a", "button", "Go to the job"), { href: url }));
}

stop.addEventListener("click", () => sending?.stop());

// ---- an upload that a reload or a closed tab interrupted

const pending = kept.of(PENDING),
  /** @type {any} */ offer = document.querySelector("[data-upload-resume]");
if (pending && offer) {
  const isHere = job?.slug === pending.slug;
  offer.querySelector("[data-said]").textContent = isHere
    ? "The upload into this job did not end. Choose the same files again: what has arrived is not sent twice."
    : `The upload into “${pending.name}” did not end. Choose the same files again, and it goes on in the same job.`;
  const go = offer.querySelector("a");
  go.href = `?job=${encodeURIComponent(pending.slug)}`;
  go.hidden = isHere;
  offer.querySelector("button").addEventListener("click", () => {
    kept.note(PENDING, null);
    offer.hidden = true;
  });
  offer.hidden = false;
}
