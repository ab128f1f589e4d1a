// What the driver uses of the language and of Node, taken before any user code runs: patched prototypes, deleted
// globals and replaced modules do not reach it. The driver's other files use these, and no method of a prototype.
'use strict';

const { apply, ownKeys, getOwnPropertyDescriptor, getPrototypeOf, defineProperty, deleteProperty } = Reflect;
const uncurry = Function.prototype.bind.bind(Function.prototype.call);

const fs = require('fs');
const util = require('util');
const { isProxy, isPromise, isNativeError, isTypedArray, isAnyArrayBuffer } = util.types;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const encodeWith = uncurry(TextEncoder.prototype.encode);
const decodeWith = uncurry(TextDecoder.prototype.decode);

exports.apply = apply;
exports.ownKeys = ownKeys;
exports.describe = getOwnPropertyDescriptor;
exports.prototypeOf = getPrototypeOf;
exports.define = defineProperty;
exports.remove = deleteProperty;
exports.uncurry = uncurry;

exports.encode = (text) => encodeWith(encoder, text);
exports.decode = (bytes) => decodeWith(decoder, bytes);
exports.parseJson = JSON.parse;
exports.stringify = JSON.stringify;

exports.hasOwn = uncurry(Object.prototype.hasOwnProperty);
exports.ObjectPrototype = Object.prototype;
exports.ArrayPrototype = Array.prototype;
exports.isArray = Array.isArray;
exports.slice = uncurry(String.prototype.slice);
exports.indexOf = uncurry(String.prototype.indexOf);
exports.lastIndexOf = uncurry(String.prototype.lastIndexOf);
exports.charCodeAt = uncurry(String.prototype.charCodeAt);
exports.startsWith = uncurry(String.prototype.startsWith);
exports.padStart = uncurry(String.prototype.padStart);
exports.repeat = uncurry(String.prototype.repeat);
exports.trim = uncurry(String.prototype.trim);
exports.String = String;
exports.Number = Number;
exports.Error = Error;
exports.Uint8Array = Uint8Array;
exports.subarray = uncurry(Uint8Array.prototype.subarray);
exports.sliceBytes = uncurry(Uint8Array.prototype.slice);
exports.fillBytes = uncurry(Uint8Array.prototype.fill);
exports.indexOfByte = uncurry(Uint8Array.prototype.indexOf);
exports.setBytes = uncurry(Uint8Array.prototype.set);
exports.then = uncurry(Promise.prototype.then);

exports.isProxy = isProxy;
exports.isPromise = isPromise;
exports.isNativeError = isNativeError;
exports.isTypedArray = isTypedArray;
exports.isAnyArrayBuffer = isAnyArrayBuffer;
exports.inspect = util.inspect;

exports.readSync = fs.readSync;
exports.writeSync = fs.writeSync;
exports.readFileSync = fs.readFileSync;
exports.fstatSync = fs.fstatSync;

exports.setImmediate = setImmediate;
exports.runTicks = process._tickCallback;
exports.reallyExit = process.reallyExit;
exports.monotonic = process.hrtime.bigint;
exports.cwd = process.cwd;
exports.BigInt = BigInt;
exports.endsWith = uncurry(String.prototype.endsWith);
exports.trimStart = uncurry(String.prototype.trimStart);
exports.Object = Object;
exports.global = globalThis;
exports.addTo = uncurry(Set.prototype.add);
exports.deleteFrom = uncurry(Set.prototype.delete);
