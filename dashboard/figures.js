'use strict';

// What the counters of status.json say: how fast they grow, and numbers as people read them.

const shown = 120; // looks in a chart
const averaged = 5; // looks in a number

const looks = []; // { time in ms, status }, oldest first

// What a rule comes to in a request, in the order in which charts stack it.
const outcomes = [
  { name: 'passed', label: 'passed', of: ['passed', 'local_passed'] },
  { name: 'uncharged', label: 'granted, but another rule denied', of: ['uncharged'] },
  {
    name: 'trial',
    label: 'passed, a dry run would hold it back',
    of: ['dry_run_rejected', 'dry_run_delayed'],
  },
  { name: 'delayed', label: 'delayed', of: ['delayed', 'local_delayed'] },
  { name: 'failed', label: 'no verdict', of: ['error_open', 'error_closed', 'invalid'] },
  { name: 'rejected', label: 'rejected', of: ['rejected', 'local_rejected'] },
];
const all = outcomes.flatMap((outcome) => outcome.of);
const local = ['local_passed', 'local_delayed', 'local_rejected'];
const failed = ['error_open', 'error_closed', 'invalid'];
const refused = ['rejected', 'local_rejected', 'error_closed'];

const sources = [
  {
    name: 'redis',
    label: 'Redis',
    of: (rule) => sum(rule, all) - sum(rule, [...local, ...failed]) - rule.rejected_by_deny_cache,
  },
  { name: 'deny_cache', label: 'deny cache', of: (rule) => rule.rejected_by_deny_cache },
  { name: 'local', label: 'this host alone', of: (rule) => sum(rule, local) },
  { name: 'none', label: 'none', of: (rule) => sum(rule, failed) },
];

const percentiles = ['p50', 'p90', 'p99'];

function sum(counts, names) {
  return names.reduce((total, name) => total + counts[name], 0);
}

// Rules of a look, each with its zone: all, or the one of that id.
function rulesOf(status, id = '') {
  const rules = Object.entries(status.zones).flatMap(([zone, { rules }]) =>
    Object.entries(rules).map(([name, counts]) => ({ id: `${zone}: ${name}`, zone, name, counts })));
  return id === '' ? rules : rules.filter((rule) => rule.id === id);
}

// These read a number from a status.
const totalOf = (read, id) => (status) =>
  rulesOf(status, id).reduce((total, { counts }) => total + read(counts), 0);
const countOf = (names, id) => totalOf((counts) => sum(counts, names), id);

// How fast such a number grew between two looks; counters that began anew grew from 0.
function growth(from, to, read) {
  const [before, now] = [read(from.status), read(to.status)];
  return (now < before ? now : now - before) / ((to.time - from.time) / 1000);
}

// A second, in the last looks.
function recent(read, past = averaged) {
  if (looks.length < 2) return 0;
  return growth(looks.at(-1 - Math.min(past, looks.length - 1)), looks.at(-1), read);
}

// A second, between each look and the one before.
const history = (read) => looks.slice(1).map((look, i) => growth(looks[i], look, read));

const count = (number) => number.toLocaleString('en').replaceAll(',', '\u202f');

function rate(number) {
  return number >= 100 || number === 0 ? count(Math.round(number)) : number.toFixed(1);
}

function share(part, whole) {
  if (whole <= 0) return '–';
  const percent = (100 * part) / whole;
  return `${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`;
}

function seconds(time) {
  if (time === 0) return '–';
  if (time < 0.001) return `${(time * 1e6).toFixed(0)} µs`;
  if (time < 0.01) return `${(time * 1000).toFixed(1)} ms`;
  return time < 1 ? `${(time * 1000).toFixed(0)} ms` : `${time.toFixed(1)} s`;
}

function bytes(size) {
  const [unit, name] = size < 2 ** 20 ? [2 ** 10, 'KB'] : [2 ** 20, 'MB'];
  return `${(size / unit).toFixed(size >= 2 ** 20 && size < 2 ** 24 ? 1 : 0)} ${name}`;
}

// In its largest unit and, where there is more, the next one.
function duration(time) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = units.findIndex(([length]) => time >= length);
  if (at < 0 || at === units.length - 1) return `${time} s`;
  const [[length, name], [smaller, smallerName]] = units.slice(at, at + 2);
  const rest = Math.floor((time % length) / smaller);
  return `${Math.floor(time / length)} ${name}${rest > 0 ? ` ${rest} ${smallerName}` : ''}`;
}
