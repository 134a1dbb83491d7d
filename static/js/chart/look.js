// The page's colours and type in a chart.

/** Widths in pixels below which a chart shows fewer ticks, no long names under bars, its legend beneath. */
export const [NO_NAMES, FEW_TICKS, LEGEND_BENEATH] = [480, 560, 640];
export const BREADTHS = [NO_NAMES, FEW_TICKS, LEGEND_BENEATH];

const probe = document.createElement("i");
/**
 * What the site sends for a chart, as plotly draws it.
 * @typedef {object} Figure
 * @property {Record<string, any>[]} [data]
 * @property {Record<string, any>} [layout]
 */

/** @type {(name: string) => string} the value of the page's colour of this name */
export const colour = (name) => {
  probe.className = "";
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
};

/** @type {(extra: Record<string, any>) => Record<string, any>} */
export const frame = (extra) => ({
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

/** @type {(extra: Record<string, any>) => Record<string, any>} */
export const axis = (extra) => ({
  gridcolor: colour("line"),
  linecolor: colour("line-strong"),
  zerolinecolor: colour("line"),
  automargin: true,
  ...extra,
});

/** @type {(layout: Record<string, any>, box: HTMLElement) => Record<string, any>} */
export const themed = (layout, box) => {
  /** @type {Record<string, any>} */
  const done = { ...layout };
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) done[name] = axis(layout[name]);
  if (done.xaxis?.type === "date" && box.clientWidth <= FEW_TICKS)
    Object.assign(done.xaxis, { nticks: 4, tickangle: 0 });
  // long names under bars leave a phone no room for the bars; the table beneath has them in the same order
  if (done.xaxis?.tickangle && box.clientWidth <= NO_NAMES) done.xaxis.showticklabels = false;
  done.xaxis ??= axis({});
  done.yaxis ??= axis({});
  if (box.dataset.height) done.height = Number(box.dataset.height);
  return done;
};
