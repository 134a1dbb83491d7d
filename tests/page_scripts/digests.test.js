// By which digests the upload page asks for jobs that have the chosen files.
import assert from "node:assert/strict";
import { MAX_FILES, digestsOf } from "../../static/js/upload/digests.js";

/** @type {(text: string) => {file: File}} */
const entry = (text) => ({ file: new File([text], "a.log") });

Deno.test("a digest is that of the bytes, whatever the name", async () => {
  const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  assert.deepEqual(await digestsOf([entry("abc")]), [abc]);
});

Deno.test("nothing is read of more files than one question takes", async () => {
  assert.deepEqual(await digestsOf(Array.from({ length: MAX_FILES + 1 }, () => entry("x"))), []);
});
