// The timeline of a job: a lane a node, coloured by stage, marks on it, the time of iterations below.
import { written } from "../clock.js";
import { FEW_TICKS, LEGEND_BENEATH, axis, colour, frame } from "./look.js";

// by name: each stage has the same colour on every page, and consecutive stages differ
/** @type {Record<string, string>} */
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
/** @param {string} name */
const stageColour = (name) => colour(STAGE_COLOURS[name] ?? "muted");
/** @type {Record<string, string>} */
const STAGE_MEANS = { silent: ": no more lines", no_progress: ": training without a step" };
/** @param {string} name */
const stageWords = (name) => name.replace("_", " ");
const STAGE_OPACITY = 0.42;
const ROLE = {
  root: ["red", "triangle-down"],
  cascade: ["amber", "circle"],
  confirmation: ["blue", "diamond"],
  teardown: ["muted", "x-thin-open"],
};

/**
 * What the site sends of a timeline; times in ms since the epoch.
 * @typedef {object} Timeline
 * @property {number} t0
 * @property {number} t1
 * @property {string[]} stages
 * @property {string[]} nodes
 * @property {number[][]} z a row a node; the stage of each column, negative where nothing is known
 * @property {{row: number, t: number, role: string, text: string, url: string}[]} marks
 * @property {{row: number, t: number}[]} last_steps
 * @property {{t: number[], seconds: number[], n: number[]}} iterations
 */

/**
 * The traces and the layout.
 * @type {(data: Timeline, box: HTMLElement) => [Record<string, any>[], Record<string, any>]}
 */
export function timeline(data, box) {
  const n = data.stages.length;
  const scale = data.stages.flatMap((name, i) => {
    const c = stageColour(name);
    return [
      [i / n, c],
      [(i + 1) / n, c],
    ];
  });
  const width = (data.t1 - data.t0) / data.z[0].length;
  const x = data.z[0].map((_, i) => written(data.t0 + width * (i + 0.5)));
  /** @type {Record<string, any>[]} */
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
          x: marks.map((m) => written(m.t)),
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
      x: data.last_steps.map((m) => written(m.t)),
      y: data.last_steps.map((m) => m.row),
      text: data.last_steps.map((m) => `${data.nodes[m.row]}  last step`),
      hovertemplate: "%{text}<br>%{x|%H:%M:%S}<extra></extra>",
      marker: { symbol: "line-ns", size: data.nodes.length < 60 ? 14 : 6, line: { width: 2, color: colour("text") } },
    });
  const used = new Set(data.z.flat());
  for (const name of data.stages.filter((_, i) => used.has(i)))
    traces.push({
      type: "scatter",
      mode: "markers",
      name: stageWords(name),
      x: [null],
      y: [null],
      marker: { symbol: "square", size: 11, color: stageColour(name), opacity: STAGE_OPACITY },
      hoverinfo: "skip",
    });
  const hasIterations = data.iterations.t.length > 1 && "keys" in box.dataset;
  if (hasIterations)
    traces.push({
      type: "scatter",
      mode: "lines",
      name: "iteration time",
      yaxis: "y2",
      x: data.iterations.t.map(written),
      y: data.iterations.seconds,
      customdata: data.iterations.n,
      hovertemplate: "iteration %{customdata}<br>%{y:.2f} s<extra></extra>",
      line: { color: colour("accent"), width: 1.5, shape: "vh" },
    }); // an iteration took its seconds until it ended
  const isWide = box.clientWidth > LEGEND_BENEATH;
  const height = Number(box.dataset.height) + (isWide ? 0 : 64); // the page keeps both free (`.chart-room`)
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
        ...(box.clientWidth <= FEW_TICKS ? { nticks: 4, tickangle: 0 } : {}),
        range: [written(data.t0), written(data.t1)],
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
        title: { text: box.clientWidth > FEW_TICKS ? "s / iteration" : "", font: { size: 11 } },
        rangemode: "tozero",
      }),
    }),
  ];
}
