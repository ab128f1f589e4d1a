import { expect, test } from "vitest";
import { events, World } from "./world";

/** A world in which a session exists and its first execution runs. */
function running(): { world: World; log: object[] } {
  const world = new World();
  world.session.run("code");
  world.ready();
  const log = events("e1", 1, ["a", "b", "c"]);
  for (const event of log.slice(0, 3)) world.say(event);
  return { world, log };
}

test("the first run creates a session, with the token in force", () => {
  const world = new World();
  expect(world.sockets).toEqual([]);
  world.session.run("1 + 1");
  expect(world.socket).toMatchObject({ path: "/api/v1/ws?language=python", token: "a.b.c", sent: [] });
  world.ready();
  expect(world.socket.sent).toEqual([{ type: "execute", id: "e1", code: "1 + 1" }]);
});

test("after a broken connection it goes on behind the last event", () => {
  const { world, log } = running();
  world.end(1006);
  expect(world.link).toEqual({ state: "waiting", pauseMs: 300 });
  world.pass(299);
  expect(world.sockets).toHaveLength(1);
  world.pass(1);
  expect(world.socket.path).toBe("/api/v1/sessions/s1/ws?after=3");
  world.ready();
  for (const event of log.slice(2)) world.say(event);
  expect(world.told).toEqual(["began e1", "1 queued", "2 started", "3 a", "4 b", "5 c", "6 result"]);
});

test("pauses grow until a connection stands", () => {
  const { world } = running();
  const pauses: number[] = [];
  for (let n = 0; n < 4; n++) {
    world.end(1006);
    const { link } = world;
    if (link?.state !== "waiting") throw new Error("it does not wait");
    pauses.push(link.pauseMs);
    world.pass(link.pauseMs);
  }
  expect(pauses).toEqual([300, 600, 1200, 2400]);
  world.ready();
  world.end(1001);
  expect(world.link).toEqual({ state: "waiting", pauseMs: 300 });
});

test("after a reload it shows the whole of the last execution again", () => {
  const { world, log } = running();
  for (const event of log.slice(3)) world.say(event);
  world.session.run("more");
  const second = events("e2", 7, ["x", "y"]);
  for (const event of second.slice(0, 3)) world.say(event);
  world.told.length = 0;
  world.load();
  expect(world.socket.path).toBe("/api/v1/sessions/s1/ws?after=6");
  world.ready();
  for (const event of second) world.say(event);
  expect(world.told).toEqual(["began e2", "7 queued", "8 started", "9 x", "10 y", "11 result"]);
  expect(world.socket.sent).toEqual([]);
});

test("an execution that was not confirmed is sent again under its name, also after a reload", () => {
  const { world, log } = running();
  for (const event of log.slice(3)) world.say(event);
  world.end(1006);
  world.session.run("later");
  expect(world.socket.sent.filter(({ type }) => type === "execute")).toHaveLength(1);
  world.pass(60_000);
  world.ready();
  const execute = { type: "execute", id: "e2", code: "later" };
  expect(world.socket.sent).toEqual([execute]);
  world.load();
  world.ready();
  expect(world.socket.sent).toEqual([execute]);
  world.say({ type: "queued", id: "e2", seq: 7 });
  world.load();
  world.ready();
  expect(world.socket.sent).toEqual([]);
});

test("a run outlives a reload before there is a session", () => {
  const world = new World();
  world.session.run("code");
  world.load();
  expect(world.socket.path).toBe("/api/v1/ws?language=python");
  world.ready();
  expect(world.socket.sent).toEqual([{ type: "execute", id: "e1", code: "code" }]);
  world.end(1006);
  world.pass(60_000);
  expect(world.socket.path).toBe("/api/v1/sessions/s1/ws?after=0");
});

test("a refused execution is not sent again, but for a server that is about to stop", () => {
  const world = new World();
  world.session.run("code");
  world.ready();
  world.say({ type: "problem", id: "e1", code: "draining", detail: "soon" });
  world.end(1001);
  world.pass(60_000);
  world.ready();
  expect(world.socket.sent).toHaveLength(1);
  world.say({ type: "problem", id: "e1", code: "busy", detail: "full" });
  expect(world.told).toEqual(["began e1", "problem"]);
  world.end(1006);
  world.pass(60_000);
  world.ready();
  expect(world.socket.sent).toEqual([]);
});

test("what another client queues does not push aside what runs", () => {
  const { world, log } = running();
  world.say({ type: "queued", id: "other", seq: 4 });
  expect(world.told).not.toContain("began other");
  world.say({ ...log[5], seq: 5 });
  world.say({ type: "started", id: "other", execution_count: 2, timestamp: "", seq: 6 });
  expect(world.told.at(-2)).toBe("began other");
});

