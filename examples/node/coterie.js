import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * A `coterie serve --memory` process and its control API. The environment variable
 * COTERIE is the path of the command, if it is not on PATH.
 */
export class Server {
  static async start() {
    const child = spawn(
      process.env.COTERIE ?? "coterie",
      [
        ...["serve", "--memory", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"],
        ...["--set", "group.initial.rebalance.delay.ms=0"],
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const after = async (prefix) => {
      const { value } = await lines.next();
      if (!value?.startsWith(prefix)) throw new Error(`coterie serve printed ${value}`);
      return value.slice(prefix.length);
    };
    const brokers = (await after("coterie ready on ")).split(",");
    return new Server(child, brokers, await after("coterie control on "));
  }

  constructor(child, brokers, control) {
    this.child = child;
    this.brokers = brokers;
    this.control = control;
  }

  async stop() {
    this.child.kill();
    await once(this.child, "exit");
  }

  get(path) {
    return this.#send(path, { method: "GET" });
  }

  post(path, body = {}) {
    return this.#send(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  async #send(path, options) {
    const response = await fetch(this.control + path, options);
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    return response.json();
  }
}
