'use strict';

// The counters of status.json as they were each second, and what they say: rates of the last
// seconds as numbers, of the last two minutes as charts. What it shows is text, never markup.

const interval = 1000; // ms between two looks
const patience = 2000; // ms for one answer
const shown = 120; // looks in a chart
const averaged = 5; // looks in a number

// What a rule comes to in a request, in the order in which charts stack it.
const outcomes = [
  { name: 'passed', label: 'passed', of: ['passed', 'local_passed'] },
  { name: 'uncharged', label: 'granted, but another rule denied', of: ['uncharged'] },
  { name: 'trial', label: 'passed, a dry run would hold it back', of: ['dry_run_rejected', 'dry_run_delayed'] },
  { name: 'delayed', label: 'delayed', of: ['delayed', 'local_delayed'] },
  { name: 'failed', label: 'no verdict', of: ['error_open', 'error_closed', 'invalid'] },
  { name: 'rejected', label: 'rejected', of: ['rejected', 'local_rejected'] },
];
const all = outcomes.flatMap((outcome) => outcome.of);
const local = ['local_passed', 'local_delayed', 'local_rejected'];
const failed = ['error_open', 'error_closed', 'invalid'];
const refused = ['rejected', 'local_rejected', 'error_closed'];
const sources = [
  { name: 'redis', label: 'Redis', count: (rule) => sum(rule, all) - rule.rejected_by_deny_cache - sum(rule, [...local, ...failed]) },
  { name: 'deny_cache', label: 'deny cache', count: (rule) => rule.rejected_by_deny_cache },
  { name: 'local', label: 'this host alone', count: (rule) => sum(rule, local) },
  { name: 'none', label: 'none', count: (rule) => sum(rule, failed) },
];
const percentiles = ['p50', 'p90', 'p99'];

const looks = []; // { time in ms, status }, oldest first
const byId = (id) => document.getElementById(id);

