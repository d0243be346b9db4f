'use strict';

// What stands for each Redis: how it is, and how long it takes.

const backendCards = new Map(); // of names

function buildBackend(name, { mode, servers }) {
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
    onChoice: () => showLatency(name),
  });
  const title = heading(name, element('span', { class: 'unit mode foreign' }, `${mode}, ${servers.join(', ')}`), state);
  byId('backends').append(element('div', { class: 'panel' }, title, list, errors, place));
  backendCards.set(name, { state, facts, errors, chart });
}

function buildBackends(backends) {
  backendCards.clear();
  byId('backends').replaceChildren();
  Object.entries(backends).forEach(([name, backend]) => buildBackend(name, backend));
}

// What is wrong with a Redis, by the last two seconds; null if nothing is.
function troubleOf(name, { state, errors, live_limits_followed: isFollowed = true }) {
  if (state === 'down') return { level: 'bad', word: 'down', text: `Redis “${name}” is down` };
  const grows = (kind) => recent((grew) => grew.backends.get(name)?.errors[kind], newest(2)) > 0;
  if (grows('breaker')) {
    const text = `Redis “${name}” does not answer, its breaker is open`;
    return { level: 'bad', word: 'breaker open', text };
  }
  const kinds = Object.keys(errors).filter(grows);
  if (kinds.length > 0) {
    const text = `Redis “${name}”: checks without a verdict (${kinds.join(', ')})`;
    return { level: 'warning', word: 'errors', text };
  }
  if (isFollowed) return null;
  const text = `What operators set in Redis “${name}” does not reach this host`;
  return { level: 'warning', word: 'live limits not followed', text };
}

// Now, or where the line in the chart is.
function showLatency(name) {
  const { facts, chart } = backendCards.get(name);
  const latency = samples.at(-1 - chart.back)?.latencies.get(name) ?? last.status.backends[name].latency_seconds;
  for (const percentile of percentiles) tell(facts[percentile], seconds(latency[percentile]));
  tell(facts.longest, seconds(latency.max));
}

const latencyHistory = (name, percentile) => samples.map(({ latencies }) => latencies.get(name)?.[percentile] ?? 0);

// `longest` is where the scale of its chart ends at least.
function showBackend(name, backend, axis, longest) {
  const { state, facts, errors, chart } = backendCards.get(name);
  const fine = { level: backend.state === 'up' ? 'good' : 'unknown', word: backend.state };
  const { level, word } = troubleOf(name, backend) ?? fine;
  tell(state, word);
  state.className = `state ${level}`;
  const kinds = Object.keys(backend.errors);
  const perSecond = (read) => rate(recent(({ backends }) => backends.has(name) && read(backends.get(name))));
  tell(facts['checks /s'], perSecond(({ checks }) => checks));
  tell(facts['errors /s'], perSecond((grew) => sum(grew.errors, kinds)));
  tell(facts.pending, count(backend.pending));
  tell(facts.reconnects, count(backend.reconnects));
  const known = kinds.filter((kind) => backend.errors[kind] > 0);
  tell(errors, known.length > 0
    ? `Checks without a verdict: ${known.map((kind) => `${kind} ${count(backend.errors[kind])}`).join(', ')}.`
    : 'Every check got its verdict.');
  chart.draw(axis, percentiles.map((percentile) => latencyHistory(name, percentile)), longest);
  showLatency(name);
}

// All charts have one scale, so that a slow Redis looks slow beside a fast one.
function showBackends(backends, axis) {
  const longest = highestOf(Object.keys(backends).map((name) => latencyHistory(name, 'p99')));
  Object.entries(backends).forEach(([name, backend]) => showBackend(name, backend, axis, longest));
}
