'use strict';

// The page: asks for status.json each second and shows what it says. All that it shows is text,
// never markup.

const interval = 1000; // ms between two looks
const patience = 2000; // ms for one answer
const keysTold = 20; // of a zone
const keysShown = 10;

const byId = (id) => document.getElementById(id);
const cell = (text, attributes = { class: 'number' }) => element('td', attributes, text);
const heading = (title, ...more) => element('div', { class: 'heading' }, element('h3', {}, title), ...more);

// Numbers beside their labels, to be told again and again.
function makeLegend(place, series) {
  const numbers = series.map(() => element('b'));
  const items = series.map(({ name, label }, i) => element('li', { class: name }, `${label} `, numbers[i]));
  place.replaceChildren(...items);
  return (texts) => texts.forEach((text, i) => { numbers[i].textContent = text; });
}

const tellSources = makeLegend(byId('sources'), sources);
const sourceBars = sources.map(({ name }) => element('i', { class: name }));
byId('sources-bar').append(...sourceBars);

const tellOutcomes = makeLegend(byId('outcomes-legend'), outcomes);
const outcomeChart = new Chart(byId('outcomes'), outcomes.map(({ name }) => name), {
  label: 'Checks per second by outcome, the last two minutes',
  format: (number) => `${rate(number)} /s`,
  isStacked: true,
  onCursor: showOutcomes,
});
byId('rule').addEventListener('change', update);

// What stands for a rule, a backend, a zone: built when the configuration has changed.
let configured = '';
let rows = {};
let backendCards = {};
let zoneCards = {};

const columns = [
  { label: 'Checked', of: all },
  { label: 'Rejected', of: refused, hasShare: true },
  { label: 'Would reject', of: ['dry_run_rejected'], hasShare: true },
  { label: 'Delayed', of: ['delayed', 'local_delayed', 'dry_run_delayed'] },
  { label: 'Local', of: local },
  { label: 'No verdict', of: failed },
];

function buildRule({ id, zone, name, counts }) {
  const spark = new Spark(outcomes.map((outcome) => outcome.name));
  const labels = [...columns.map(({ label }) => label), 'Rejected in all'];
  const cells = labels.map((label) => cell('', { class: 'number', 'data-label': label }));
  const limit = `${counts.algorithm}, limit ${counts.limit} per ${duration(counts.window_seconds)}`;
  const title = element('th', { scope: 'row' }, name, element('small', {}, `${limit}, zone ${zone}`));
  byId('rules').tBodies[0].append(
    element('tr', {}, title, cell(spark.svg, { class: 'drawing' }), ...cells));
  rows[id] = { spark, cells };
}

function buildBackend(name, { mode }) {
  const state = element('span', { class: 'state' });
  const list = element('dl');
  const facts = {};
  for (const label of ['checks /s', 'errors /s', 'pending', ...percentiles, 'longest', 'reconnects']) {
    const swatch = percentiles.includes(label) ? { class: label } : {};
    facts[label] = element('dd');
    list.append(element('div', {}, element('dt', swatch, label), facts[label]));
  }
  const errors = element('p', { class: 'note' });
  const place = element('div', { class: 'chart small' });
  const chart = new Chart(place, percentiles, {
    label: `Latency of ${name}: p50, p90 and p99, the last two minutes`,
    format: seconds,
  });
  const title = heading(`${name} `, element('span', { class: 'unit' }, mode), state);
  byId('backends').append(element('div', { class: 'panel' }, title, list, errors, place));
  backendCards[name] = { state, facts, errors, chart };
}

function buildZone(name) {
  const memory = element('span', { class: 'unit' });
  const used = element('i', { class: 'passed' });
  const note = element('p', { class: 'note' });
  const keys = element('tbody');
  const titles = ['/s', 'in all'].map((title) => element('th', { scope: 'col', class: 'number' }, title));
  const head = element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Key'), ...titles));
  byId('zones').append(element('div', { class: 'panel' }, heading(name, memory),
    element('div', { class: 'bar', 'aria-hidden': 'true' }, used), note, element('table', {}, head, keys)));
  zoneCards[name] = { memory, used, note, keys };
}

function buildSelect(rules) {
  const select = byId('rule');
  const selected = select.value;
  const ids = rules.map(({ id }) => id);
  select.replaceChildren(element('option', { value: '' }, 'all'),
    ...ids.map((id) => element('option', { value: id }, id)));
  select.value = ids.includes(selected) ? selected : '';
}

function build(status) {
  const rules = rulesOf(status);
  const backends = Object.entries(status.backends);
  const configuration = JSON.stringify([
    rules.map(({ id, counts }) => [id, counts.algorithm, counts.limit, counts.window_seconds]),
    backends.map(([name, { mode }]) => [name, mode]),
  ]);
  if (configuration === configured) return;
  configured = configuration;
  looks.splice(0, looks.length - 1); // those before know other rules
  [rows, backendCards, zoneCards] = [{}, {}, {}];
  for (const place of [byId('rules').tBodies[0], byId('backends'), byId('zones')]) {
    place.replaceChildren();
  }
  rules.forEach(buildRule);
  backends.forEach(([name, backend]) => buildBackend(name, backend));
  Object.keys(status.zones).forEach(buildZone);
  buildSelect(rules);
}

