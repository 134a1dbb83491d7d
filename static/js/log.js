// The log page: #L120-L134 marks lines (loading their window when it is not here), shift-click makes a range, search walks the bytes.
(() => {
  const range = () => { const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash); return found && [Number(found[1]), Number(found[2] || found[1])].sort((a, b) => a - b); };
  const mark = () => {
    document.querySelectorAll("tr.is-marked").forEach((row) => row.classList.remove("is-marked"));
    const wanted = range();
    if (!wanted) return;
    const first = document.getElementById(`L${wanted[0]}`);
    if (!first) {
      const at = new URL(location.href);
      if (at.searchParams.get("line") === String(wanted[0])) return;
      at.search = `?line=${wanted[0]}`;
      location.replace(at);
      return;
    }
    for (let no = wanted[0]; no <= Math.min(wanted[1], wanted[0] + 5000); no += 1) document.getElementById(`L${no}`)?.classList.add("is-marked");
    first.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", mark);
  mark();

  document.addEventListener("click", (event) => {
    const link = event.target.closest(".no a");
    if (!link) return;
    const no = Number(link.textContent);
    const now = range();
    if (event.shiftKey && now) { event.preventDefault(); location.hash = `#L${Math.min(now[0], no)}-L${Math.max(now[1], no)}`; }
    else if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); history.replaceState(null, "", link.href); mark(); }
  });

  const form = document.querySelector("[data-find]");
  const list = document.querySelector("[data-find-results]");
  const said = document.querySelector("[data-find-said]");
  const stop = document.querySelector("[data-find-stop]");
  let walk;
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const words = form.querySelector("input").value;
    walk?.abort();
    const mine = walk = new AbortController();
    list.replaceChildren();
    list.hidden = false;
    stop.hidden = false;
    let offset = 0, count = 0;
    try {
      while (offset !== null && count < 500) {
        const answer = await (await fetch(`${form.dataset.find}?${new URLSearchParams({ words, offset })}`, { signal: mine.signal })).json();
        for (const hit of answer.lines) {
          const link = Object.assign(document.createElement("a"), { href: `${form.dataset.base}?line=${hit.line}#L${hit.line}`, textContent: `${hit.line}` });
          const item = document.createElement("li");
          item.append(link, " ", Object.assign(document.createElement("code"), { textContent: hit.text }));
          list.append(item);
        }
        count += answer.lines.length;
        offset = answer.next;
        said.textContent = `${count} found, ${answer.size ? Math.floor(100 * answer.done / answer.size) : 100} % searched`;
      }
    } catch (error) { if (error.name !== "AbortError") said.textContent = "The search failed: try again."; }
    if (walk === mine) stop.hidden = true;
  });
  stop?.addEventListener("click", () => { walk?.abort(); stop.hidden = true; said.textContent += ", stopped"; });
})();