test("what is no longer kept is told and not asked for again", () => {
  const { world } = running();
  world.say({ type: "gap", from: 4, to: 90 });
  world.end(1006);
  world.pass(60_000);
  expect(world.told.at(-1)).toBe("gap");
  expect(world.socket.path).toBe("/api/v1/sessions/s1/ws?after=90");
});

test("an execution whose beginning is no longer kept is shown from what is", () => {
  const { world } = running();
  world.told.length = 0;
  world.load();
  world.ready();
  world.say({ type: "gap", from: 1, to: 3 });
  world.say({ type: "stream", id: "e1", stream: "stdout", data: "b", seq: 4 });
  world.say({ type: "stream", id: null, stream: "stdout", data: "c", seq: 5 });
  expect(world.told).toEqual(["gap", "began e1", "4 b", "5 c"]);
});

test("a fatal code ends the attempts; a new session begins at nothing", () => {
  for (const code of [1000, 1008, 4403, 4404, 4408]) {
    const { world } = running();
    world.end(code);
    expect(world.link).toEqual({ state: "closed", code });
    world.pass(600_000);
    expect(world.sockets).toHaveLength(1);
    world.session.renew();
    world.session.run("again");
    expect(world.socket.path).toBe("/api/v1/ws?language=python");
  }
});

test("a run that the server cannot take is not sent for ever", () => {
  const world = new World();
  world.session.run("far too much");
  world.ready();
  world.end(1009);
  world.session.start();
  world.ready();
  expect(world.socket.sent).toEqual([]);
  world.session.run("less");
  expect(world.socket.sent).toEqual([{ type: "execute", id: "e2", code: "less" }]);
});

test("an interrupt names what is shown", () => {
  const { world } = running();
  world.session.interrupt();
  expect(world.socket.sent.at(-1)).toEqual({ type: "interrupt", id: "e1" });
});

test("leaving a session ends it, and hears no more of it", () => {
  const { world } = running();
  const { socket } = world;
  world.session.renew();
  expect([socket.sent.at(-1), socket.closed]).toEqual([{ type: "terminate" }, false]);
  const told = world.told.length;
  socket.listener.message('{"type":"pong","id":"p"}');
  socket.listener.closed(1000);
  expect([world.link, world.told.length]).toEqual([{ state: "none" }, told]);
  world.session.run("again");
  expect(world.socket.path).toBe("/api/v1/ws?language=python");
});

test("a token that is not taken is asked for, and the session goes on with the next", () => {
  const { world } = running();
  world.end(4401);
  expect(world.link).toEqual({ state: "closed", code: 4401 });
  world.token = "d.e.f";
  world.session.newToken("d.e.f");
  expect(world.socket).toMatchObject({ path: "/api/v1/sessions/s1/ws?after=3", token: "d.e.f" });
  world.token = null;
  world.load();
  expect(world.link).toEqual({ state: "closed", code: 4401 });
  expect(world.sockets).toHaveLength(2);
});

test("a token that comes in time is told on the open socket", () => {
  const { world } = running();
  world.session.newToken("d.e.f");
  expect(world.socket.sent.at(-1)).toEqual({ type: "auth", token: "d.e.f" });
  world.say({ type: "authenticated", id: "a1", expires_at: "2026-04-08T11:30:00.000Z" });
  expect([world.link, world.sockets.length]).toEqual([{ state: "open" }, 1]);
});

test("a silent connection is asked for a sign of life, then given up", () => {
  const { world } = running();
  world.pass(25_000);
  expect(world.socket.sent.at(-1)).toEqual({ type: "ping", id: "alive" });
  world.say({ type: "pong", id: "alive" });
  world.pass(25_000);
  world.pass(24_999);
  expect(world.link).toEqual({ state: "open" });
  world.pass(1);
  expect(world.link?.state).toBe("waiting");
});

test("a message that cannot be read ends the connection for good", () => {
  const { world } = running();
  world.say({ type: "stream", seq: 4 });
  expect(world.link).toEqual({ state: "closed", code: 1002 });
  expect(world.socket.closed).toBe(true);
});

test("an answered question stays answered after a reload", () => {
  const { world } = running();
  world.session.input("Ada\n", 4);
  expect(world.socket.sent.at(-1)).toEqual({ type: "stdin", data: "Ada\n" });
  world.load();
  expect([world.session.answered(4), world.session.answered(5)]).toEqual([true, false]);
});

test("what was not kept by this page is not taken up", () => {
  for (const text of [
    "",
    "{",
    "null",
    '{"id":null}',
    "[]",
    '{"id":"../x","place":0,"answered":0}',
    '{"id":"s1","place":"0","answered":0}',
  ]) {
    const world = new World();
    world.storage.setItem("session", text);
    world.load();
    expect(world.sockets, text).toEqual([]);
  }
});
