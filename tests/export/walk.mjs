// Walks an XState 5 machine: node walk.mjs XSTATE CONFIG WALK. Prints how many steps went as told, and the first that did not.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , library, config, walk] = process.argv;
const { createMachine, createActor } = await import(pathToFileURL(library).href);
const told = JSON.parse(readFileSync(config, "utf8"));
const types = new Set(Object.values(told.states).flatMap((state) => Object.values(state.on ?? {}).flat())
  .flatMap((way) => (way.guard ? [way.guard.type] : [])));
const holds = ({ event }, { all }) => all.every((name) => event.answers[name] === true);
const machine = createMachine(told).provide({ guards: Object.fromEntries([...types].map((type) => [type, holds])) });
let steps = 0;
for (const turn of JSON.parse(readFileSync(walk, "utf8"))) {
  const actor = createActor(machine).start();
  for (const [type, answers, after, row] of turn) {
    actor.send({ type, answers });
    const { value } = actor.getSnapshot();
    if (value !== after) {
      console.log(JSON.stringify({ steps, type, answers, after, row, value }));
      process.exit(1);
    }
    steps += 1;
  }
}
console.log(JSON.stringify({ steps, states: Object.keys(machine.states).length }));