function sum(counts, names) {
  return names.reduce((total, name) => total + counts[name], 0);
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawing(tag, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Numbers, as short as they can be told apart.
function rate(number) {
  return number >= 100 || number === 0 ? count(Math.round(number)) : number.toFixed(1);
}
const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part > 0 && part / whole < 0.1 ? 1 : 0)} %` : '–');
const count = (number) => number.toLocaleString('en').replaceAll(',', '\u202f');
function seconds(time) {
  if (time === 0) return '–';
  if (time < 0.001) return `${(time * 1e6).toFixed(0)} µs`;
  return time < 1 ? `${(time * 1000).toFixed(time < 0.01 ? 1 : 0)} ms` : `${time.toFixed(1)} s`;
}
function bytes(size) {
  return size < 2 ** 20 ? `${(size / 2 ** 10).toFixed(0)} KB` : `${(size / 2 ** 20).toFixed(size < 2 ** 24 ? 1 : 0)} MB`;
}
function duration(time) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min']];
  const at = units.findIndex(([length]) => time >= length);
  if (at < 0) return `${time} s`;
  const [length, name] = units[at];
  const whole = `${Math.floor(time / length)} ${name}`;
  return time % length === 0 ? whole : `${whole} ${duration(at < 2 ? time % length - (time % units[at + 1][0]) : time % length)}`;
}

// Rules of a look, each with its zone; those that a selection names, or all.
function rulesOf(status, selected = '') {
  return Object.entries(status.zones).flatMap(([zone, { rules }]) =>
    Object.entries(rules)
      .map(([name, counts]) => ({ id: `${zone}: ${name}`, zone, name, counts }))
      .filter(({ id }) => selected === '' || selected === id));
}

// How fast what `read` counts grew between two looks; counters that began anew grew from 0.
function growth(from, to, read) {
  const [before, now] = [read(from.status), read(to.status)];
  return Math.max(0, now < before ? now : now - before) / ((to.time - from.time) / 1000);
}
const recent = (read) => (looks.length > 1 ? growth(looks.at(-1 - Math.min(averaged, looks.length - 1)), looks.at(-1), read) : 0);
const history = (read) => looks.slice(1).map((look, i) => growth(looks[i], look, read));
const countOf = (names, selected = '') => (status) => rulesOf(status, selected).reduce((total, rule) => total + sum(rule.counts, names), 0);

// The end of an axis: 1, 2 or 5 of a power of ten.
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return power * [1, 2, 5, 10].find((step) => step * power >= number);
}

// Lines or stacked areas of the last looks, the newest at the right. A pointer, or the arrow keys,
// choose a look that the legend then tells of.
class Chart {
  constructor(place, series, { label, format, stacked = false, small = false, onCursor = () => {} }) {
    this.series = series;
    this.format = format;
    this.stacked = stacked;
    this.onCursor = onCursor;
    this.back = 0; // looks that the cursor is behind the newest
    this.svg = drawing('svg', { viewBox: `0 0 ${shown - 1} 100`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label, tabindex: 0 });
    this.paths = series.map(({ name }) => this.svg.appendChild(drawing('path', { class: `${stacked ? 'area' : 'line'} ${name}` })));
    this.cursor = this.svg.appendChild(drawing('line', { class: 'cursor', y1: 0, y2: 100, visibility: 'hidden' }));
    this.top = element('span', { class: 'top' });
    this.middle = element('span', { class: 'middle' });
    this.times = element('div', { class: 'times', 'aria-hidden': 'true' }, element('span', {}, '2 minutes ago'), element('span', {}, 'now'));
    place.replaceChildren(element('div', { class: `chart${small ? ' small' : ''}` }, this.svg, this.top, this.middle, this.times));
    this.svg.addEventListener('pointermove', (event) => {
      const box = this.svg.getBoundingClientRect();
      this.moveTo(Math.round((1 - (event.clientX - box.left) / box.width) * (shown - 1)));
    });
    this.svg.addEventListener('pointerleave', () => this.moveTo(0));
    this.svg.addEventListener('blur', () => this.moveTo(0));
    this.svg.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: 1, ArrowRight: -1, PageUp: 10, PageDown: -10, End: -shown, Home: shown, Escape: -shown }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.moveTo(this.back + step);
    });
  }

  moveTo(back) {
    this.back = Math.max(0, Math.min(back, this.length - 1));
    this.cursor.setAttribute('visibility', this.back > 0 ? 'visible' : 'hidden');
    for (const end of ['x1', 'x2']) this.cursor.setAttribute(end, shown - 1 - this.back);
    this.times.lastChild.textContent = this.back > 0 ? `at the line: ${this.back} s ago` : 'now';
    this.onCursor(this.back);
  }

  // One row of numbers for each of the series.
  draw(rows) {
    this.length = Math.max(1, rows[0].length);
    const below = rows.map((row, i) => row.map((_, at) => (this.stacked ? rows.slice(0, i).reduce((total, other) => total + other[at], 0) : 0)));
    const highest = Math.max(...rows.flatMap((row, i) => row.map((value, at) => value + below[i][at])), 0);
    const most = highest > 0 ? roundUp(highest) : 1;
    const point = (at, value) => `${shown - rows[0].length + at},${(100 - (100 * value) / most).toFixed(2)}`;
    rows.forEach((row, i) => {
      const upper = row.map((value, at) => point(at, value + below[i][at]));
      const lower = this.stacked ? row.map((_, at) => point(at, below[i][at])).reverse() : [];
      this.paths[i].setAttribute('d', row.length > 0 ? `M${[...upper, ...lower].join('L')}${this.stacked ? 'Z' : ''}` : '');
    });
    this.top.textContent = highest > 0 ? this.format(most) : '';
    this.middle.textContent = highest > 0 ? this.format(most / 2) : '';
    if (this.back > 0) this.onCursor(this.back);
  }
}

function legend(place, series) {
  place.replaceChildren(...series.map(({ name, label }) => element('li', { class: name }, `${label} `, element('b'))));
  return (values) => values.forEach((value, i) => { place.children[i].lastChild.textContent = value; });
}

// What is only built when the configuration has changed.
let configured = '';
let rows = {};
let cards = {};

const tellSources = legend(byId('sources'), sources);
byId('sources-bar').append(...sources.map(({ name }) => element('i', { class: name })));
const tellOutcomes = legend(byId('outcomes-legend'), outcomes);
const outcomeChart = new Chart(byId('outcomes'), outcomes, { label: 'Checks per second by outcome, the last two minutes', format: (number) => `${rate(number)} /s`, stacked: true, onCursor: showOutcomes });
byId('rule').addEventListener('change', update);

const columns = [
  ['Checked', all], ['Rejected', refused], ['Would reject', ['dry_run_rejected']],
  ['Delayed', ['delayed', 'local_delayed', 'dry_run_delayed']], ['Local', local], ['No verdict', failed],
];

function buildRule({ id, zone, name, counts }) {
  const spark = drawing('svg', { class: 'spark', viewBox: `0 0 ${shown - 1} 100`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const paths = outcomes.map((outcome) => spark.appendChild(drawing('path', { class: `area ${outcome.name}` })));
  const cells = [...columns.map(([label]) => label), 'Rejected in all'].map((label) => element('td', { class: 'number', 'data-label': label }));
  const what = `${counts.algorithm}, limit ${counts.limit} per ${duration(counts.window_seconds)}, zone ${zone}`;
  byId('rules').tBodies[0].append(element('tr', {}, element('th', { scope: 'row' }, name, element('small', {}, what)), element('td', { class: 'drawing' }, spark), ...cells));
  rows[id] = { paths, cells };
}

function buildBackend(name, { mode }) {
  const state = element('span', { class: 'state' });
  const facts = {};
  const list = element('dl');
  for (const label of ['checks /s', 'errors /s', 'pending', 'p50', 'p90', 'p99', 'longest', 'reconnects']) {
    facts[label] = element('dd');
    list.append(element('div', {}, element('dt', percentiles.includes(label) ? { class: label } : {}, label), facts[label]));
  }
  const errors = element('p', { class: 'note' });
  const place = element('div');
  const chart = new Chart(place, percentiles.map((percentile) => ({ name: percentile })), { label: `Latency of ${name}: p50, p90 and p99, the last two minutes`, format: seconds, small: true });
  byId('backends').append(element('div', { class: 'panel' }, element('div', { class: 'heading' }, element('h3', {}, `${name} `, element('span', { class: 'unit' }, mode)), state), list, errors, place));
  cards[name] = { state, facts, errors, chart };
}

function buildZone(name) {
  const memory = element('span', { class: 'unit' });
  const used = element('i', { class: 'passed' });
  const keys = element('tbody');
  const note = element('p', { class: 'note' });
  byId('zones').append(element('div', { class: 'panel' }, element('div', { class: 'heading' }, element('h3', {}, name), memory),
    element('div', { class: 'bar', 'aria-hidden': 'true' }, used), note,
    element('table', {}, element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Key'), element('th', { scope: 'col', class: 'number' }, 'Rejected'))), keys)));
  rows[`zone ${name}`] = { memory, used, keys, note };
}

function build(status) {
  const rules = rulesOf(status);
  const configuration = JSON.stringify([rules.map(({ id, counts }) => [id, counts.algorithm, counts.limit, counts.window_seconds]), Object.entries(status.backends).map(([name, { mode }]) => [name, mode])]);
  if (configuration === configured) return;
  configured = configuration;
  looks.splice(0, looks.length - 1); // the ones before know other rules
  [rows, cards] = [{}, {}];
  for (const place of [byId('rules').tBodies[0], byId('backends'), byId('zones')]) place.replaceChildren();
  rules.forEach(buildRule);
  Object.entries(status.backends).forEach(([name, backend]) => buildBackend(name, backend));
  Object.keys(status.zones).forEach(buildZone);
  const select = byId('rule');
  const selected = select.value;
  select.replaceChildren(element('option', { value: '' }, 'all'), ...rules.map(({ id }) => element('option', { value: id }, id)));
  select.value = rules.some(({ id }) => id === selected) ? selected : '';
}

// The numbers of the legend: now, or where the cursor is.
function showOutcomes(back = outcomeChart.back) {
  const selected = byId('rule').value;
  tellOutcomes(outcomes.map(({ of }) => {
    const read = countOf(of, selected);
    const at = looks.length - 1 - back;
    return `${rate(back === 0 || at < 1 ? recent(read) : growth(looks[at - 1], looks[at], read))} /s`;
  }));
}

function showTotals() {
  const checked = recent(countOf(all));
  const rejected = recent(countOf(refused));
  byId('checked').textContent = rate(checked);
  byId('rejected').textContent = rate(rejected);
  byId('rejected-share').textContent = checked > 0 ? `${share(rejected, checked)} of the checks` : '';
  byId('latency').textContent = seconds(Math.max(0, ...Object.values(looks.at(-1).status.backends).map((backend) => backend.latency_seconds.p99)));
  const rates = sources.map((source) => recent((status) => rulesOf(status).reduce((total, rule) => total + source.count(rule.counts), 0)));
  tellSources(rates.map((number) => share(number, checked)));
  rates.forEach((number, i) => { byId('sources-bar').children[i].style.width = `${checked > 0 ? (100 * number) / checked : 0}%`; });
}

function showRule({ id, counts }) {
  const { paths, cells } = rows[id];
  const stacks = outcomes.map(({ of }) => history(countOf(of, id)));
  const totals = stacks[0].map((_, at) => stacks.reduce((total, row) => total + row[at], 0));
  const most = Math.max(...totals, 0) || 1;
  const low = totals.map(() => 0);
  stacks.forEach((row, i) => {
    const point = (at) => `${shown - row.length + at},${(100 - (100 * low[at]) / most).toFixed(1)}`;
    const lower = row.map((_, at) => point(at)).reverse();
    row.forEach((value, at) => { low[at] += value; });
    paths[i].setAttribute('d', row.length > 0 ? `M${[...row.map((_, at) => point(at)), ...lower].join('L')}Z` : '');
  });
  const rates = columns.map(([, names]) => recent(countOf(names, id)));
  rates.forEach((number, i) => {
    const parts = i > 0 && i < 3 && number > 0 ? [rate(number), ' ', element('small', {}, share(number, rates[0]))] : [i > 0 && number === 0 ? '·' : rate(number)];
    cells[i].replaceChildren(...parts);
  });
  cells[1].classList.toggle('much', rates[1] > 0);
  cells.at(-1).textContent = count(sum(counts, refused));
}

// What rules on trial would do, beside what their zone's rules in force do.
function showTrials(status) {
  const isTrial = ({ counts }) => counts.dry_run_rejected + counts.dry_run_delayed > 0;
  const trials = rulesOf(status).filter(isTrial).map((rule) => {
    const others = rulesOf(status).filter((other) => other.zone === rule.zone && !isTrial(other));
    const beside = others.reduce((total, other) => total + recent(countOf(refused, other.id)), 0);
    const would = recent(countOf(['dry_run_rejected'], rule.id));
    return `Dry run ${rule.name}: would reject ${rate(would)} /s (${share(would, recent(countOf(all, rule.id)))}); the rules in force of its zone reject ${rate(beside)} /s.`;
  });
  byId('trials').textContent = trials.join(' ');
}

function showBackend(name, backend) {
  const { state, facts, errors, chart } = cards[name];
  const trouble = troubleOf(name, backend);
  state.textContent = trouble ? trouble.word : backend.state;
  state.className = `state ${trouble ? trouble.level : { up: 'good', idle: 'unknown' }[backend.state]}`;
  const read = (pick) => recent((status) => pick(status.backends[name]));
  facts['checks /s'].textContent = rate(read(({ checks }) => checks));
  facts['errors /s'].textContent = rate(read((of) => sum(of.errors, Object.keys(of.errors))));
  facts.pending.textContent = count(backend.pending);
  for (const percentile of percentiles) facts[percentile].textContent = seconds(backend.latency_seconds[percentile]);
  facts.longest.textContent = seconds(backend.latency_seconds.max);
  facts.reconnects.textContent = count(backend.reconnects);
  const known = Object.entries(backend.errors).filter(([, number]) => number > 0);
  errors.textContent = known.length > 0 ? `Checks without a verdict: ${known.map(([kind, number]) => `${kind} ${count(number)}`).join(', ')}.` : 'Every check got its verdict.';
  chart.draw(percentiles.map((percentile) => looks.map(({ status }) => status.backends[name].latency_seconds[percentile])));
}

// What is wrong with a Redis now, by the last two seconds; null if nothing is.
function troubleOf(name, backend) {
  if (backend.state === 'down') return { level: 'bad', word: 'down', text: `Redis “${name}” is down` };
  if (looks.length < 2) return null;
  const [from, to] = [looks.at(-Math.min(3, looks.length)), looks.at(-1)];
  const read = (kind) => growth(from, to, (status) => status.backends[name].errors[kind]);
  if (read('breaker') > 0) return { level: 'bad', word: 'breaker open', text: `Redis “${name}” does not answer, its breaker is open` };
  const kinds = Object.keys(backend.errors).filter((kind) => read(kind) > 0);
  if (kinds.length === 0) return null;
  return { level: 'warning', word: 'errors', text: `Redis “${name}”: checks without a verdict (${kinds.join(', ')})` };
}

function showZone(name, zone) {
  const { memory, used, keys, note } = rows[`zone ${name}`];
  memory.textContent = `${bytes(zone.used_bytes)} of ${bytes(zone.size_bytes)}, ${count(zone.entries)} entries`;
  used.style.width = `${(100 * zone.used_bytes) / zone.size_bytes}%`;
  note.textContent = zone.evictions > 0 ? `${count(zone.evictions)} entries had to make room: the zone is too small.` : '';
  keys.replaceChildren(...zone.top_rejected.map(({ key, rejected }) => element('tr', {}, element('td', { class: 'key' }, key === '' ? '(empty)' : key), element('td', { class: 'number' }, count(rejected)))));
  if (zone.top_rejected.length === 0) keys.append(element('tr', {}, element('td', { class: 'empty', colspan: 2 }, 'No key has been rejected, or none are kept (top_keys=off).')));
}

function showHealth(level, text, title) {
  const health = byId('health');
  if (health.className !== level) health.className = level;
  if (health.firstChild.textContent !== text) health.firstChild.textContent = text;
  document.title = `${title}redis_rate_limit`;
  document.body.classList.toggle('stale', level === 'bad' && title === '⚠ no data · ');
}

function tellHealth(status) {
  const troubles = Object.entries(status.backends).map(([name, backend]) => troubleOf(name, backend)).filter(Boolean);
  if (troubles.length === 0) {
    const rejected = recent(countOf(refused));
    const rejects = rejected > 0 ? `, rejecting ${share(rejected, recent(countOf(all)))} of the checks` : ', nothing is rejected';
    showHealth('good', `Redis answers${rejects}`, '');
    return;
  }
  const host = recent(countOf(local));
  const effects = [host > 0 ? `this host alone decides ${rate(host)} /s` : '', ...[['error_open', 'pass unchecked'], ['error_closed', 'are refused']].map(([name, what]) => {
    const number = recent(countOf([name]));
    return number > 0 ? `${rate(number)} /s ${what}` : '';
  })].filter(Boolean);
  const level = troubles.some((trouble) => trouble.level === 'bad') ? 'bad' : 'warning';
  showHealth(level, [troubles.map(({ text }) => text).join('; '), ...effects].join(' – '), level === 'bad' ? '⚠ Redis · ' : '');
}

function update() {
  if (looks.length === 0) return;
  const { status } = looks.at(-1);
  byId('server').textContent = `${status.version} on nginx ${status.nginx_version}, ${status.workers} ${status.workers === 1 ? 'worker' : 'workers'}, counting for ${duration(status.uptime_seconds)}`;
  tellHealth(status);
  showTotals();
  outcomeChart.draw(outcomes.map(({ of }) => history(countOf(of, byId('rule').value))));
  if (outcomeChart.back === 0) showOutcomes();
  rulesOf(status).forEach(showRule);
  showTrials(status);
  Object.entries(status.backends).forEach(([name, backend]) => showBackend(name, backend));
  Object.entries(status.zones).forEach(([name, zone]) => showZone(name, zone));
}

async function look() {
  try {
    const response = await fetch('status.json', { cache: 'no-store', signal: AbortSignal.timeout(patience) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    looks.push({ time: performance.now(), status: await response.json() });
    if (looks.length > shown) looks.shift();
    build(looks.at(-1).status);
    update();
  } catch (error) {
    const since = looks.length > 0 ? `, the numbers below are ${duration(Math.round((performance.now() - looks.at(-1).time) / 1000))} old` : '';
    showHealth('bad', `nginx does not answer: status.json cannot be fetched (${error.message})${since}`, '⚠ no data · ');
  }
  setTimeout(look, interval);
}
look();
