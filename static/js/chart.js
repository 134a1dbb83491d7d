// Charts: loads plotly only where a chart comes into view, draws what its URL answers, in the page's colours.
(() => {
  const source =
    document.currentScript?.dataset.plotly ?? document.querySelector("script[data-plotly]")?.dataset.plotly;
  let library;
  const load = () =>
    (library ??= new Promise((done, fail) => {
      if (window.Plotly) {
        done();
        return;
      }
      const script = Object.assign(document.createElement("script"), {
        src: source,
        onload: () => done(),
        onerror: () => fail(new Error("plotly")),
      });
      document.head.append(script);
    }));
  const probe = document.createElement("i");
  const colour = (name) => {
    probe.className = "";
    document.body.append(probe);
    probe.style.color = `var(--${name})`;
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };
  // by name: each stage looks the same on every page, and no two that follow each other look alike
  const STAGE_COLOURS = {
    silent: "text",
    no_progress: "red",
    launch: "violet",
    rendezvous: "blue",
    model_build: "brown",
    checkpoint_load: "pink",
    training: "green",
    evaluation: "accent",
    checkpoint_save: "amber",
    shutdown: "cyan",
  };
  const stageColour = (name) => colour(STAGE_COLOURS[name] ?? "muted");
  const STAGE_MEANS = { silent: ": no more lines", no_progress: ": training without a step" };
  const stageWords = (name) => name.replace("_", " ");
  const STAGE_OPACITY = 0.42;
  const ROLE = {
    root: ["red", "triangle-down"],
    cascade: ["amber", "circle"],
    confirmation: ["blue", "diamond"],
    teardown: ["muted", "x-thin-open"],
  };

  const frame = (extra) => ({
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("text") },
    margin: { l: 8, r: 12, t: 8, b: 32 },
    hoverlabel: {
      bgcolor: colour("raised"),
      bordercolor: colour("line-strong"),
      font: { color: colour("text"), family: "monospace", size: 12 },
    },
    colorway: ["accent", "red", "amber", "green", "violet", "blue", "muted"].map(colour),
    ...extra,
  });
  const axis = (extra) => ({
    gridcolor: colour("line"),
    linecolor: colour("line-strong"),
    zerolinecolor: colour("line"),
    automargin: true,
    ...extra,
  });

  // plotly draws Date objects in the reader's zone; a string without one stays as it is: UTC, like the rest of the page
  const utc = (ms) => new Date(ms).toISOString().replace("T", " ").replace("Z", "");

  const instant = (text) => Date.parse(String(text).length > 10 ? `${String(text).replace(" ", "T")}Z` : text);

  function timeline(data, box) {
    const n = data.stages.length;
    const scale = data.stages.flatMap((name, i) => {
      const c = stageColour(name);
      return [
        [i / n, c],
        [(i + 1) / n, c],
      ];
    });
    const width = (data.t1 - data.t0) / data.z[0].length;
    const x = data.z[0].map((_, i) => utc(data.t0 + width * (i + 0.5)));
    const traces = [
      {
        type: "heatmap",
        x,
        y: data.nodes.map((_, i) => i),
        z: data.z.map((row) => row.map((v) => (v < 0 ? null : v))),
        colorscale: scale,
        zmin: -0.5,
        zmax: n - 0.5,
        showscale: false,
        opacity: STAGE_OPACITY,
        ygap: data.nodes.length < 60 ? 2 : 0.01, // at 0 a style is set that the policy forbids
        text: data.z.map((row, r) =>
          row.map((v) =>
            v < 0 ? "" : `${data.nodes[r]}  ${stageWords(data.stages[v])}${STAGE_MEANS[data.stages[v]] ?? ""}`,
          ),
        ),
        hovertemplate: "%{text}<br>%{x|%H:%M:%S}<extra></extra>",
      },
    ];
    Object.entries(ROLE)
      .reverse()
      .forEach(([role, [tone, symbol]], place) => {
        // roots are drawn last: nothing hides them
        const marks = data.marks.filter((mark) => mark.role === role);
        if (marks.length)
          traces.push({
            type: "scatter",
            mode: "markers",
            name: role,
            legendrank: 1000 - place,
            x: marks.map((m) => utc(m.t)),
            y: marks.map((m) => m.row),
            customdata: marks.map((m) => m.url),
            text: marks.map((m) => `${data.nodes[m.row]}  ${role}<br>${m.text.replace(/[<>&]/g, " ")}`),
            hovertemplate: "%{text}<br>%{x|%H:%M:%S}<extra></extra>",
            cliponaxis: false,
            marker: {
              color: colour(tone),
              symbol,
              size: role === "root" ? 12 : 8,
              line: { width: 1, color: colour("surface") },
            },
          });
      });
    if (data.last_steps.length)
      traces.push({
        type: "scatter",
        mode: "markers",
        name: "last step",
        x: data.last_steps.map((m) => utc(m.t)),
        y: data.last_steps.map((m) => m.row),
        text: data.last_steps.map((m) => `${data.nodes[m.row]}  last step`),
        hovertemplate: "%{text}<br>%{x|%H:%M:%S}<extra></extra>",
        marker: { symbol: "line-ns", size: data.nodes.length < 60 ? 14 : 6, line: { width: 2, color: colour("text") } },
      });
    const used = new Set(data.z.flat());
    const stages = data.stages.map((name, i) => [name, i]).filter(([, i]) => used.has(i));
    for (const [name] of stages)
      traces.push({
        type: "scatter",
        mode: "markers",
        name: stageWords(name),
        x: [null],
        y: [null],
        marker: { symbol: "square", size: 11, color: stageColour(name), opacity: STAGE_OPACITY },
        hoverinfo: "skip",
      });
    const hasIterations = data.iterations.t.length > 1 && Number(box.dataset.height) > 300;
    if (hasIterations)
      traces.push({
        type: "scatter",
        mode: "lines",
        name: "iteration time",
        yaxis: "y2",
        x: data.iterations.t.map(utc),
        y: data.iterations.seconds,
        customdata: data.iterations.n,
        hovertemplate: "iteration %{customdata}<br>%{y:.2f} s<extra></extra>",
        line: { color: colour("accent"), width: 1.5, shape: "vh" },
      }); // an iteration took its seconds until it ended
    // tall charts grow with their rows; names stand as close as they can be read
    const isWide = box.clientWidth > 640,
      asked = Number(box.dataset.height) || 320;
    const height =
      (asked > 300
        ? Math.min(640, 160 + Math.max(80, 25 * Math.min(8, data.nodes.length), 13 * data.nodes.length))
        : asked) + (isWide ? 0 : 64);
    const lanes = (height - (isWide ? 60 : 124)) * (hasIterations ? 0.68 : 1);
    const step = Math.max(1, Math.ceil((data.nodes.length * 14) / Math.max(lanes, 14)));
    const ticks = data.nodes.map((_, i) => i).filter((i) => i % step === 0);
    return [
      traces,
      frame({
        height,
        showlegend: true,
        legend: {
          orientation: "h",
          font: { size: 11 },
          x: 0,
          itemclick: false,
          itemdoubleclick: false,
          ...(isWide
            ? { y: 1.02, yanchor: "bottom" }
            : { y: -58 / height, yanchor: "top", entrywidth: 0.48, entrywidthmode: "fraction" }),
        },
        margin: { l: 8, r: 12, t: isWide ? 28 : 8, b: 32 },
        hovermode: "closest",
        dragmode: "zoom",
        xaxis: axis({
          type: "date",
          showspikes: true,
          spikemode: "across",
          spikesnap: "cursor",
          spikethickness: 1,
          spikedash: "dot",
          spikecolor: colour("muted"),
          ...(box.clientWidth < 560 ? { nticks: 4, tickangle: 0 } : {}),
          range: [utc(data.t0), utc(data.t1)],
          fixedrange: false,
          anchor: hasIterations ? "y2" : "y",
        }),
        yaxis: axis({
          range: [data.nodes.length - 0.5, -0.5],
          fixedrange: true,
          showgrid: false,
          zeroline: false,
          tickvals: ticks,
          ticktext: ticks.map((i) => data.nodes[i]),
          tickfont: { family: "monospace", size: 11 },
          domain: hasIterations ? [0.32, 1] : [0, 1],
        }),
        yaxis2: axis({
          domain: [0, 0.24],
          fixedrange: true,
          nticks: 4,
          title: { text: box.clientWidth > 560 ? "s / iteration" : "", font: { size: 11 } },
          rangemode: "tozero",
        }),
      }),
    ];
  }

  function urlOf(box, range) {
    const at = new URL(box.dataset.chartUrl, location.href);
    const here = new URLSearchParams(location.search);
    const [t0, t1] = range ?? [here.get("t0"), here.get("t1")];
    if (t0 && t1 && "keys" in box.dataset) {
      at.searchParams.set("t0", t0);
      at.searchParams.set("t1", t1);
    }
    return at;
  }

  // A chart's data stands in the page (data-chart names a JSON script) or is fetched (data-chart-url).
  async function dataOf(box, range) {
    if (box.dataset.chart) return JSON.parse(document.getElementById(box.dataset.chart).textContent);
    const answer = await fetch(urlOf(box, range));
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  }

  async function draw(box, range) {
    try {
      const [data] = await Promise.all([dataOf(box, range), load()]);
      if (data.empty) {
        box.replaceChildren(
          Object.assign(document.createElement("p"), { className: "chart-wait muted", textContent: data.empty }),
        );
        return;
      }
      const isTimeline = "z" in data;
      for (const trace of data.data ?? [])
        // plotly names no tick in a hover
        if (trace.type === "heatmap" && trace.meta) trace.text = trace.z.map((row, r) => row.map(() => trace.meta[r]));
      const [traces, layout] = isTimeline ? timeline(data, box) : [data.data, frame(themed(data.layout ?? {}, box))];
      if (isOnPaper) layout.width = PAPER_PX;
      if (!box.querySelector(".js-plotly-plot, .plot-container")) box.replaceChildren();
      if (layout.height) box.style.height = `${layout.height + 8}px`; // its padding
      await window.Plotly.react(box, traces, layout, { displayModeBar: false, responsive: true, displaylogo: false });
      if (!box.dataset.wired) wire(box);
      box.dataset.wired = "1";
      box.whole = data.whole;
      box.setAttribute("role", "img");
      box.setAttribute(
        "aria-label",
        isTimeline ? `Timeline of ${data.lanes} nodes with ${data.marks.length} marks` : (data.label ?? "Chart"),
      );
    } catch {
      box.replaceChildren(
        Object.assign(document.createElement("p"), {
          className: "chart-wait problem",
          textContent: "The chart could not be drawn: reload the page to try again.",
        }),
      );
    }
  }
  // Paper is white and narrow, whatever the screen is: charts are drawn for it, and for the screen again afterwards.
  const PAPER_PX = 660;
  let isOnPaper = false,
    chosen;
  const print = (is) => {
    isOnPaper = is;
    const root = document.documentElement;
    if (is) {
      chosen = root.dataset.theme;
      root.dataset.theme = "light";
    } else if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    // without a width plotly keeps the one it drew with last
    document
      .querySelectorAll(".chart[data-wired]")
      .forEach((box) => draw(box).then(() => isOnPaper || window.Plotly.Plots.resize(box)));
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  // those below the fold are not drawn before they are asked for
  document.addEventListener("prepareprint", (event) => {
    event.detail.push(
      ...[...document.querySelectorAll(".chart[data-watched]:not([data-wired])")].map((box) => draw(box)),
    );
  });
  const themed = (layout, box) => {
    const done = { ...layout };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) done[name] = axis(layout[name]);
    if (done.xaxis?.type === "date" && box.clientWidth < 560) Object.assign(done.xaxis, { nticks: 4, tickangle: 0 });
    // long names under bars leave a phone no room for the bars; the table beneath has them in the same order
    if (done.xaxis?.tickangle && box.clientWidth < 480) done.xaxis.showticklabels = false;
    done.xaxis ??= axis({});
    done.yaxis ??= axis({});
    if (box.dataset.height) done.height = Number(box.dataset.height);
    return done;
  };

  // what else shows the range: the tabs' links, and the events, which are asked for anew when the zooming rests
  let rest;
  const follow = (at) => {
    document.querySelectorAll("a[data-tab]").forEach((tab) => {
      const to = new URL(tab.href);
      for (const name of ["t0", "t1"]) {
        const value = at.searchParams.get(name);
        if (value) to.searchParams.set(name, value);
        else to.searchParams.delete(name);
      }
      tab.href = to;
    });
    clearTimeout(rest);
    if (document.getElementById("events"))
      rest = setTimeout(
        () => window.htmx?.ajax("GET", location.href, { target: "#events", select: "#events", swap: "outerHTML" }),
        400,
      );
  };

  function wire(box) {
    box.on("plotly_click", (event) => {
      const url = event.points
        .map((point) => point.customdata)
        .find((value) => typeof value === "string" && value.startsWith("/"));
      if (url) location.assign(url);
    });
    if (!("keys" in box.dataset)) return;
    const reset = box.closest(".panel")?.querySelector("[data-chart-reset]");
    if (reset) {
      reset.hidden = !new URLSearchParams(location.search).get("t0");
      reset.addEventListener("click", () => {
        go(null, null);
        box.focus();
      });
    }
    const go = (t0, t1) => {
      if (reset) reset.hidden = t0 === null;
      const at = new URL(location.href);
      if (t0 === null) {
        at.searchParams.delete("t0");
        at.searchParams.delete("t1");
      } else {
        at.searchParams.set("t0", (t0 / 1000).toFixed(3));
        at.searchParams.set("t1", (t1 / 1000).toFixed(3));
      }
      history.replaceState(null, "", at);
      follow(at);
      draw(box, t0 === null ? [null, null] : [String(t0 / 1000), String(t1 / 1000)]);
    };
    box.on("plotly_relayout", (event) => {
      if (event["xaxis.autorange"]) go(null, null);
      else if (event["xaxis.range[0]"]) go(instant(event["xaxis.range[0]"]), instant(event["xaxis.range[1]"]));
    });
    box.tabIndex = 0;
    box.addEventListener("keydown", (event) => {
      const [a, b] = box.layout.xaxis.range.map(instant);
      const span = b - a;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const left = [a - span / 4, b - span / 4],
        right = [a + span / 4, b + span / 4],
        near = [a + span / 4, b - span / 4],
        far = [a - span / 2, b + span / 2];
      const to = {
        ArrowLeft: left,
        a: left,
        ArrowRight: right,
        d: right,
        "+": near,
        "=": near,
        w: near,
        "-": far,
        s: far,
        0: [null, null],
      }[event.key];
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      if (to[0] === null) {
        go(null, null);
        return;
      }
      go(Math.max(to[0], box.whole[0]), Math.min(to[1], box.whole[1]));
    });
  }

  const seen = new IntersectionObserver(
    (entries) =>
      entries.forEach((entry) => {
        if (entry.isIntersecting) {
          seen.unobserve(entry.target);
          draw(entry.target);
        }
      }),
    { rootMargin: "200px" },
  );
  const watch = () =>
    document.querySelectorAll(".chart:is([data-chart-url], [data-chart]):not([data-watched])").forEach((box) => {
      box.dataset.watched = "1";
      seen.observe(box);
    });
  watch();
  document.addEventListener("htmx:after:settle", watch);
  document.addEventListener("themechange", () =>
    document.querySelectorAll(".chart[data-wired]").forEach((box) => draw(box)),
  );
})();