// The numbers of the legend: now, or where the cursor is.
function showOutcomes() {
  const at = looks.length - 1 - outcomeChart.back;
  const isNow = outcomeChart.back === 0 || at < 1;
  tellOutcomes(outcomes.map(({ of }) => {
    const read = countOf(of, byId('rule').value);
    return `${rate(isNow ? recent(read) : growth(looks[at - 1], looks[at], read))} /s`;
  }));
}

function showTotals(status) {
  const checked = recent(countOf(all));
  const rejected = recent(countOf(refused));
  const latencies = Object.values(status.backends).map((backend) => backend.latency_seconds.p99);
  byId('checked').textContent = rate(checked);
  byId('rejected').textContent = rate(rejected);
  byId('rejected-share').textContent = checked > 0 ? `${share(rejected, checked)} of the checks` : '';
  byId('latency').textContent = seconds(Math.max(0, ...latencies));
  const rates = sources.map(({ of }) => Math.max(0, recent(totalOf(of))));
  tellSources(rates.map((number) => share(number, checked)));
  rates.forEach((number, i) => {
    sourceBars[i].style.width = `${checked > 0 ? (100 * number) / checked : 0}%`;
  });
}

function showRule({ id, counts }) {
  const { spark, cells } = rows[id];
  spark.draw(outcomes.map(({ of }) => history(countOf(of, id))));
  const rates = columns.map(({ of }) => recent(countOf(of, id)));
  columns.forEach(({ hasShare }, i) => {
    const number = i > 0 && rates[i] === 0 ? '·' : rate(rates[i]);
    const part = hasShare && rates[i] > 0 ? element('small', {}, ` ${share(rates[i], rates[0])}`) : '';
    cells[i].replaceChildren(number, part);
  });
  cells[1].classList.toggle('much', rates[1] > 0);
  cells.at(-1).textContent = count(sum(counts, refused));
}

// What rules on trial would do, beside what their zone's rules in force do.
function showTrials(rules) {
  const isTrial = ({ counts }) => counts.dry_run_rejected + counts.dry_run_delayed > 0;
  const texts = rules.filter(isTrial).map(({ id, zone, name }) => {
    const others = rules.filter((rule) => rule.zone === zone && !isTrial(rule));
    const beside = others.reduce((total, other) => total + recent(countOf(refused, other.id)), 0);
    const would = recent(countOf(['dry_run_rejected'], id));
    return `Dry run ${name}: would reject ${rate(would)} /s (${share(would, recent(countOf(all, id)))}); `
      + `the rules in force of its zone reject ${rate(beside)} /s.`;
  });
  byId('trials').textContent = texts.join(' ');
}

// What is wrong with a Redis, by the last two seconds; null if nothing is.
function troubleOf(name, backend) {
  if (backend.state === 'down') return { level: 'bad', word: 'down', text: `Redis “${name}” is down` };
  const grows = (kind) => recent((status) => status.backends[name].errors[kind], 2) > 0;
  if (grows('breaker')) {
    const text = `Redis “${name}” does not answer, its breaker is open`;
    return { level: 'bad', word: 'breaker open', text };
  }
  const kinds = Object.keys(backend.errors).filter(grows);
  if (kinds.length === 0) return null;
  const text = `Redis “${name}”: checks without a verdict (${kinds.join(', ')})`;
  return { level: 'warning', word: 'errors', text };
}

function showBackend(name, backend) {
  const { state, facts, errors, chart } = backendCards[name];
  const fine = { level: backend.state === 'up' ? 'good' : 'unknown', word: backend.state };
  const { level, word } = troubleOf(name, backend) ?? fine;
  state.textContent = word;
  state.className = `state ${level}`;
  const kinds = Object.keys(backend.errors);
  const tell = (label, text) => { facts[label].textContent = text; };
  tell('checks /s', rate(recent((status) => status.backends[name].checks)));
  tell('errors /s', rate(recent((status) => sum(status.backends[name].errors, kinds))));
  tell('pending', count(backend.pending));
  for (const percentile of percentiles) tell(percentile, seconds(backend.latency_seconds[percentile]));
  tell('longest', seconds(backend.latency_seconds.max));
  tell('reconnects', count(backend.reconnects));
  const known = kinds.filter((kind) => backend.errors[kind] > 0);
  errors.textContent = known.length > 0
    ? `Checks without a verdict: ${known.map((kind) => `${kind} ${count(backend.errors[kind])}`).join(', ')}.`
    : 'Every check got its verdict.';
  chart.draw(percentiles.map((percentile) =>
    looks.map(({ status }) => status.backends[name].latency_seconds[percentile])));
}

