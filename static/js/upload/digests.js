// The digests of chosen files, by which the site knows whether a job has them already.

/** As many as one question takes, and as many bytes as a browser reads at once without a wait that people notice. */
export const MAX_FILES = 50,
  MAX_BYTES = 200_000_000;

/**
 * SHA-256 of each file in hexadecimal digits. None for large choices, and where the page came without encryption, which
 * browsers give no digests: the site then finds equal evidence after the upload.
 * @param {{file: File}[]} entries
 * @returns {Promise<string[]>}
 */
export async function digestsOf(entries) {
  const bytes = entries.reduce((sum, { file }) => sum + file.size, 0);
  if (!entries.length || entries.length > MAX_FILES || bytes > MAX_BYTES || !globalThis.crypto?.subtle) return [];
  /** @type {string[]} */
  const digests = [];
  for (const { file } of entries) {
    const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
    digests.push([...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
  }
  return digests;
}
