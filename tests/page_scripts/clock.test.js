// Times of charts, in UTC and in the reader's zone.
import assert from "node:assert/strict";
import { inZone, instant, written } from "../../static/js/clock.js";

const MOMENT = Date.UTC(2026, 2, 1, 8, 0, 0, 120);
/** @param {string} zone */
const show = (zone) => localStorage.setItem("times", zone);

Deno.test("a time is written in UTC unless the reader chose the local zone", () => {
  show("utc");
  assert.equal(written(MOMENT), "2026-03-01 08:00:00.120");
});

for (const zone of ["utc", "local"])
  Deno.test(`a written time is read back to the same instant (${zone})`, () => {
    show(zone);
    assert.equal(instant(written(MOMENT)), MOMENT);
    assert.equal(instant("2026-03-01"), instant("2026-03-01 00:00:00.000"));
  });

Deno.test("a figure moves its times into the local zone, and leaves days and other values", () => {
  const figure = {
    data: [{ x: ["2026-03-01 08:00:00", "2026-03-01"], y: [1, 2], base: 3 }],
    layout: {
      xaxis: { range: ["2026-03-01 08:00:00", "2026-03-01 09:00:00"] },
      yaxis: { range: [0, 1] },
      shapes: [{ x0: "2026-03-01 08:00:00", x1: 4 }],
    },
  };
  show("utc");
  assert.equal(inZone(figure), figure);
  show("local");
  const local = written(Date.UTC(2026, 2, 1, 8));
  const moved = inZone(figure);
  assert.deepEqual(moved.data?.[0], { x: [local, "2026-03-01"], y: [1, 2], base: 3 });
  assert.equal(moved.layout?.xaxis.range[0], local);
  assert.deepEqual([moved.layout?.yaxis, moved.layout?.shapes], [{ range: [0, 1] }, [{ x0: local, x1: 4 }]]);
});