// How often a key was rejected by then: where it is not told of, at most as often as the last one.
function rejectedOf(tops, key) {
  const known = tops.find((top) => top.key === key);
  return (known ?? (tops.length < keysTold ? { rejected: 0 } : tops.at(-1))).rejected;
}

// Those rejected most now, then those rejected most.
function busiestKeys(name, zone) {
  const rejected = (status, key) => rejectedOf(status.zones[name].top_rejected, key);
  return zone.top_rejected
    .map(({ key, rejected: total }) => ({ key, total, now: recent((status) => rejected(status, key)) }))
    .sort((one, other) => other.now - one.now || other.total - one.total)
    .slice(0, keysShown);
}

function showZone(name, zone) {
  const { memory, used, note, keys } = zoneCards[name];
  const [held, size] = [zone.used_bytes, zone.size_bytes];
  memory.textContent = `${bytes(held)} of ${bytes(size)}, ${count(zone.entries)} entries`;
  used.style.width = `${(100 * held) / size}%`;
  note.textContent = zone.evictions > 0
    ? `${count(zone.evictions)} entries had to make room: a larger zone would keep them.` : '';
  const lines = busiestKeys(name, zone).map(({ key, total, now }) => element('tr', {},
    cell(key === '' ? '(empty)' : key, { class: 'key' }), cell(now > 0 ? rate(now) : '·'), cell(count(total))));
  const none = 'No key has been rejected, or none are kept (top_keys=off).';
  const empty = element('tr', {}, cell(none, { class: 'empty', colspan: 3 }));
  keys.replaceChildren(...(lines.length > 0 ? lines : [empty]));
}

// The sentence at the top. Only another level is announced: its numbers change each second.
function showHealth(level, text, title, isStale = false) {
  const health = byId('health');
  if (health.className !== level) byId('announcement').textContent = text;
  health.className = level;
  health.textContent = text;
  document.title = `${title}redis_rate_limit`;
  document.body.classList.toggle('stale', isStale);
}

// What an outage does to requests.
function effects() {
  const kinds = [
    [local, (number) => `this host alone decides ${number} /s`],
    [['error_open'], (number) => `${number} /s pass unchecked`],
    [['error_closed'], (number) => `${number} /s are refused`],
  ];
  return kinds.map(([of, tell]) => [recent(countOf(of)), tell])
    .filter(([number]) => number > 0)
    .map(([number, tell]) => tell(rate(number)));
}

function tellHealth(status) {
  const troubles = Object.entries(status.backends)
    .map(([name, backend]) => troubleOf(name, backend))
    .filter((trouble) => trouble !== null);
  if (troubles.length > 0) {
    const isBad = troubles.some(({ level }) => level === 'bad');
    const text = [troubles.map((trouble) => trouble.text).join('; '), ...effects()].join(' – ');
    showHealth(isBad ? 'bad' : 'warning', text, isBad ? '⚠ Redis · ' : '');
    return;
  }
  const rejected = recent(countOf(refused));
  const much = rejected > 0
    ? `rejecting ${share(rejected, recent(countOf(all)))} of the checks` : 'nothing is rejected';
  showHealth('good', `Redis answers, ${much}`, '');
}

function update() {
  if (looks.length === 0) return;
  const { status } = looks.at(-1);
  const rules = rulesOf(status);
  const workers = `${status.workers} ${status.workers === 1 ? 'worker' : 'workers'}`;
  byId('server').textContent = `${status.version} on nginx ${status.nginx_version}, ${workers}, `
    + `counting for ${duration(status.uptime_seconds)}`;
  tellHealth(status);
  showTotals(status);
  outcomeChart.draw(outcomes.map(({ of }) => history(countOf(of, byId('rule').value))));
  if (outcomeChart.back === 0) showOutcomes();
  rules.forEach(showRule);
  showTrials(rules);
  Object.entries(status.backends).forEach(([name, backend]) => showBackend(name, backend));
  Object.entries(status.zones).forEach(([name, zone]) => showZone(name, zone));
}

function tellNoData(error) {
  const last = looks.at(-1);
  const age = last && duration(Math.round((performance.now() - last.time) / 1000));
  const since = last ? `, the numbers below are ${age} old` : '';
  const text = `nginx does not answer: status.json cannot be fetched (${error.message})${since}`;
  showHealth('bad', text, '⚠ no data · ', true);
}

async function fetchStatus() {
  const signal = AbortSignal.timeout(patience);
  const response = await fetch('status.json', { cache: 'no-store', signal });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

async function look() {
  const status = await fetchStatus().catch(tellNoData);
  setTimeout(look, interval);
  if (status === undefined) return;
  looks.push({ time: performance.now(), status });
  if (looks.length > shown) looks.shift();
  build(status);
  update();
}

look();
