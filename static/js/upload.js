// The upload page: files are dropped or chosen, the job is made, then each file goes up in chunks by tus 1.0 and continues
// where it stopped when the connection breaks. Without this script the form posts everything in one request.
"use strict";

(() => {
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  const drop = form.querySelector("[data-drop]");
  const list = form.querySelector("[data-files]");
  const total = form.querySelector("[data-total]");
  const status = form.querySelector("[data-status]");
  const errors = form.querySelector("[data-upload-errors]");
  const button = form.querySelector("[type=submit]");
  const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
  const chunkBytes = Number(form.dataset.chunk);
  const files = new Map(); // path → {file, item, sent}
  const RETRIES = 8;
  form.classList.add("has-script");

  const size = (bytes) => {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let n = bytes, unit = 0;
    while (n >= 1000 && unit < units.length - 1) { n /= 1000; unit += 1; }
    return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
  };
  const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const element = (tag, className, text = "") => {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  };

  function add(file, path) {
    if (files.has(path)) return;
    const item = document.createElement("li");
    const remove = element("button", "button quiet small", "Remove");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${path}`);
    remove.addEventListener("click", () => { files.delete(path); item.remove(); });
    item.append(element("span", "file-name", path), element("span", "file-size", size(file.size)), remove);
    list.append(item);
    files.set(path, { file, item, sent: 0, remove });
    const name = form.querySelector("[name=name]");
    if (name && !name.value) name.value = path.split("/")[0].replace(/(\.tar)?\.[a-z0-9]+$/i, "");
  }

  async function walk(entry, prefix) {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      add(file, prefix + entry.name);
      return;
    }
    const reader = entry.createReader();
    for (;;) { // readEntries gives at most a hundred at a time
      const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!batch.length) return;
      for (const child of batch) await walk(child, `${prefix}${entry.name}/`);
    }
  }

  input.addEventListener("change", () => {
    for (const file of input.files) add(file, file.webkitRelativePath || file.name);
    input.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("is-over"); });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("is-over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!entries.length) for (const file of event.dataTransfer.files) add(file, file.name);
    for (const entry of entries) await walk(entry, "");
  });

  function tell(sentences) {
    errors.replaceChildren(...sentences.map((sentence) => element("p", "", sentence)));
    errors.hidden = !sentences.length;
    if (sentences.length) errors.scrollIntoView({ block: "nearest" });
  }

  function progress() {
    let sent = 0, whole = 0;
    for (const entry of files.values()) { sent += entry.sent; whole += entry.file.size; }
    total.hidden = false;
    total.max = whole || 1;
    total.value = whole ? sent : 1;
    status.textContent = `${size(sent)} of ${size(whole)}`;
  }

  async function request(method, url, headers, body) {
    return fetch(url, { method, body, credentials: "same-origin",
      headers: { "X-CSRFToken": token, "Tus-Resumable": "1.0.0", ...headers } });
  }

  async function sentence(response) {
    try { return (await response.json()).detail; } catch { return `The server answered ${response.status}.`; }
  }

  // One chunk by XMLHttpRequest, the only way to see bytes leave; the answer's status and new offset come back.
  function send(url, offset, blob, onProgress) {
    return new Promise((resolve, reject) => {
      const call = new XMLHttpRequest();
      call.open("PATCH", url);
      const headers = { "X-CSRFToken": token, "Tus-Resumable": "1.0.0", "Upload-Offset": String(offset),
        "Content-Type": "application/offset+octet-stream" };
      for (const [name, value] of Object.entries(headers)) call.setRequestHeader(name, value);
      call.upload.addEventListener("progress", (event) => onProgress(offset + event.loaded));
      call.addEventListener("load", () => resolve(call));
      call.addEventListener("error", () => reject(new Error("The connection broke off.")));
      call.send(blob);
    });
  }

  async function begin(slug, path, file) {
    const metadata = `job ${base64(slug)},path ${base64(path)}`;
    const response = await request("POST", form.dataset.tus, { "Upload-Length": String(file.size), "Upload-Metadata": metadata });
    if (response.status !== 201) throw Object.assign(new Error(await sentence(response)), { isFinal: true });
    return response.headers.get("Location");
  }

  async function upload(slug, path, entry) {
    const bar = element("progress", "");
    bar.max = entry.file.size || 1;
    bar.value = 0;
    entry.item.append(bar);
    const url = await begin(slug, path, entry.file);
    let offset = 0, failures = 0;
    while (offset < entry.file.size) {
      try {
        const call = await send(url, offset, entry.file.slice(offset, offset + chunkBytes), (sent) => {
          entry.sent = Math.min(sent, entry.file.size);
          bar.value = entry.sent;
          progress();
        });
        if (call.status === 204) {
          offset = Number(call.getResponseHeader("Upload-Offset"));
          failures = 0;
        } else if ([409, 423, 429, 502, 503, 504].includes(call.status)) {
          throw new Error(JSON.parse(call.responseText || "{}").detail || `The server answered ${call.status}.`);
        } else {
          const detail = JSON.parse(call.responseText || "{}").detail;
          throw Object.assign(new Error(detail || `The server answered ${call.status}.`), { isFinal: true });
        }
      } catch (error) {
        failures += 1;
        // A browser refuses to read a file that was written to since it was chosen.
        const isReadable = await entry.file.slice(0, 1).arrayBuffer().then(() => true, () => false);
        if (!isReadable) throw new Error("The file changed while it was sent: choose it again.");
        if (error.isFinal || failures > RETRIES) throw error;
        status.textContent = `${error.message} Trying again…`;
        await wait(Math.min(30000, 500 * 2 ** failures));
        const head = await request("HEAD", url, {}).catch(() => null);
        if (head?.ok) offset = Number(head.headers.get("Upload-Offset"));
      }
    }
    entry.sent = entry.file.size;
    bar.value = bar.max;
    progress();
  }

  async function makeJob() {
    const data = new FormData(form);
    data.delete("files");
    const response = await fetch(window.location.href, { method: "POST", body: data, credentials: "same-origin",
      headers: { Accept: "application/json" } });
    const answer = await response.json();
    if (response.ok) return answer;
    throw Object.assign(new Error("form"), { rows: answer.errors });
  }

  function showErrors(rows) {
    for (const old of form.querySelectorAll(".errorlist")) old.remove();
    const rest = [];
    for (const { field, detail } of rows) {
      const target = form.querySelector(`[name="${field}"]`);
      if (!target || field === "__all__") { rest.push(detail); continue; }
      target.closest("details")?.setAttribute("open", "");
      const errorList = element("ul", "errorlist");
      errorList.append(element("li", "", detail));
      target.closest(".field")?.append(errorList);
      target.setAttribute("aria-invalid", "true");
    }
    tell(rest.length || !rows.length ? rest : ["Some fields need another look."]);
    form.querySelector("[aria-invalid=true]")?.focus();
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!files.size) { tell(["Choose at least one file."]); input.focus(); return; }
    tell([]);
    button.disabled = true;
    for (const entry of files.values()) entry.remove.hidden = true;
    const leave = (unload) => unload.preventDefault();
    let job;
    try {
      job = await makeJob();
    } catch (error) {
      if (error.rows) showErrors(error.rows); else tell([`The server cannot be reached: ${error.message}`]);
      button.disabled = false;
      for (const entry of files.values()) entry.remove.hidden = false;
      return;
    }
    window.addEventListener("beforeunload", leave);
    const refused = [];
    for (const [path, entry] of files) {
      try {
        await upload(job.slug, path, entry);
      } catch (error) {
        refused.push(`${path}: ${error.message}`);
        entry.item.append(element("span", "problem", error.message));
      }
    }
    window.removeEventListener("beforeunload", leave);
    await request("POST", `${form.dataset.jobs}${encodeURIComponent(job.slug)}/diagnose/`, { "Content-Type": "application/json" }, "{}")
      .catch(() => null); // it is diagnosed by itself when nothing more comes
    if (!refused.length) { window.location.assign(job.url); return; }
    tell([`${refused.length} of ${files.size} files were not taken:`, ...refused]);
    const go = element("a", "button", "Go to the job");
    go.href = job.url;
    errors.append(go);
  });
})();
