// What the page asks of the server, and the words that come back when it refuses.

/** A refusal, in the server's words. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly advice: string,
  ) {
    super(message);
  }
}

/** Gets JSON. */
export async function get<T>(path: string): Promise<T> {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as T;
}

/** Gets bytes. */
export async function get_bytes(path: string): Promise<ArrayBuffer> {
  const answer = await fetch(path);
  if (!answer.ok) throw await refusal(answer);
  return answer.arrayBuffer();
}

/** Asks for a change. The header marks it as ours: other sites cannot send it. */
export async function post(path: string, body: object = {}): Promise<unknown> {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-thalweg": "1" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw await refusal(answer);
  const text = await answer.text();
  return text === "" ? null : (JSON.parse(text) as unknown);
}

async function refusal(answer: Response): Promise<Refused> {
  const text = await answer.text();
  try {
    const told = JSON.parse(text) as { error?: string; advice?: string };
    return new Refused(answer.status, told.error ?? `the server answers ${answer.status}`, told.advice ?? "");
  } catch {
    return new Refused(answer.status, text.slice(0, 300) || `the server answers ${answer.status}`, "");
  }
}

/** An error as a sentence. */
export function in_words(error: unknown): string {
  if (error instanceof Refused) return error.advice ? `${error.message} – ${error.advice}` : error.message;
  return error instanceof Error ? error.message : String(error);
}
