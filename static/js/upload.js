// The upload page: files and folders are dropped or chosen, the job is made once, the files go up in chunks by tus 1.0
// and go on where they stopped: after a broken connection, after "Stop", after a reload. Without this script the form
// posts everything in one request.
"use strict";

(() => {
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const find = (name) => form.querySelector(`[data-${name}]`);
  const input = form.querySelector("input[type=file]");
  const [drop, list, total, status, errors, stop, tally] = [
    "drop",
    "files",
    "total",
    "status",
    "upload-errors",
    "stop",
    "tally",
  ].map(find);
  const button = form.querySelector("[type=submit]");
  const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
  const chunkBytes = Number(form.dataset.chunk);
  const files = new Map(); // path → {file, sent, state: "" | "done" | "refused", problem, item, remove, bar}
  const RETRIES = 8,
    AT_ONCE = 3,
    ROWS_SHOWN = 500,
    PENDING = "faultline-upload";
  const AGAIN = [409, 423, 429, 502, 503, 504];
  const label = button.textContent;
  let job = form.dataset.slug ? { slug: form.dataset.slug, url: form.dataset.url } : null;
  let isNamed = false; // the name was typed, not guessed
  let run = null; // the upload that goes on now: {calls, isStopped, since, sent}

  const size = (bytes) => {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let n = bytes,
      unit = 0;
    while (n >= 1000 && unit < units.length - 1) {
      n /= 1000;
      unit += 1;
    }
    return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
  };
  const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
  const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  // no character of a file's name turns the direction of text or acts otherwise
  const visible = (text) =>
    text.replace(
      /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu,
      (sign) => `[U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`,
    );
  const element = (tag, className, text = "") =>
    Object.assign(document.createElement(tag), { className, textContent: visible(text) });
  const entries = (state) => [...files.values()].filter((entry) => state === undefined || entry.state === state);
  // a pause that the connection's return, or "Stop", ends early
  const wait = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      const early = () => {
        clearTimeout(timer);
        resolve();
      };
      window.addEventListener("online", early, { once: true });
      stop.addEventListener("click", early, { once: true });
    });
  const kept = (name, value) => {
    // what survives a reload; storage may be switched off
    try {
      if (value === undefined) return JSON.parse(sessionStorage.getItem(name));
      return value === null ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, JSON.stringify(value));
    } catch {
      return null;
    }
  };

  // ---- choosing

  function add(file, path) {
    const old = files.get(path);
    if (old) {
      if (old.state === "done" || (old.file.size === file.size && old.file.lastModified === file.lastModified)) return;
      forget(path);
    }
    const entry = { file, path, sent: 0, state: "", problem: "" };
    files.set(path, entry);
    if (files.size <= ROWS_SHOWN) row(entry);
    const name = form.querySelector("[name=name]");
    if (name && !isNamed && !name.value) name.value = path.split("/")[0].replace(/(\.tar)?\.[a-z0-9]+$/i, "");
    summary();
  }

  function row(entry) {
    const item = document.createElement("li");
    const remove = element("button", "button quiet small", "Remove");
    remove.type = "button";
    remove.setAttribute("aria-label", visible(`Remove ${entry.path}`));
    remove.addEventListener("click", () => {
      const next = item.nextElementSibling ?? item.previousElementSibling;
      forget(entry.path);
      (next?.querySelector("button") ?? find("choose")).focus();
    });
    item.append(element("span", "file-name", entry.path), element("span", "file-size", size(entry.file.size)), remove);
    list.append(item);
    Object.assign(entry, { item, remove });
  }

  function forget(path) {
    files.get(path)?.item?.remove();
    files.delete(path);
    summary();
  }

  function summary() {
    const all = entries();
    tally.hidden = !all.length;
    const hidden = all.filter((entry) => !entry.item).length;
    const bytes = all.reduce((sum, entry) => sum + entry.file.size, 0);
    const listed = hidden ? `; the first ${ROWS_SHOWN} are listed` : "";
    tally.querySelector("span").textContent = `${count(all.length, "file")}, ${size(bytes)}${listed}`;
  }

  async function walk(entry, prefix) {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      add(file, prefix + entry.name);
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      // readEntries gives at most a hundred at a time
      const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!batch.length) return;
      for (const child of batch) await walk(child, `${prefix}${entry.name}/`);
    }
  }

  const folder = Object.assign(document.createElement("input"), {
    type: "file",
    multiple: true,
    hidden: true,
    webkitdirectory: true,
  });
  folder.dataset.testid = "upload-folder";
  drop.append(folder);
  input.hidden = true; // its own "no file chosen" would contradict the list; two buttons stand for it
  const opens = { files: input, folder };
  form.querySelectorAll("[data-choose]").forEach((chooser) => {
    chooser.hidden = false;
    chooser.addEventListener("click", () => opens[chooser.dataset.choose].click());
  });
  drop.addEventListener("click", (event) => {
    if (!run && !event.target.closest("button, input, a")) input.click();
  });
  for (const source of [input, folder])
    source.addEventListener("change", () => {
      for (const file of source.files) add(file, file.webkitRelativePath || file.name);
      source.value = "";
    });
  // Anywhere on the page: a file dropped beside the field would otherwise replace the page by itself.
  let depth = 0;
  const over = (by) => {
    depth = Math.max(0, depth + by);
    drop.classList.toggle("is-over", depth > 0);
  };
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
    if (!holdsFiles(event)) return;
    event.preventDefault();
    over(-depth);
    if (run) return;
    const dropped = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!dropped.length) for (const file of event.dataTransfer.files) add(file, file.name);
    for (const entry of dropped)
      await walk(entry, "").catch((error) => tell([`${entry.name} could not be read: ${error.message}`]));
  });
  form.querySelector("[name=name]")?.addEventListener("input", () => {
    isNamed = true;
  });
  tally.querySelector("button").addEventListener("click", () => {
    for (const path of files.keys()) forget(path);
    find("choose").focus();
  });

  // ---- telling

  function tell(sentences) {
    errors.replaceChildren(...sentences.map((sentence) => element("p", "", sentence)));
    errors.hidden = !sentences.length;
    if (sentences.length) errors.scrollIntoView({ block: "nearest" });
  }

  function left(seconds) {
    if (seconds < 90) return `about ${Math.max(1, Math.round(seconds))} s left`;
    return seconds < 5400 ? `about ${Math.round(seconds / 60)} min left` : `about ${Math.round(seconds / 3600)} h left`;
  }

  function progress(note = "") {
    if (!run) return;
    let sent = 0,
      whole = 0,
      done = 0;
    for (const entry of files.values()) {
      sent += entry.sent;
      whole += entry.file.size;
      done += entry.state === "done";
    }
    total.max = whole || 1;
    total.value = whole ? sent : 1;
    const seconds = (performance.now() - run.since) / 1000,
      went = sent - run.sent;
    const rest = !note && seconds > 3 && went > 0 && sent < whole ? `, ${left(((whole - sent) * seconds) / went)}` : "";
    status.textContent =
      note || `${done.toLocaleString("en")} of ${count(files.size, "file")}, ${size(sent)} of ${size(whole)}${rest}`;
  }

  // ---- sending

  const failure = (text, isFinal = false, seconds = 0) => Object.assign(new Error(text), { isFinal, seconds });
  const SIGNED_OUT = "You are signed out: sign in in another tab, then try again here.";

  // One request by XMLHttpRequest, the only way to see bytes leave. Whatever may pass is told from what stays.
  function send(method, url, headers, body, onProgress) {
    return new Promise((resolve, reject) => {
      const call = new XMLHttpRequest();
      const end = (act) => (value) => {
        run?.calls.delete(call);
        act(value);
      };
      call.open(method, url);
      for (const [name, value] of Object.entries({ "X-CSRFToken": token, "Tus-Resumable": "1.0.0", ...headers }))
        call.setRequestHeader(name, value);
      if (onProgress) call.upload.addEventListener("progress", (event) => onProgress(event.loaded));
      call.addEventListener(
        "load",
        end(() => {
          if (call.status >= 200 && call.status < 300) {
            resolve(call);
            return;
          }
          let said = "";
          try {
            said = JSON.parse(call.responseText).detail;
          } catch {
            /* a proxy's page */
          }
          if (call.status === 401) said = SIGNED_OUT;
          reject(
            Object.assign(
              failure(
                said || `The server answered ${call.status}.`,
                !AGAIN.includes(call.status),
                Number(call.getResponseHeader("Retry-After")) || 0,
              ),
              { status: call.status },
            ),
          );
        }),
      );
      call.addEventListener(
        "error",
        end(() => reject(failure("The connection broke off."))),
      );
      call.addEventListener(
        "abort",
        end(() => reject(failure("Stopped.", true))),
      );
      run?.calls.add(call);
      call.send(body);
    });
  }

  // Until it succeeds, is stopped, or has failed too often.
  async function insist(entry, act) {
    for (let failures = 1; ; failures += 1) {
      if (run.isStopped) throw failure("Stopped.", true);
      try {
        return await act();
      } catch (error) {
        // A browser refuses to read a file that was written to since it was chosen.
        const isReadable = await entry.file
          .slice(0, 1)
          .arrayBuffer()
          .then(
            () => true,
            () => false,
          );
        if (!isReadable) throw failure("The file changed while it was sent: choose it again.", true);
        if (error.isFinal || failures > RETRIES) throw error;
        progress(`${error.message} Trying again…`);
        await wait(error.seconds ? error.seconds * 1000 : Math.min(30000, 500 * 2 ** failures));
      }
    }
  }

  // The address and offset of an upload: the one that was begun before, if the server still has it, or a new one.
  async function begin(entry) {
    const key = `${PENDING}:${job.slug}:${entry.path}:${entry.file.size}:${entry.file.lastModified}`;
    const known = kept(key);
    if (known) {
      const head = await send("HEAD", known, {}).catch((error) => {
        if (error.isFinal) return null;
        throw error;
      });
      if (head) return { url: known, offset: Number(head.getResponseHeader("Upload-Offset")), key };
    }
    if (run.isStopped) throw failure("Stopped.", true);
    const metadata = `job ${base64(job.slug)},path ${base64(entry.path)}`;
    const made = await send("POST", form.dataset.tus, {
      "Upload-Length": String(entry.file.size),
      "Upload-Metadata": metadata,
    });
    const url = made.getResponseHeader("Location");
    if (entry.file.size > chunkBytes) kept(key, url);
    return { url, offset: 0, key };
  }

  async function upload(entry) {
    if (entry.item && !entry.bar) {
      entry.bar = Object.assign(element("progress", ""), { max: entry.file.size || 1, value: 0 });
      entry.bar.setAttribute("aria-label", visible(`Sent of ${entry.path}`));
      entry.item.append(entry.bar);
    }
    const show = (sent) => {
      entry.sent = Math.min(sent, entry.file.size);
      if (entry.bar) entry.bar.value = entry.sent;
      progress();
    };
    const begun = await insist(entry, () => begin(entry));
    let { offset } = begun;
    run.sent += Math.max(0, offset - entry.sent); // what had arrived before tells nothing of the line's speed
    while (offset < entry.file.size) {
      await insist(entry, async () => {
        const headers = { "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" };
        try {
          const call = await send(
            "PATCH",
            begun.url,
            headers,
            entry.file.slice(offset, offset + chunkBytes),
            (loaded) => show(offset + loaded),
          );
          offset = Number(call.getResponseHeader("Upload-Offset"));
        } catch (error) {
          if (!error.isFinal) {
            const head = await send("HEAD", begun.url, {}).catch(() => null);
            if (head) offset = Number(head.getResponseHeader("Upload-Offset"));
          }
          throw error;
        }
      });
    }
    kept(begun.key, null);
    show(entry.file.size);
    if (entry.bar) entry.bar.value = entry.bar.max;
  }

  async function makeJob() {
    const data = new FormData(form);
    data.delete("files");
    const response = await fetch(window.location.href, {
      method: "POST",
      body: data,
      credentials: "same-origin",
      headers: { Accept: "application/json" },
    });
    if (response.redirected) throw failure(SIGNED_OUT, true);
    const answer = await response.json().catch(() => {
      throw failure(`The server answered ${response.status}: try again.`, true);
    });
    if (response.ok) return answer;
    throw Object.assign(new Error("form"), {
      rows: answer.errors ?? [{ field: "__all__", detail: answer.detail ?? `The server answered ${response.status}.` }],
    });
  }

  function showErrors(rows) {
    for (const old of form.querySelectorAll(".errorlist")) old.remove();
    for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
    const rest = [];
    for (const { field, detail } of rows) {
      const target = form.querySelector(`[name="${field}"]`);
      if (!target || field === "__all__") {
        rest.push(detail);
        continue;
      }
      target.closest("details")?.setAttribute("open", "");
      const errorList = element("ul", "errorlist");
      errorList.append(element("li", "", detail));
      target.closest(".field")?.append(errorList);
      target.setAttribute("aria-invalid", "true");
    }
    tell(rest.length || !rows.length ? rest : ["Some fields need another look."]);
    form.querySelector("[aria-invalid=true]")?.focus();
  }

  // Sends what is not there yet, a few files at a time.
  async function sendAll() {
    const queue = [...files.values()].filter((entry) => entry.state !== "done");
    for (const entry of queue) {
      entry.state = "";
      entry.item?.querySelector(".problem")?.remove();
    }
    const worker = async () => {
      for (let entry = queue.shift(); entry; entry = queue.shift()) {
        if (run.isStopped) return;
        try {
          await upload(entry);
          entry.state = "done";
        } catch (error) {
          if (run.isStopped) return;
          Object.assign(entry, { state: "refused", problem: error.message });
          entry.item?.append(element("span", "problem", error.message));
        }
        progress();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  function busy(is) {
    for (const part of [total, stop]) part.hidden = !is;
    button.disabled = is;
    for (const chooser of form.querySelectorAll("[data-choose], [data-tally] button")) chooser.disabled = is;
    for (const entry of files.values()) if (entry.remove) entry.remove.hidden = is || entry.state === "done";
    const fields = find("job");
    if (fields) fields.disabled = Boolean(job);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (run) return;
    if (!files.size) {
      tell(["Choose at least one file."]);
      find("choose").focus();
      return;
    }
    tell([]);
    run = {
      calls: new Set(),
      isStopped: false,
      since: performance.now(),
      sent: entries().reduce((sum, entry) => sum + entry.sent, 0),
    };
    const data = job ? null : makeJob(); // before its fields are disabled: those are not sent
    busy(true);
    try {
      job ??= await data;
    } catch (error) {
      if (error.rows) showErrors(error.rows);
      else tell([error.isFinal ? error.message : `The server cannot be reached: ${error.message}`]);
      run = null;
      busy(false);
      return;
    }
    busy(true);
    kept(PENDING, { slug: job.slug, name: form.querySelector("[name=name]")?.value ?? form.dataset.name });
    const leave = (unload) => unload.preventDefault();
    window.addEventListener("beforeunload", leave);
    progress();
    await sendAll();
    window.removeEventListener("beforeunload", leave);
    const { isStopped } = run,
      refused = entries("refused"),
      done = entries("done").length;
    run = null;
    if (!isStopped) {
      await fetch(`${form.dataset.jobs}${encodeURIComponent(job.slug)}/diagnose/`, {
        method: "POST",
        credentials: "same-origin",
        body: "{}",
        headers: { "X-CSRFToken": token, "Content-Type": "application/json" },
      }).catch(() => null); // it is diagnosed by itself when nothing more comes
      if (!refused.length) {
        kept(PENDING, null);
        window.location.assign(job.url);
        return;
      }
    }
    busy(false);
    status.textContent = "";
    const first = isStopped
      ? `Stopped: ${done} of ${count(files.size, "file")} are there, nothing that arrived is lost.`
      : `${refused.length} of ${count(files.size, "file")} were not taken:`;
    tell([
      first,
      ...refused.slice(0, 20).map((entry) => `${entry.path}: ${entry.problem}`),
      ...(refused.length > 20 ? [`and ${refused.length - 20} more, marked in the list`] : []),
    ]);
    button.textContent = isStopped ? "Go on" : "Try these again";
    errors.append(Object.assign(element("a", "button", "Go to the job"), { href: job.url }));
  });
  stop.addEventListener("click", () => {
    if (!run) return;
    run.isStopped = true;
    for (const call of run.calls) call.abort();
  });

  // ---- an upload that a reload interrupted

  const pending = kept(PENDING),
    offer = document.querySelector("[data-upload-resume]");
  if (pending && offer) {
    const here = job?.slug === pending.slug;
    offer.querySelector("[data-said]").textContent = here
      ? "The upload into this job did not end. Choose the same files again: what has arrived is not sent twice."
      : `The upload into “${pending.name}” did not end.`;
    const go = offer.querySelector("a");
    go.href = `?job=${encodeURIComponent(pending.slug)}`;
    go.hidden = here;
    offer.querySelector("button").addEventListener("click", () => {
      kept(PENDING, null);
      offer.hidden = true;
    });
    offer.hidden = false;
  } else if (!job) button.textContent = label;
})();
