// Asking the node. Every answer is JSON; an error is shown where its answer would have been.

/** The answer to a question, or an Error with the node's own words. */
export async function ask(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const response = await fetch(`/api/${path}?${new URLSearchParams(given)}`, {
    headers: { Accept: "application/json" },
  });
  if (response.status === 401) location.reload(); // the node was started anew: it asks for the token
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? `the node answered ${response.status}`);
  return answer;
}

/** Calls a function at once, then at most once in so many milliseconds, and never twice at a time. */
export function throttled(work, pause = 1000) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await work();
    } finally {
      setTimeout(() => {
        running = false;
        if (again) {
          again = false;
          run();
        }
      }, pause);
    }
  };
}
