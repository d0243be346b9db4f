'use strict';

// Numbers as people read them.

const grouped = new Intl.NumberFormat('en');
const count = (number) => grouped.format(number).replaceAll(',', '\u202f');

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

// The limit of a rule: requests in flight have no window.
function limitOf({ algorithm, limit, window_seconds: window, calendar }) {
  const per = algorithm === 'concurrency' ? '' : ` per ${calendar ?? duration(window)}`;
  return `${algorithm}, limit ${limit}${per}`;
}
