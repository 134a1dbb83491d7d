// Elements of the page, with types.

/** @type {(selector: string, root?: ParentNode) => HTMLElement | null} */
export const one = (selector, root = document) => root.querySelector(selector);

/** @type {(selector: string, root?: ParentNode) => HTMLElement[]} */
export const all = (selector, root = document) => [...root.querySelectorAll(/** @type {"div"} */ (selector))];

/**
 * The element that an event hit, or the next one around it, that matches.
 * @type {(event: Event, selector: string) => HTMLElement | null}
 */
export const hit = (event, selector) => (event.target instanceof Element ? event.target.closest(selector) : null);
