// Making elements. Text only ever becomes text: nothing on this page is parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; attributes that begin with "on" are listeners. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Put new content into an element, keeping the focus on what has the same data-key. */
export function replace(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const key = active?.dataset.key;
  element.replaceChildren(...children.flat(3).filter((child) => child));
  if (key) [...element.querySelectorAll("[data-key]")].find((found) => found.dataset.key === key)?.focus();
}

/** Tab reaches one of the elements; arrow keys move among them. */
export function roving(container, selector, first = 0) {
  const all = [...container.querySelectorAll(selector)];
  all.forEach((element, index) => element.setAttribute("tabindex", index === first ? "0" : "-1"));
  container.onkeydown = (event) => {
    const at = all.indexOf(document.activeElement);
    const last = all.length - 1;
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[
      event.key
    ];
    if (at < 0 || to === undefined || to < 0 || to > last) return;
    event.preventDefault();
    all[at].setAttribute("tabindex", "-1");
    all[to].setAttribute("tabindex", "0");
    all[to].focus();
  };
}

// What buttons say for a moment after they copied: views are made anew each second, and their buttons with them.
const said = new Map();

/** A button that copies a text. */
export function copyButton(label, text, what) {
  const key = `${what} ${text}`;
  const button = h("button", { type: "button", class: "small", "aria-label": what, title: what, "data-key": key });
  button.say = () => {
    button.textContent = said.get(key) ?? label;
  };
  const say = () => document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`).forEach((one) => one.say());
  button.say();
  button.addEventListener("click", async () => {
    said.set(key, (await copied(text)) ? "Copied" : "Copying failed");
    say();
    setTimeout(() => {
      said.delete(key);
      say();
    }, 1500);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // not at localhost and not over TLS: the old way
    const area = h("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
