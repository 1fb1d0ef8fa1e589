// Asks an XState 5 machine, question by question: node rows.mjs XSTATE CONFIG ASKED. Prints for each the row taken and the state after it.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , library, config, asked] = process.argv;
const { createMachine, createActor } = await import(pathToFileURL(library).href);
const told = JSON.parse(readFileSync(config, "utf8"));
const ways = Object.values(told.states).flatMap((state) => Object.values(state.on ?? {}).flat());
const holds = ({ event }, { all }) => all.every((name) => event.answers[name] === true);
const guards = Object.fromEntries(ways.filter((way) => way.guard).map((way) => [way.guard.type, holds]));
const machine = createMachine(told).provide({ guards });
const found = JSON.parse(readFileSync(asked, "utf8")).map(([source, type, answers]) => {
  let row = null;
  const inspect = (seen) => {
    if (seen.type === "@xstate.microstep" && seen.event.type === type) row = seen._transitions[0].description;
  };
  const actor = createActor(machine, { snapshot: machine.resolveState({ value: source }), inspect }).start();
  actor.send({ type, answers });
  return [row, actor.getSnapshot().value];
});
console.log(JSON.stringify(found));
