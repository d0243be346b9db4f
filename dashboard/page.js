'use strict';

// Asks for status.json each second and shows what it says.

const interval = 1000; // ms between two requests of status.json
const patience = 2000; // ms for one answer

const tellSources = makeLegend(byId('sources'), sources);
const sourceBars = sources.map(({ name }) => element('i', { class: name }));
byId('sources-bar').append(...sourceBars);

function showTotals(status, rules, total) {
  const rejected = sum(total, refused);
  const inForce = rules.filter((rule) => !rule.isDryRun);
  const checked = inForce.reduce((checks, { rates }) => checks + sum(rates, all), 0);
  const whose = inForce.length < rules.length ? ' by rules in force' : '';
  const latencies = Object.values(status.backends).map((backend) => backend.latency_seconds.p99);
  tell(byId('checked'), rate(sum(total, all)));
  tell(byId('rejected'), rate(rejected));
  tell(byId('rejected-share'), checked > 0 ? `${share(rejected, checked)} of the checks${whose}` : '');
  tell(byId('latency'), seconds(Math.max(0, ...latencies)));
  const rates = sources.map(({ of }) => of(total));
  const whole = rates.reduce((one, other) => one + other, 0);
  tellSources(rates.map((number) => share(number, whole)));
  rates.forEach((number, i) => {
    sourceBars[i].style.width = `${whole > 0 ? (100 * number) / whole : 0}%`;
  });
}

// What stands for rules, backends and zones is built when the configuration has changed.
let configured = '';

function build(status) {
  const rules = rulesOf(status);
  const configuration = JSON.stringify([
    rules.map(({ id, counts }) => [id, limitOf(counts)]),
    Object.entries(status.backends).map(([name, { mode, servers }]) => [name, mode, servers]),
    Object.keys(status.zones),
  ]);
  if (configuration === configured) return;
  buildRules(rules);
  buildBackends(status.backends);
  buildZones(status.zones);
  buildSelect(rules);
  configured = configuration;
}

function update() {
  const { status } = last;
  const axis = makeAxis();
  const total = ratesOf(everyRule);
  const rules = currentRules();
  const workers = `${status.workers} ${status.workers === 1 ? 'worker' : 'workers'}`;
  tell(byId('server'), `${status.version} on nginx ${status.nginx_version}, ${workers}, `
    + `counting for ${duration(status.uptime_seconds)}`);
  tellHealth(status, rules, total);
  showTotals(status, rules, total);
  drawRates(axis);
  showRules(rules, axis);
  showBackends(status.backends, axis);
  showZones(status.zones, rules);
}

function take(status, time) {
  try {
    addSample(status, time);
    build(status);
    update();
  } catch (error) {
    console.error(error);
    tellNoData(`This page fails: ${error.message}`);
  }
}

async function fetchStatus() {
  let response;
  let text;
  try {
    response = await fetch('status.json', { cache: 'no-store', signal: AbortSignal.timeout(patience) });
    text = await response.text();
  } catch (error) {
    throw new Error(`nginx does not answer: status.json cannot be fetched (${error.message})`);
  }
  if (!response.ok) throw new Error(`nginx answered status.json with ${response.status}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('nginx answered status.json with what is no JSON');
  }
}

async function poll() {
  const status = await fetchStatus().catch((error) => tellNoData(error.message));
  if (status !== undefined) take(status, Date.now());
  setTimeout(poll, interval);
}

poll();
