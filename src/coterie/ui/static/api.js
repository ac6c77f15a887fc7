// Requests to the server of the page.

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let csrf = "";

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch {
    throw new Refusal(0, "the server of this page cannot be reached: is coterie still running?");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, content.error ?? `the server responded ${response.status}`);
  return content;
}

export const get = (path) => request(path);

export const post = (path, content) =>
  request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify(content),
  });

export async function session() {
  const found = await get("api/session");
  csrf = found.csrf;
  return found;
}
